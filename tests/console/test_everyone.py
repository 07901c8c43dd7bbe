"""Usable by keyboard alone, by screen readers, in light and dark, and on a phone."""

from collections.abc import Iterator
from typing import Literal

import httpx2
import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from tests.api.calls import create_sketch, post_events, release
from tests.conftest import ADMIN_KEY
from tests.console.browser import Console, Keyboard
from tests.server import Server

pytestmark = pytest.mark.long

_PHONE, _DESK = (360, 740), (1200, 900)
_VIEWS = {
    "list": ("/", "Sketches"),
    "new": ("/new", "New sketch"),
    "sketch": ("/sketches/seen", "seen"),
    "empty": ("/sketches/empty", "empty"),
    "ledger": ("/ledgers/seen", "Ledger seen"),
    "zcdp": ("/ledgers/zcdp", "Ledger zcdp"),
    "missing": ("/sketches/missing", "This cannot be shown"),
}
# What Tab should stop at, in the order of the page: of radio buttons the checked one alone.
_STOPS = """() => [...document.querySelectorAll("a[href], button, input, select, [tabindex='0']")]
    .filter(each => each.checkVisibility() && !each.disabled && (each.type !== "radio" || each.checked))
    .map(each => each.outerHTML)"""
_STOP = "() => document.activeElement.outerHTML"


@pytest.fixture(scope="module", autouse=True)
def _filled(admin: httpx2.Client) -> None:
    create_sketch(admin, "empty")
    create_sketch(admin, "seen", epsilon="1")
    post_events(admin, [{"key": f"/page/{number}", "count": 9000 // number} for number in range(1, 31)], "seen")
    for epsilon in ("0.5", "0.4"):
        assert release(admin, "seen", epsilon=epsilon).status_code == 201
    admin.put("/v1/ledgers/zcdp", json={"epsilon": "3", "delta": "1e-5", "accountant": "zcdp"})
    admin.put("/v1/sketches/shared", json={"k": 64, "ledger": "zcdp"})
    for _ in range(3):
        assert release(admin, "shared", delta="1e-7").status_code == 201


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[_PHONE, _DESK], ids=["phone", "desk"])
def coloured(
    browser: Browser, server: Server, scheme: Literal["light", "dark"], request: pytest.FixtureRequest
) -> Iterator[Console]:
    width, height = request.param
    with browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height}) as context:
        console = Console(context.new_page(), server.url)
        console.open()
        yield console


def test_no_view_has_accessibility_faults_or_scrolls_sideways(coloured: Console) -> None:
    found = {"sign in": (coloured.accessibility_faults(), coloured.overflow())}
    coloured.sign_in("wrong")
    expect(coloured.page.get_by_role("alert")).to_be_visible()
    found["refused"] = (coloured.accessibility_faults(), coloured.overflow())
    coloured.sign_in()
    expect(coloured.heading("Sketches")).to_be_visible()
    for name, (view, heading) in _VIEWS.items():
        coloured.show(view, heading)
        if name == "sketch":
            coloured.plan("0.5", expected="1000")
        found[name] = (coloured.accessibility_faults(), coloured.overflow())
    coloured.show("/sketches/seen", "seen")
    coloured.plan("0.5")
    coloured.button("Release with").click()
    found["dialog"] = (coloured.accessibility_faults(), coloured.overflow())
    coloured.page.get_by_role("dialog").get_by_role("button", name="Charge").click()
    expect(coloured.page.get_by_role("alert")).to_contain_text("does not cover")
    found["no budget"] = (coloured.accessibility_faults(), coloured.overflow())
    assert found == dict.fromkeys(found, ([], 0))


def test_faults_would_be_found(console: Console) -> None:
    console.page.evaluate("() => document.body.append(document.createElement('input'))")
    assert any(fault.startswith("label:") for fault in console.accessibility_faults())
    console.page.evaluate("() => { document.body.lastChild.size = 500; document.body.lastChild.style.width = '300vw' }")
    assert console.overflow() > 0


def test_colours_follow_the_system_until_the_person_chooses(coloured: Console, scheme: str) -> None:
    def is_dark() -> bool:
        dark: bool = coloured.page.evaluate(
            "() => getComputedStyle(document.body).backgroundColor === 'rgb(16, 22, 28)'"
        )
        return dark

    assert is_dark() == (scheme == "dark")
    coloured.button("colours").click()
    assert is_dark() != (scheme == "dark")
    coloured.page.reload()
    assert is_dark() == (scheme == "dark")


