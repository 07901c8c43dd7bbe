"""What holds for every request: limits, a body bounded in size and time, no leaking failure, safe headers, an id, and a
count and a log line for the operator.

A log line has the operation's name, the status and the slug of a refusal. Nothing of the path, the query, the body or
the key is in it, and no number that depends on events.
"""

import asyncio
import logging
import os
import re
import time
from types import TracebackType

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api import metrics
from app.api.dependencies import asks_for_key
from app.api.errors import problem, refused
from app.api.limits import Limits
from app.refusals import TooManyRequests

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
_SMALL_BODY_BYTES = 256 * 1024  # other bodies are parsed on the event loop, before the key is checked
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Guard:
    """Outermost of ours, so that nothing passes it unseen."""

    def __init__(self, app: ASGIApp, limits: Limits, *, small_body_seconds: float | None) -> None:
        """`small_body_seconds`: how long a small body may take; none for those of events, which `Intake` bounds."""
        self.app = app
        self.limits = limits
        self.small_body_seconds = small_body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id, authorization = _read(scope["headers"])
        status, presented, fault = 0, b"", ""

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*_with_safe(message["headers"]), (b"x-request-id", request_id)]
            await send(message)

        try:
            presented = self.limits.admit(authorization, scope.get("client"))
            seconds = self.small_body_seconds
            await self.app(scope, receive if seconds is None else _bounded(scope, receive, seconds), sending)
        except TooManyRequests as refusal:
            await refused(refusal)(scope, receive, sending)
        except Exception as error:  # the traceback may quote events, so it stops here
            fault = f"{type(error).__name__} at {_place(error)}"
            if status:
                raise ConnectionError("the answer broke off") from None
            answer = problem(
                500,
                "internal-error",
                "The server failed",
                "The log says where. A request with an Idempotency-Key is safe to repeat.",
            )
            await answer(scope, receive, sending)
        finally:
            if presented and (status == 401 or not self.limits.recognised(presented)):
                self._judge(presented, scope, status)
            _note(scope, request_id, status, fault, started)

    def _judge(self, presented: bytes, scope: Scope, status: int) -> None:
        """Was the key right? Only an operation that asks for one can tell, by whether it went on. Asked once a key."""
        if status == 401:
            self.limits.wrong(presented, scope.get("client"))
        elif (200 <= status < 400 or status == 403) and asks_for_key(scope.get("route")):
            self.limits.right(presented)


def _read(headers: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """The request's id, made where none of the right form was sent, and what stands in Authorization."""
    request_id = authorization = b""
    for name, value in headers:
        if name == b"authorization":
            authorization = authorization or value  # the first, as those who check it read
        elif name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            request_id = value
    return request_id or os.urandom(16).hex().encode(), authorization  # random: a counter would count requests aloud


def _with_safe(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = {name for name, _ in headers}
    if given.isdisjoint(_SAFE_NAMES):
        return [*headers, *_SAFE]
    return [*headers, *(header for header in _SAFE if header[0] not in given)]


def _note(scope: Scope, request_id: bytes, status: int, fault: str, started: float) -> None:
    """What an operator may know of a request: that it was, how long it took where the time tells nothing, and a line
    where it was refused or failed."""
    operation = _operation(scope)
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


def _operation(scope: Scope) -> str:
    """The operation's name, never the path: that is the client's text."""
    return str(getattr(scope.get("route"), "name", "") or "none")


def _place(error: Exception) -> str:
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "an unknown place"


def _bounded(scope: Scope, receive: Receive, seconds: float) -> Receive:
    """The body, up to the limits: by its declared length, by what really comes, and by when. Whole, or refused."""
    limit = _SMALL_BODY_BYTES
    declared = Headers(scope=scope).get("content-length", "").strip()
    too_large = HTTPException(413, f"A request body may have at most {limit} bytes; send several requests.")
    received = 0
    until = 0.0  # counted from the moment somebody reads
    complete = False

    async def receiving() -> Message:
        nonlocal received, until, complete
        if complete:
            return await receive()  # only a disconnect can come, and those who wait for one may wait long
        if declared.isdecimal() and (len(declared) > 18 or int(declared) > limit):
            raise too_large
        until = until or asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"A request body must arrive within {seconds:g} s.") from None
        complete = not message.get("more_body", False)
        received += len(message.get("body", b""))
        if received > limit:
            raise too_large
        if complete and declared.isdecimal() and int(declared) != received and message["type"] == "http.request":
            raise HTTPException(400, "The body has another length than Content-Length declares.")
        return message

    return receiving
