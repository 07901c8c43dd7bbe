"""The console as a person uses it, with an eye on what the page does behind one's back."""

import os
import shutil
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect

from tests.conftest import ADMIN_KEY

FLAGS = [
    "--no-sandbox",  # CI runs as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
STORED = """async () => ({
    local: {...localStorage},
    session: {...sessionStorage},
    cookies: document.cookie,
    databases: await indexedDB.databases(),
    caches: await caches.keys(),
    workers: (await navigator.serviceWorker.getRegistrations()).length,
})"""
NOTHING: dict[str, Any] = {"local": {}, "session": {}, "cookies": "", "databases": [], "caches": [], "workers": 0}
_GO_TO = """view => new Promise(resolve => {
    if (location.hash === `#${view}`) resolve();
    addEventListener("hashchange", () => resolve(), {once: true});
    location.hash = view;
})"""
_FOCUSED = "element => element === document.activeElement"
_MOST_STOPS = 80


def chromium() -> str:
    found = shutil.which("chromium")
    if found is None and os.environ.get("CI"):
        pytest.fail("chromium is missing, although CI installs it")
    if found is None:
        pytest.skip("needs Debian's chromium: apt install chromium")
    return found


@dataclass
class Watched:
    """A page with an eye on what it fetches and what it complains about."""

    page: Page
    origin: str
    requests: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # a violated content security policy is one, too

    def __post_init__(self) -> None:
        self.page.context.on("request", lambda request: self.requests.append(request))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location['url']})")

    def outside_requests(self) -> list[str]:
        urls = [request.url for request in self.requests]
        return [url for url in urls if not url.startswith((f"{self.origin}/", f"blob:{self.origin}/", "about:"))]


class Console(Watched):
    """The page at /."""

    def open(self, view: str = "") -> None:
        """Load the page anew, so that it knows no key."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.origin}/#{view}")
        expect(self.heading("Sign in")).to_be_visible()

    def sign_in(self, key: str = ADMIN_KEY) -> None:
        self.page.get_by_label("API key").fill(key)
        self.button("Sign in").click()

    def show(self, view: str, heading: str) -> None:
        """As a link would: the page stays and keeps the key. The view before may have the same heading."""
        self.page.evaluate(_GO_TO, view)
        expect(self.page.locator("main")).not_to_have_attribute("aria-busy", "true")
        expect(self.heading(heading)).to_be_visible()

    def heading(self, words: str) -> Locator:
        return self.page.get_by_role("heading", level=1, name=words, exact=True)

    def button(self, words: str) -> Locator:
        return self.page.get_by_role("button", name=words)

    def said(self, words: str) -> None:
        expect(self.page.get_by_role("status")).to_contain_text(words)

    def cells(self, region: str) -> list[list[str]]:
        """The rows of the table in a region, without its head."""
        rows = self.page.get_by_role("region", name=region, exact=True).locator("tbody tr").all()
        return [row.locator("td").all_text_contents() for row in rows]

    def plan(self, epsilon: str, *, expected: str = "") -> None:
        self.page.get_by_label("ε", exact=True).fill(epsilon)
        self.page.get_by_label("Expected events").fill(expected)
        self.button("Show what it would give").click()
        expect(self.button("Release with")).to_be_visible()

    def accessibility_faults(self) -> list[str]:
        """What axe-core finds, all of its rules on."""
        script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        self.page.evaluate(f"() => {{ {script} }}")
        found = self.page.evaluate("() => axe.run()")
        assert found["passes"]  # it did look
        return [
            f"{fault['id']}: {node['html']} {node['failureSummary']}"
            for fault in found["violations"]
            for node in fault["nodes"]
        ]

    def overflow(self) -> int:
        """How far the page itself scrolls sideways; tables have scrollers of their own."""
        pixels: int = self.page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return pixels


@dataclass
class Keyboard:
    """A person without a mouse."""

    page: Page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def tab_to(self, control: Locator) -> None:
        """On with Tab until it has the focus, which must then be visible."""
        control.wait_for()
        for _ in range(_MOST_STOPS):
            if control.evaluate(_FOCUSED):
                break
            self.press("Tab")
        else:
            pytest.fail(f"Tab does not reach {control}")
        outline = control.evaluate("element => getComputedStyle(element).outlineStyle")
        assert outline != "none", f"no visible focus on {control}"

    def type_into(self, control: Locator, words: str) -> None:
        self.tab_to(control)
        self.press("Control+a")
        self.page.keyboard.type(words)
