"""uvicorn with nothing behind it: it receives a body as one value and answers 200, so no service can be faster.

It is started through the command line of the service, so that uvicorn gets the settings that the service gives it.
"""

import sys
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send

from app import cli

_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the whole body, join it and answer with an empty object."""
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
    """Run the service's command line with this app in place of the service."""
    serve = uvicorn.run

    def serve_bare(_app: Any, **settings: Any) -> None:
        serve("benchmarks.bare:app", **{**settings, "factory": False, "lifespan": "off"})

    uvicorn.run = serve_bare  # type: ignore[assignment]
    cli.main(sys.argv[1:])


if __name__ == "__main__":
    main()
