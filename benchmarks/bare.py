"""The same server with nothing behind it: it receives the body as one value and answers 200. No service on it can be
faster.

Started through the command line of the service itself, so that uvicorn gets whatever settings the service gives it.
"""

import sys
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send

from app import cli

_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        return
    chunks, more = [], True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    b"".join(chunks)
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


def main() -> None:
    serve = uvicorn.run

    def serve_bare(_app: Any, **settings: Any) -> None:
        serve("benchmarks.bare:app", **{**settings, "factory": False, "lifespan": "off"})

    uvicorn.run = serve_bare  # type: ignore[assignment]
    cli.main(sys.argv[1:])


if __name__ == "__main__":
    main()