@pytest.mark.parametrize("name", _VIEWS)
def test_tab_stops_at_every_control_in_the_order_of_the_page(console: Console, name: str) -> None:
    console.sign_in()
    expect(console.heading("Sketches")).to_be_visible()
    view, heading = _VIEWS[name]
    console.show(view, heading)
    if name == "sketch":
        console.plan("0.05")
    expected = console.page.evaluate(_STOPS)
    console.page.locator("#skip").focus()
    keyboard = Keyboard(console.page)
    reached = [console.page.evaluate(_STOP)]
    for _ in expected[1:]:
        keyboard.press("Tab")
        reached.append(console.page.evaluate(_STOP))
    assert reached == expected


def test_who_tabs_on_while_a_view_loads_is_not_pulled_back(console: Console) -> None:
    console.sign_in()
    expect(console.heading("Sketches")).to_be_focused()
    held: list[Route] = []
    console.page.route("**/v1/sketches/empty", lambda route: held.append(route))
    console.page.get_by_role("link", name="empty").click()
    expect(console.page.locator("main")).to_have_attribute("aria-busy", "true")
    console.button("Sign out").focus()
    while not held:
        console.page.wait_for_timeout(10)
    held[0].continue_()
    expect(console.heading("empty")).to_be_visible()
    expect(console.button("Sign out")).to_be_focused()


def test_everything_can_be_done_by_keyboard_alone(console: Console, admin: httpx2.Client) -> None:
    page, keyboard = console.page, Keyboard(console.page)
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(ADMIN_KEY)
    keyboard.press("Enter")
    expect(console.heading("Sketches")).to_be_focused()

    keyboard.tab_to(page.get_by_role("link", name="New sketch"))
    keyboard.press("Enter")
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.keyboard.type("by-keyboard")
    keyboard.type_into(page.get_by_label("Counters"), "64")
    keyboard.tab_to(page.get_by_label("Accountant"))
    keyboard.press("ArrowDown", "ArrowUp")
    expect(page.get_by_label("Accountant")).to_have_value("basic")
    keyboard.tab_to(console.button("Make the sketch"))
    keyboard.press("Space")
    expect(console.heading("by-keyboard")).to_be_focused()
    post_events(admin, [{"key": "/home", "count": 900}, {"key": "/pricing", "count": 700}], "by-keyboard")

    keyboard.type_into(page.get_by_label("ε", exact=True), "0.5")
    keyboard.press("Enter")
    keyboard.tab_to(page.get_by_role("radio", name="pmg"))
    keyboard.press("ArrowDown")
    expect(console.button("Release with reduced-approx")).to_be_visible()
    keyboard.press("ArrowUp")
    release_button = console.button("Release with pmg")
    keyboard.tab_to(release_button)
    keyboard.press("Enter")
    _dialog_keeps_the_focus(page.get_by_role("dialog"), keyboard)
    keyboard.press("Escape")
    expect(release_button).to_be_focused()
    expect(release_button).not_to_have_attribute("aria-busy", "true")  # until it has heard the answer
    keyboard.press("Enter")
    keyboard.tab_to(page.get_by_role("dialog").get_by_role("button", name="Charge"))
    keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Histogram")).to_be_focused()

    keyboard.type_into(page.get_by_label("Largest"), "1")
    keyboard.press("Enter")
    expect(page.get_by_role("img", name="Noisy counts as bars (1)")).to_be_visible()

    keyboard.press("Control+Home")
    keyboard.tab_to(console.button("Close the sketch"))
    keyboard.press("Enter")
    keyboard.tab_to(page.get_by_role("dialog").get_by_role("button", name="Close it for good"))
    keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Events")).to_be_focused()

    keyboard.tab_to(page.get_by_role("link", name="by-keyboard"))
    keyboard.press("Enter")
    expect(console.heading("Ledger by-keyboard")).to_be_focused()
    keyboard.tab_to(page.get_by_role("link", name="Skip to the content"))
    keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    keyboard.tab_to(page.get_by_role("button", name="colours"))
    keyboard.press("Space")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    keyboard.tab_to(console.button("Sign out"))
    keyboard.press("Enter")
    expect(page.get_by_label("API key")).to_be_focused()
    assert console.complaints == []


def _dialog_keeps_the_focus(dialog: Locator, keyboard: Keyboard) -> None:
    """It starts on the harmless button, and Tab never gets behind the dialog."""
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    for _ in range(5):
        keyboard.press("Tab")
        assert keyboard.page.evaluate(
            "() => document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    keyboard.tab_to(dialog.get_by_role("button", name="Cancel"))


def test_the_documentation_is_one_click_away(console: Console) -> None:
    console.page.get_by_role("link", name="API docs").click()
    expect(console.page).to_have_title("Discreet API")
