"""A browser and a server for each module, a fresh page for each test. SQLite alone: a page sees no difference."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.console.browser import FLAGS, Console, chromium
from tests.server import Server, running

expect.set_options(timeout=20_000)  # the machine may have more to do


@pytest.fixture(scope="module")  # not longer: while it runs, so does an event loop in this thread
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("console") / "console.db"
    with running(f"sqlite:///{path}") as server:  # `browser` first: without one there is nothing to start for
        yield server


@pytest.fixture(scope="module")
def admin(server: Server) -> Iterator[httpx2.Client]:
    """The API beside the page, for what a person does elsewhere."""
    with server.client() as client:
        yield client


@pytest.fixture
def console(browser: Browser, server: Server) -> Iterator[Console]:
    with browser.new_context() as context:
        console = Console(context.new_page(), server.url)
        console.open()
        yield console
