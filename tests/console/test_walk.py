"""From a key to a refused release, with a mouse."""

import re
import shutil
import subprocess

import httpx2
import pytest
from playwright.sync_api import Route, expect

from tests.api.calls import create_sketch, post_events, release
from tests.conftest import ADMIN_KEY
from tests.console.browser import NOTHING, STORED, Console

pytestmark = pytest.mark.long

_EVENTS = [{"key": "/home", "count": 12_000}, {"key": "/pricing", "count": 3000}, "/secret-offer"]


def test_the_console_takes_a_person_from_a_key_to_a_refused_release(console: Console, admin: httpx2.Client) -> None:
    page = console.page
    console.sign_in()
    page.get_by_role("link", name="New sketch").click()
    page.get_by_label("Name", exact=True).fill("page-views")
    page.get_by_label("Description").fill("Page views of the shop")
    console.button("Make the sketch").click()
    expect(console.heading("page-views")).to_be_visible()
    console.said("page-views is made")
    expect(page.get_by_role("meter").first).to_have_attribute("aria-valuetext", "0 of 1 spent")

    assert post_events(admin, _EVENTS, "page-views").status_code == 200

    console.plan("0.5", expected="15000")
    [first, *_] = console.cells("What each mechanism would give")
    assert first[0] == "pmg"
    assert first[5:] == ["ε\u00a00.5 and δ\u00a01e-6", "2"]
    console.button("Release with pmg: charge ε 0.5 and δ 1e-6").click()
    dialog = page.get_by_role("dialog", name="Release page-views?")
    expect(dialog).to_contain_text("This charges ε 0.5 and δ 1e-6 to the ledger page-views, for good.")
    dialog.get_by_role("button", name="Charge ε 0.5 and δ 1e-6").click()

    picture = page.get_by_role("img", name="Noisy counts as bars (2)")
    expect(picture).to_be_visible()
    console.said("Released. Charged: ε 0.5 and δ 1e-6.")
    assert [row[0] for row in console.cells("Counts")] == ["/home", "/pricing"]
    expect(page.get_by_text("Protects any one event from whoever sees this snapshot")).to_be_visible()
    expect(page.get_by_role("meter").first).to_have_attribute("aria-valuetext", "0.5 of 1 spent")
    [paid] = [request for request in console.requests if request.method == "POST" and "/snapshots" in request.url]
    assert re.fullmatch(r"console-[0-9a-f]{32}", paid.headers["idempotency-key"])
    assert console.complaints == []

    console.plan("0.75")
    expect(page.get_by_text("The budget does not cover this release as it stands.")).to_be_visible()
    console.button("Release with").click()
    dialog.get_by_role("button", name="Charge").click()
    refusal = page.get_by_role("alert")
    expect(refusal).to_contain_text("The privacy budget does not cover this release")
    expect(refusal).to_contain_text("page-views has ε 0.5 and δ 9e-6 left")
    refusal.get_by_role("button", name="Plan ε 0.5 instead").click()
    expect(console.button("Release with pmg: charge ε 0.5 and δ 1e-6")).to_be_visible()

    page.get_by_role("link", name="page-views").click()
    expect(console.heading("Ledger page-views")).to_be_visible()
    expect(page.get_by_role("img", name="ε over time: 0.5 of 1 spent")).to_be_visible()
    expect(page.get_by_text("has paid no more than this")).to_contain_text("P ≤ e^0.5·Q + 1e-6")
    entries = console.cells("Entries, the newest first (3 of 3)")
    assert [(row[0], row[2], row[3], row[4]) for row in entries] == [
        ("3", "release", "0.5", "1e-6"),
        ("2", "sketch made", "0", "0"),
        ("1", "opened with", "1", "1e-5"),
    ]

    [complaint] = console.complaints
    assert complaint.startswith("Failed to load resource: the server responded with a status of 409")
    assert console.outside_requests() == []
    assert page.evaluate(STORED) == NOTHING
    assert not any(ADMIN_KEY.split()[0] + "%20" in request.url for request in console.requests)


def test_a_release_whose_answer_is_lost_is_charged_once(console: Console, admin: httpx2.Client) -> None:
    create_sketch(admin, "lossy")
    lost: list[Route] = []

    def lose_the_first(route: Route) -> None:
        if lost or route.request.method != "POST":
            route.continue_()
            return
        lost.append(route)
        assert route.fetch().status == 201  # the service did its part
        route.abort()

    page = console.page
    page.route("**/v1/sketches/lossy/snapshots*", lose_the_first)
    console.sign_in()
    console.show("/sketches/lossy", "lossy")
    console.plan("0.5")
    charge = page.get_by_role("dialog").get_by_role("button", name="Charge")
    console.button("Release with").click()
    charge.click()
    expect(page.get_by_role("alert")).to_contain_text("No answer")
    console.button("Release with").click()
    charge.click()
    console.said("Released.")
    assert admin.get("/v1/ledgers/lossy").json()["spent"]["epsilon"] == "0.5"


