"""Answers that a connection gives by itself, where no route was found yet: problems as RFC 9457 has them.

Each is the last answer on its connection: behind a request that cannot be read, nobody knows where the next begins.
"""

import json
from dataclasses import dataclass
from http import HTTPStatus

HEAD_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """A problem with the bytes that are sent for it."""

    status: int
    slug: str  # for the log
    answer: bytes


def _last_answer(status: int, slug: str, title: str, detail: str, *headers: bytes) -> LastAnswer:
    members = {"type": f"urn:discreet:problem:{slug}", "title": title, "status": status, "detail": detail}
    body = json.dumps(members).encode()
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode(),
        b"content-type: application/problem+json",
        b"content-length: %d" % len(body),
        b"connection: close",
        *headers,
        b"",
        body,
    )
    return LastAnswer(status, slug, b"\r\n".join(lines))


MALFORMED = _last_answer(
    400,
    "malformed-request",
    "The request is not HTTP/1.1",
    "It cannot be told where its head or its body ends. Nothing of it was done.",
)
NO_LENGTH = _last_answer(
    411,
    "length-required",
    "The length of the body is missing",
    "A request in HTTP/1.0 must declare the length of its body: send Content-Length. Nothing of it was done.",
)
HEAD_TOO_LARGE = _last_answer(
    431,
    "head-too-large",
    "The head of the request is too large",
    f"The request line and the headers may have at most {HEAD_BYTES} bytes.",
)
UNKNOWN_CODING = _last_answer(
    501,
    "unknown-transfer-coding",
    "The body is coded in a way that the server does not know",
    "Send Content-Length, or Transfer-Encoding: chunked and nothing else. To compress, use Content-Encoding.",
)
NO_TUNNEL = _last_answer(501, "no-tunnel", "The server is not a proxy", "It does not take the method CONNECT.")
NO_ROOM = _last_answer(
    503,
    "overloaded",
    "Too many connections",
    "Every connection that the server can hold is at work. Nothing was done; try again in a moment.",
    b"retry-after: 1",
)
UNKNOWN_VERSION = _last_answer(505, "unknown-version", "The version of HTTP is not known", "Send HTTP/1.1.")
