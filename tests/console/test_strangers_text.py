"""Keys are strangers' text: they are shown as they are, and do nothing."""

import httpx2
import pytest
from playwright.sync_api import Error, expect

from tests.api.calls import create_sketch, post_events, release
from tests.console.browser import Console

pytestmark = pytest.mark.long

_KEYS = [
    "<script>document.title = 'broken'</script>",
    "<img src=x onerror=\"document.title = 'broken'\">",
    "</text></svg><script>1</script>",
    "\"double\" 'single' `back` &amp; ]]>",
    "שלום עולם",
    "\u202eright to left override",
    "a\nline, a\ttab",
    "\u0001 and \uffff",
    "x" * 512,
    "🙂 naïve",
]


@pytest.fixture
def strange(admin: httpx2.Client) -> str:
    admin.put(
        "/v1/sketches/strange",
        json={"k": 64, "budget": {"epsilon": "90", "delta": "1e-3"}, "description": "<b>bold</b> " + "y" * 300},
    )
    assert post_events(admin, [{"key": key, "count": 5000} for key in _KEYS], "strange").status_code == 200
    assert release(admin, "strange", epsilon="9").status_code == 201
    return "strange"


def test_keys_are_shown_as_text(console: Console, strange: str) -> None:
    console.sign_in()
    console.show(f"/sketches/{strange}", strange)
    assert sorted(row[0] for row in console.cells("Counts")) == sorted(_KEYS)
    picture = console.page.get_by_role("img", name=f"Noisy counts as bars ({len(_KEYS)})")
    assert picture.evaluate("image => image.complete && image.naturalHeight > 400")
    expect(console.page.get_by_text("<b>bold</b>")).to_be_visible()
    assert console.page.title() == "strange · Discreet"
    assert console.complaints == []


def test_they_do_not_widen_a_phone(console: Console, strange: str) -> None:
    console.page.set_viewport_size({"width": 360, "height": 740})
    console.sign_in()
    console.show(f"/sketches/{strange}", strange)
    assert console.overflow() == 0
    picture = console.page.get_by_role("img", name="Noisy counts as bars")
    assert picture.evaluate("image => image.height === image.naturalHeight")  # letters keep their size


def test_the_policy_forbids_inline_code_and_parsing_text_as_html(console: Console, admin: httpx2.Client) -> None:
    policy = admin.get("/").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "*" not in policy
    with pytest.raises(Error, match="TrustedHTML"):
        console.page.evaluate("() => { document.body.innerHTML = '<p>text</p>' }")
    console.page.evaluate("() => document.body.setAttribute('style', 'color: red')")
    assert any("style-src" in complaint for complaint in console.complaints)


def test_a_request_to_elsewhere_would_be_stopped_and_seen(console: Console) -> None:
    console.page.evaluate("() => fetch('http://127.0.0.1:9/').catch(() => null)")
    assert any("Content Security Policy" in complaint for complaint in console.complaints)


def test_a_sketch_with_the_longest_name_fits_a_phone(console: Console, admin: httpx2.Client) -> None:
    name = "n" * 100
    create_sketch(admin, name)
    console.page.set_viewport_size({"width": 360, "height": 740})
    console.sign_in()
    expect(console.heading("Sketches")).to_be_visible()
    assert console.overflow() == 0
    for view, heading in ((f"/sketches/{name}", name), (f"/ledgers/{name}", f"Ledger {name}")):
        console.show(view, heading)
        assert console.overflow() == 0
