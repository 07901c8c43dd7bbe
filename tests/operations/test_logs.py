"""Log lines say which operation was refused or failed, and nothing of what was sent."""

import json
import logging
import re
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from app import logs
from app.core.noise.samplers import SYSTEM_NOISE
from app.main import build_context, create_app
from app.settings import Settings
from tests.api.calls import create_sketch, post_events, release
from tests.conftest import ADMIN_KEY
from tests.operations.serving import serving

_SECRETS = ("s3cret-path", "s3cret-query", "s3cret-key", "s3cret-event", "s3cret-idempotency", "987654321", ADMIN_KEY)


class _Lines(logging.Handler):
    """What would be written, in both forms."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[dict[str, object]] = []
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        line = logs.JsonLines().format(record)
        self.written.append(json.loads(line))
        self.text += f"{line}\n{logs.TextLines().format(record)}\n"


@pytest.fixture
def lines() -> Iterator[_Lines]:
    handler, root, ours = _Lines(), logging.getLogger(), logging.getLogger("discreet")
    before = ours.level
    root.addHandler(handler)
    ours.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    ours.setLevel(before)


def _record(logger: str, message: str, *arguments: object, **more: object) -> logging.LogRecord:
    return logging.getLogger(logger).makeRecord(
        logger, logging.WARNING, "/somewhere/module.py", 7, message, arguments, None, extra=more
    )


def _ours(lines: _Lines) -> list[dict[str, object]]:
    return [line for line in lines.written if line["logger"] == "discreet"]


def test_a_line_is_one_json_object_with_the_listed_fields_and_no_others() -> None:
    record = _record("discreet", "refused\nhere", operation="get_sketch", status=404, body="s3cret", size=17)
    line = logs.JsonLines().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told.pop("time"))
    assert told == {
        "level": "warning",
        "logger": "discreet",
        "message": "refused here",
        "operation": "get_sketch",
        "status": 404,
    }


def test_of_a_failure_the_kind_and_the_places_are_told_and_not_the_words() -> None:
    record = _record("uvicorn.error", "Exception in ASGI application\n")
    try:
        raise KeyError("s3cret-event")
    except KeyError:
        record.exc_info = sys.exc_info()
    for form in (logs.JsonLines(), logs.TextLines()):
        line = form.format(record)
        assert "s3cret" not in line
        assert "KeyError" in line
        assert "test_logs.py:" in line
        assert "\n" not in line


def test_what_libraries_say_is_withheld_for_they_may_quote_data() -> None:
    line = logs.JsonLines().format(_record("asyncio", "exception=KeyError('%s')", "s3cret-event"))
    assert "s3cret" not in line
    assert "/somewhere/module.py:7" in line


def test_a_refusal_is_one_line_without_detail_and_a_success_none_that_is_seen(
    client: TestClient, lines: _Lines
) -> None:
    create_sketch(client)
    post_events(client, ["a"])
    assert {line["level"] for line in _ours(lines)} == {"debug"}
    lines.written.clear()
    client.get("/v1/sketches/unknown", headers={"X-Request-ID": "mine-1"})
    [line] = _ours(lines)
    assert line.pop("time")
    assert line == {
        "level": "info",
        "logger": "discreet",
        "message": "refused",
        "request_id": "mine-1",
        "operation": "get_sketch",
        "status": 404,
        "problem": "unknown-sketch",
        "duration": line["duration"],
    }


def test_nothing_that_a_client_sends_is_in_the_log(settings: Settings, lines: _Lines) -> None:
    def broken(_scale: float, _size: int) -> list[int]:
        raise KeyError("s3cret-event")

    context = build_context(settings, noise=replace(SYSTEM_NOISE, laplace=broken))
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with TestClient(create_app(settings, context), headers=headers) as client:
        create_sketch(client)
        post_events(client, ["s3cret-event", {"key": "s3cret-event", "count": 987654321}], key="s3cret-idempotency")
        post_events(client, ["s3cret-event"], key="s3cret-idempotency")
        post_events(client, ["s3cret-event", ""])
        post_events(client, ["s3cret-event"], name="s3cret-path")
        client.get("/s3cret-path?s3cret-query")
        client.get("/v1/sketches?cursor=s3cret-query")
        client.put("/v1/sketches/s3cret-path", json={"k": "s3cret-event"})
        client.get("/v1/sketches/views", headers={"Authorization": "Bearer s3cret-key", "X-Request-ID": "s3cret id"})
        assert release(client).status_code == 500
    assert {"answered", "refused"} <= {line["message"] for line in _ours(lines)}
    [failed] = [line for line in _ours(lines) if line["level"] == "error"]
    assert (failed["operation"], failed["status"]) == ("create_snapshot", 500)
    assert "KeyError at " in str(failed["message"])
    assert [secret for secret in _SECRETS if secret in lines.text] == []


def test_how_long_it_took_is_told_only_of_operations_that_read_no_private_data(
    client: TestClient, lines: _Lines
) -> None:
    create_sketch(client)
    post_events(client, ["a"])
    release(client)
    client.get("/v1/sketches/views/histogram")
    assert {line["operation"]: "duration" in line for line in _ours(lines)} == {
        "create_sketch": True,
        "post_events": False,
        "create_snapshot": False,
        "get_histogram": True,
    }


@pytest.mark.parametrize("path", ["/livez", "/nothing", "/v1/sketches/views/events", "/v1/sketches/views"])
def test_an_answer_carries_the_id_of_its_request_or_one_that_tells_nothing(client: TestClient, path: str) -> None:
    for sent in ("a", "A-z_0.9" * 9, "x" * 64):
        assert client.post(path, headers={"X-Request-ID": sent}).headers["X-Request-ID"] == sent
    for bad in ("", "x" * 65, "with space", "<script>", "a/b"):
        made = client.post(path, headers={"X-Request-ID": bad}).headers["X-Request-ID"]
        assert re.fullmatch("[0-9a-f]{32}", made)
    assert len({client.post(path).headers["X-Request-ID"][:8] for _ in range(5)}) == 5  # random, no counter


def test_text_is_for_terminals_and_json_for_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def form(given: str, *, terminal: bool) -> str:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
        found: str = logs.configuration("info", given)["formatters"]["lines"]["()"]
        return found.rpartition(".")[2]

    assert [form("", terminal=True), form("", terminal=False)] == ["TextLines", "JsonLines"]
    assert [form("json", terminal=True), form("text", terminal=False)] == ["JsonLines", "TextLines"]


def test_a_server_writes_nothing_but_json_lines_and_hangs_up_on_half_a_batch(database_url: str) -> None:
    head = (
        f"POST /v1/sketches/views/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_KEY}\r\n"
        "Content-Type: text/plain\r\nContent-Length: 1000\r\n\r\nhalf"
    )
    with serving(database_url, log_format="json", body_seconds=1) as server, server.client() as client:
        create_sketch(client)
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=30) as connection:
            connection.sendall(head.encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))  # until the server closes
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"urn:discreet:problem:body-timeout" in answer
        server.process.terminate()
        server.process.wait(timeout=30)
        told = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert {"discreet", "uvicorn.error"} <= {line["logger"] for line in told}
    assert [line["operation"] for line in told if line["message"] == "refused"] == ["post_events"]
