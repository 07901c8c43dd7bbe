"""The key: only in memory, and a clear word when it is wrong or may not do something."""

import httpx2
import pytest
from playwright.sync_api import expect

from tests.api.calls import create_sketch
from tests.conftest import ADMIN_KEY
from tests.console.browser import NOTHING, STORED, Console

pytestmark = pytest.mark.long


def _new_key(admin: httpx2.Client, *scopes: str) -> tuple[str, str]:
    made = admin.post("/v1/keys", json={"name": "for a test", "scopes": list(scopes)}).json()
    return made["id"], made["secret"]


@pytest.mark.parametrize("key", ["dsk_wrong", "schlüssel"])
def test_a_wrong_key_is_refused_in_words(console: Console, key: str) -> None:
    console.sign_in(key)
    expect(console.page.get_by_role("alert")).to_contain_text("key")
    expect(console.heading("Sign in")).to_be_visible()


def test_a_key_that_may_not_read_is_told_apart_from_a_wrong_one(console: Console, admin: httpx2.Client) -> None:
    console.sign_in(_new_key(admin, "ingest")[1])
    refusal = console.page.get_by_role("alert")
    expect(refusal).to_contain_text("The key is valid, but may not read")
    expect(refusal).to_contain_text("This needs a key with the scope 'read'.")


def test_what_a_reader_may_not_do_is_refused_in_words(console: Console, admin: httpx2.Client) -> None:
    create_sketch(admin, "guarded")
    console.sign_in(_new_key(admin, "read")[1])
    console.show("/sketches/guarded", "guarded")
    console.plan("0.5")
    console.button("Release with").click()
    console.page.get_by_role("dialog").get_by_role("button", name="Charge").click()
    expect(console.page.get_by_role("alert")).to_contain_text("This needs a key with the scope 'release'.")

    console.show("/new", "New sketch")
    console.page.get_by_label("Name", exact=True).fill("forbidden")
    console.button("Make the sketch").click()
    expect(console.page.get_by_role("alert")).to_contain_text("This needs a key with the scope 'admin'.")


def test_a_reload_forgets_the_key_and_keeps_the_place(console: Console, admin: httpx2.Client) -> None:
    create_sketch(admin, "kept")
    console.sign_in()
    console.show("/sketches/kept", "kept")
    assert console.page.evaluate(STORED) == NOTHING
    console.page.reload()
    expect(console.heading("Sign in")).to_be_visible()
    console.sign_in()
    expect(console.heading("kept")).to_be_visible()
    console.button("Sign out").click()
    expect(console.heading("Sign in")).to_be_visible()
    assert ADMIN_KEY not in console.page.content()


def test_a_revoked_key_leads_back_to_the_sign_in(console: Console, admin: httpx2.Client) -> None:
    key_id, secret = _new_key(admin, "read")
    console.sign_in(secret)
    expect(console.heading("Sketches")).to_be_visible()
    admin.delete(f"/v1/keys/{key_id}")
    console.page.get_by_role("link", name="New sketch").click()
    console.page.get_by_role("link", name="Cancel").click()
    expect(console.heading("Sign in")).to_be_visible()
    console.said("The key is no longer accepted")


def test_what_does_not_exist_is_said(console: Console) -> None:
    console.sign_in()
    console.show("/sketches/nowhere", "This cannot be shown")
    expect(console.page.get_by_role("alert")).to_contain_text("No such sketch")
