"""What holds for every request: limits, a body bounded in size and time, no leaking failure, safe headers, an id, and a
count and a log line for the operator.

A log line has the operation's name, the status and the slug of a refusal. Nothing of the path, the query, the body or
the key is in it, and no number that depends on events.
"""

import logging
import os
import re
import time
from types import TracebackType
from typing import NamedTuple

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from app.core.errors import Refusal
from app.server import metrics
from app.server.body import Body, Deadline
from app.server.callers import RECOGNISED
from app.server.dispatch import Dispatch
from app.server.limits import Limits
from app.server.problems import problem, refused

log = logging.getLogger("discreet")

_SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "Cache-Control": "no-store",
}
_SAFE = [(name.lower().encode(), value.encode()) for name, value in _SAFE_HEADERS.items()]
_SAFE_NAMES = frozenset(name for name, _ in _SAFE)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Guard:
    """The edge of the service: every request of every route passes it, and so does every answer."""

    def __init__(self, dispatch: Dispatch, limits: Limits, body_deadline: Deadline) -> None:
        self.dispatch = dispatch
        self.limits = limits
        self.body_deadline = body_deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.dispatch.find(scope)
        if scope["type"] != "http":
            await answer(scope, receive, send)
            return
        started = time.perf_counter()
        head = _head_of(scope["headers"])
        status, presented, fault = 0, b"", ""

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*_with_safe_headers(message["headers"]), (b"x-request-id", head.request_id)]
            await send(message)

        try:
            presented = self.limits.admit(head.authorization, scope.get("client"))
            await answer(scope, Body(receive, head.content_length, self.body_deadline), sending)
        except Refusal as refusal:
            await refused(refusal)(scope, receive, sending)
        except ClientDisconnect:
            pass  # in the middle of its body: there is nobody to answer
        except Exception as error:  # the traceback may quote events, so it stops here
            fault = f"{type(error).__name__} at {_where_raised(error)}"
            if status:  # the head of the answer is sent: only closing is left
                raise ConnectionError("the answer broke off") from None
            told = problem(
                500,
                "internal-error",
                "The server failed",
                "The log says where. A request with an Idempotency-Key is safe to repeat.",
            )
            await told(scope, receive, sending)
        finally:
            self._judge(presented, scope, status)
            _note(scope, head.request_id, status, fault, started)

    def _judge(self, presented: bytes, scope: Scope, status: int) -> None:
        """Tell the limits whether the API key that was presented, if one was, is right. Nobody knows where the route
        asked for none."""
        if not presented:
            return
        if status == 401:
            self.limits.wrong(presented, scope.get("client"))
        elif RECOGNISED in scope:
            self.limits.right(presented)


class _Head(NamedTuple):
    """What the edge itself reads of a request's head."""

    request_id: bytes
    authorization: bytes
    content_length: bytes


def _head_of(headers: list[tuple[bytes, bytes]]) -> _Head:
    request_id = authorization = content_length = b""
    for name, value in headers:
        if name == b"authorization":
            authorization = authorization or value  # the first, as `callers` reads it
        elif name == b"content-length":
            content_length = content_length or value.strip()
        elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            request_id = value
    request_id = request_id or os.urandom(16).hex().encode()  # random: a counter would count requests aloud
    return _Head(request_id, authorization, content_length)


def _with_safe_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = {name for name, _ in headers}
    if given.isdisjoint(_SAFE_NAMES):
        return [*headers, *_SAFE]
    return [*headers, *(header for header in _SAFE if header[0] not in given)]


def _note(scope: Scope, request_id: bytes, status: int, fault: str, started: float) -> None:
    """What an operator may know of a request: that it was, how long it took where the time tells nothing, and a line
    where it was refused or failed."""
    operation = str(getattr(scope.get("route"), "name", "") or "none")  # never the path: that is the client's text
    metrics.count(operation, status)
    timed = operation in metrics.TIMED
    if not timed and 0 < status < 400 and not log.isEnabledFor(logging.DEBUG):
        return
    slug = scope.get("problem") if status >= 400 else None
    if slug:
        metrics.REFUSALS.labels(slug).inc()
    told = {"request_id": request_id.decode(), "operation": operation, "status": status or None, "problem": slug}
    if timed:
        seconds = time.perf_counter() - started
        metrics.DURATIONS.labels(operation).observe(seconds)
        told["duration"] = metrics.duration_class(seconds)
    if fault or status >= 500:
        log.error("failed: %s", fault or slug or "no answer", extra=told)
    elif status >= 400:
        log.info("refused", extra=told)
    else:
        log.debug("answered" if status else "broken off by the client", extra=told)


def _where_raised(error: Exception) -> str:
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "an unknown place"