def test_releases_can_be_chosen_and_cut(console: Console, admin: httpx2.Client) -> None:
    create_sketch(admin, "chosen", epsilon="9")
    post_events(
        admin, [{"key": "a", "count": 3000}, {"key": "b", "count": 2000}, {"key": "c", "count": 1000}], "chosen"
    )
    for epsilon in ("1", "2"):
        assert release(admin, "chosen", epsilon=epsilon).status_code == 201
    console.sign_in()
    console.show("/sketches/chosen", "chosen")
    page = console.page
    shown = page.get_by_role("region", name="Counts", exact=True).locator("tbody tr")
    expect(shown).to_have_count(3)
    expect(page.get_by_text("ε 2 and δ 1e-6 to chosen")).to_be_visible()

    older = page.get_by_label("Release", exact=True)
    older.select_option(index=1)
    expect(page.get_by_text("ε 1 and δ 1e-6 to chosen")).to_be_visible()
    page.get_by_label("Count at least").fill("1500")
    page.get_by_label("Count at least").press("Enter")
    expect(shown).to_have_count(2)
    page.get_by_label("Largest").fill("1")
    page.get_by_label("Largest").press("Enter")
    expect(shown).to_have_count(1)
    expect(page.get_by_role("img", name="Noisy counts as bars (1)")).to_be_visible()
    assert console.complaints == []


def test_long_lists_come_in_pages(console: Console, admin: httpx2.Client) -> None:
    for number in range(25):
        create_sketch(admin, f"many-{number:02}", epsilon="9")
    for _ in range(51):
        assert release(admin, "many-00", epsilon="0.01").status_code == 201
    console.sign_in()
    sketches = console.page.locator(".sketches > li")
    expect(sketches).to_have_count(20)
    while console.button("Show more sketches").is_visible():
        before = sketches.count()
        console.button("Show more sketches").click()
        expect(sketches.nth(before).get_by_role("link")).to_be_focused()
    assert "many-24" in console.page.locator(".sketches h2").all_text_contents()

    console.show("/sketches/many-00", "many-00")
    releases = console.page.get_by_label("Release", exact=True).locator("option")
    expect(releases).to_have_count(50)
    console.button("Load older releases").click()
    expect(releases).to_have_count(51)
    expect(console.button("Load older releases")).to_be_hidden()


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page shows a curl line, and curl is not on this machine")
@pytest.mark.parametrize("unit", ["event", "user"])
@pytest.mark.parametrize("enforcement", ["declared", "enforced"])
def test_the_command_that_the_page_shows_works(
    console: Console, admin: httpx2.Client, unit: str, enforcement: str
) -> None:
    name = f"{unit}-{enforcement}"
    console.sign_in()
    console.show("/new", "New sketch")
    page = console.page
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Unit").select_option(unit)
    page.get_by_label("Most of one person").fill("3")
    page.get_by_label("Enforcement").select_option(enforcement)
    console.button("Make the sketch").click()
    command = page.get_by_role("region", name="Command").text_content()
    done = subprocess.run(
        ["bash", "-c", f"{command} -sS"],
        env={"KEY": ADMIN_KEY, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert '"accepted":' in done.stdout, done


def test_a_sketch_may_share_a_ledger_and_be_closed(console: Console, admin: httpx2.Client) -> None:
    admin.put("/v1/ledgers/shared", json={"epsilon": "3", "delta": "1e-5", "accountant": "zcdp"})
    console.sign_in()
    console.show("/new", "New sketch")
    page = console.page
    page.get_by_label("Name", exact=True).fill("sharing")
    page.get_by_label("Paid from").select_option("shared")
    expect(page.get_by_label("ε in all")).to_be_hidden()
    page.get_by_label("Name of the ledger").fill("shared")
    console.button("Make the sketch").click()
    expect(console.heading("sharing")).to_be_visible()

    console.button("Close the sketch").click()
    dialog = page.get_by_role("dialog", name="Close sharing?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(console.button("Close the sketch")).to_be_visible()
    console.button("Close the sketch").click()
    dialog.get_by_role("button", name="Close it for good").click()
    expect(page.get_by_text("It takes no more events; releases go on.")).to_be_visible()
    assert admin.get("/v1/sketches/sharing").json()["closed_at"] is not None

    console.plan("0.5")
    console.button("Release with").click()
    page.get_by_role("dialog").get_by_role("button", name="Charge").click()
    expect(page.get_by_role("img", name="Noisy counts as bars (0)")).to_be_visible()
    page.get_by_role("link", name="shared").click()
    expect(page.get_by_text("zcdp counts ρ instead")).to_be_visible()
    expect(page.get_by_text("every set of answers that 'shared' pays for")).to_contain_text("P ≤ e^3·Q + 1e-5")
    expect(page.get_by_text("Spent, as bookkeeping")).to_be_visible()
    assert console.complaints == []
