"""The documentation page as a person uses it: a real browser, a real server, the examples as they stand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Locator, expect

from tests.conftest import ADMIN_KEY
from tests.console.browser import NOTHING, STORED, Watched
from tests.server import Server, free_port, running

pytestmark = pytest.mark.long


class Docs(Watched):
    """The page at /docs."""

    def show(self) -> None:
        self.page.goto(f"{self.origin}/docs")
        self.page.locator(".opblock").first.wait_for()

    def authorize(self, key: str) -> None:
        self.page.get_by_role("button", name="Authorize").click()
        dialog = self.page.locator(".modal-ux")
        dialog.get_by_role("textbox").fill(key)
        dialog.get_by_role("button", name="Apply credentials").click()
        dialog.get_by_role("button", name="Close").last.click()

    def operation_ids(self) -> list[str]:
        """In the order of the page, whose elements are named operations-{tag}-{operationId}."""
        names: list[str] = self.page.locator(".opblock").evaluate_all("blocks => blocks.map(block => block.id)")
        return [name.split("-")[2] for name in names]

    def opened(self, operation_id: str) -> Locator:
        block = self.page.locator(f".opblock[id$='-{operation_id}']")
        execute = block.get_by_role("button", name="Execute")
        if not execute.is_visible():
            block.locator(".opblock-summary-control").click()
            execute.wait_for()
        return block

    def execute(self, operation_id: str) -> int:
        """Press Execute with everything as it stands; the status that the page then shows."""
        block = self.opened(operation_id)
        with self.page.expect_response(lambda response: response.request.resource_type == "fetch") as answer:
            block.get_by_role("button", name="Execute").click()
        expect(answered(block).locator(".response-col_status").first).to_contain_text(str(answer.value.status))
        return answer.value.status

    def close(self, operation_id: str) -> None:
        """Many open operations make the page slow."""
        self.opened(operation_id).locator(".opblock-summary-control").click()

    def filled_in_options(self, operation_id: str) -> set[tuple[str | None, str]]:
        """Optional parameters that do not start empty."""
        rows = self.opened(operation_id).locator("tr[data-param-name]:not(:has(.required))").all()
        fields = [(row.get_attribute("data-param-name"), field) for row in rows for field in row.locator("input").all()]
        values = {(name, field.input_value()) for name, field in fields}  # a list without items has no field yet
        return {(name, value) for name, value in values if value}


def answered(block: Locator) -> Locator:
    return block.locator(".live-responses-table tbody")


@pytest.fixture
def server(browser: Browser, tmp_path: Path) -> Iterator[Server]:
    """For each test one of its own, because the examples that are sent make and end what they name."""
    with running(f"sqlite:///{tmp_path}/docs.db") as server:
        yield server


@pytest.fixture
def docs(browser: Browser, server: Server) -> Iterator[Docs]:
    with browser.new_context() as context:
        docs = Docs(context.new_page(), server.url)
        docs.show()
        yield docs


def test_the_page_takes_a_person_from_a_sketch_to_a_refused_release(docs: Docs) -> None:
    docs.authorize(ADMIN_KEY)
    assert docs.execute("create_sketch") == 201
    assert docs.execute("post_events") == 200
    assert docs.execute("plan_snapshot") == 200
    assert docs.execute("create_snapshot") == 201
    assert docs.execute("get_histogram") == 200
    expect(answered(docs.opened("get_histogram"))).to_contain_text('"key": "/home"')
    assert docs.complaints == []

    assert docs.execute("create_snapshot") == 201  # the description says that two fit
    assert docs.execute("create_snapshot") == 409
    refusal = answered(docs.opened("create_snapshot"))
    expect(refusal).to_contain_text("urn:discreet:problem:budget-exhausted")
    expect(refusal).to_contain_text("No release at this delta fits any more.")

    assert docs.outside_requests() == []
    [complaint] = docs.complaints
    assert complaint.startswith("Failed to load resource: the server responded with a status of 409")
    assert docs.page.evaluate(STORED) == NOTHING


def test_every_operation_works_with_its_examples_as_they_stand(docs: Docs) -> None:
    document = docs.page.request.get(f"{docs.origin}/openapi.json").json()
    operations = {
        operation["operationId"]: (path, operation)
        for path, methods in document["paths"].items()
        for operation in methods.values()
    }
    assert sorted(docs.operation_ids()) == sorted(operations)
    complete = [name for name in docs.operation_ids() if has_examples(operations[name][1])]
    complete.remove("sum_snapshots")  # its body names ids
    left_out = [path for name, (path, _) in operations.items() if name not in complete]
    assert all(path.endswith(("/{id}", "/sum")) for path in left_out)  # an id that the server makes has no example

    docs.authorize(ADMIN_KEY)
    made = operations["create_sketch"][1]["requestBody"]["content"]["application/json"]["example"]
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    docs.page.request.put(f"{docs.origin}/v1/sketches/app-views", data=made, headers=headers)  # the other of several
    last = ["close_sketch", "delete_sketch"]  # the others need what these end
    complete = [name for name in complete if name not in last] + last
    for name in complete:
        assert docs.filled_in_options(name) <= {("limit", "100")}  # its default; the others are for who wants them
        assert 200 <= docs.execute(name) < 300, name
        docs.close(name)
    assert docs.outside_requests() == []
    assert docs.complaints == []


def has_examples(operation: dict[str, Any]) -> bool:
    """Whether each required parameter has an example; a body without one fails when it is sent."""
    return all(parameter.get("examples") for parameter in operation.get("parameters", []) if parameter["required"])


def test_text_is_posted_as_it_stands_too(docs: Docs) -> None:
    docs.authorize(ADMIN_KEY)
    docs.execute("create_sketch")
    block = docs.opened("post_events")
    block.get_by_label("Request content type").select_option("text/plain")
    assert docs.execute("post_events") == 200
    expect(answered(block)).to_contain_text('"accepted": 3')


def test_a_lock_stands_on_what_needs_a_key_and_on_nothing_else(docs: Docs) -> None:
    unlocked = docs.page.locator(".opblock:not(:has(.authorization__btn))")
    assert unlocked.evaluate_all("blocks => blocks.map(block => block.id)") == [
        "operations-operations-livez",
        "operations-operations-readyz",
    ]


def test_the_key_is_forgotten_when_the_page_is_left(docs: Docs) -> None:
    docs.authorize(ADMIN_KEY)
    assert docs.execute("list_sketches") == 200
    docs.show()
    assert docs.execute("list_sketches") == 401


def test_a_request_to_elsewhere_would_be_stopped_and_seen(docs: Docs) -> None:
    elsewhere = f"http://127.0.0.1:{free_port()}/"
    docs.page.evaluate("url => fetch(url).catch(() => null)", elsewhere)
    assert docs.outside_requests() == []
    assert "Content Security Policy" in docs.complaints[0]
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
        docs.page.goto(elsewhere)
    assert docs.outside_requests() == [elsewhere]
