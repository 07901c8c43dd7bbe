"""What holds for every request: a bounded body, no leaking failure, safe headers, a count for the operator."""

import logging
from types import TracebackType

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import problem
from app.api.metrics import REQUESTS

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
_SMALL_BODY_BYTES = 256 * 1024  # other bodies are parsed on the event loop, before the key is checked


class Guard:
    """Outermost of ours, so that nothing passes it unseen."""

    def __init__(self, app: ASGIApp, *, bound_bodies: bool = True) -> None:
        self.app = app
        self.bound_bodies = bound_bodies  # those of events are bounded by `Intake`

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status: list[int] = []

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
                given = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(header for header in _SAFE if header[0] not in given)]
            await send(message)

        try:
            bounded = _bounded(scope, receive) if self.bound_bodies else receive
            await self.app(scope, bounded, sending)
        except Exception as error:  # the traceback may quote events, so it stops here
            log.error("failed: %s %s: %s at %s", scope["method"], scope["path"], type(error).__name__, _place(error))
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
            REQUESTS.labels(_operation(scope), str(status[0]) if status else "none").inc()


def _operation(scope: Scope) -> str:
    """The operation's name, never the path: that is the client's text."""
    return str(getattr(scope.get("route"), "name", "") or "none")


def _place(error: Exception) -> str:
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "an unknown place"


def _bounded(scope: Scope, receive: Receive) -> Receive:
    """The body, up to the limit: by its declared length, and by what really comes."""
    limit = _SMALL_BODY_BYTES
    declared = Headers(scope=scope).get("content-length", "")
    too_large = HTTPException(413, f"A request body may have at most {limit} bytes; send several requests.")
    received = 0

    async def receiving() -> Message:
        nonlocal received
        if declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
            raise too_large
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise too_large
        return message

    return receiving
