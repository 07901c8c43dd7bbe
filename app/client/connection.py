"""HTTP to a server over one kept connection: JSON in and out, refusals as failures, retries where they are safe."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from app.client.failures import Failure, Misuse, Unreachable
from app.client.terminal.output import clean

DEFAULT_URL = "http://127.0.0.1:8000"
JSON = "application/json"

_TIMEOUT_SECONDS = 120
_BUSY = {429, 502, 503, 504}
_HOPELESS = {"wrong-user-key"}  # a 503 that waiting does not cure
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_REPEATABLE = {"GET", "PUT", "DELETE"}
_PAGE = 1000
_IN_COMMANDS = {  # said instead of the server's own words, which speak of requests
    "unauthenticated": "The server does not take this key: it is unknown or revoked. Set DISCREET_KEY, or give --key.",
    "no-snapshot": "Nothing has been released yet; `discreet snapshot` does it, for a price, and reading is free.",
}


class Problem(Failure):
    """A refusal by the server (RFC 9457)."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        self.http_status = status
        self.document = document
        self.slug = str(document.get("type", "")).rpartition(":")[2]
        said = document.get("detail") or document.get("title") or f"The answer was {status}; check DISCREET_URL."
        super().__init__(clean(" ".join(_IN_COMMANDS.get(self.slug, str(said)).split())))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The document in the body; a `Failure` if it is not JSON, as from some other server."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise Failure("The answer is not JSON: this is not a Discreet server. Check DISCREET_URL.") from None


@dataclass
class Api:
    """A server, and the API key under which it is asked.

    A request that is safe to repeat is repeated for up to `patience` seconds; `on_wait` is told why before each pause.
    """

    url: str
    api_key: str | None = field(repr=False)
    patience: float = 0.0
    on_wait: Callable[[str], None] = lambda _why: None
    _connection: http.client.HTTPConnection | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or not _has_valid_port(parts):
            raise Misuse("The URL must look like http://host:port; check DISCREET_URL or --url.")
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable() and self.api_key):
            raise Misuse("The key must have printable ASCII characters alone; check DISCREET_KEY or --key.")
        self._parts = parts

    def get(self, path: str, **query: object) -> Any:
        """The document at a path; members of `query` that are None are left out, and lists are given value by value."""
        return self.ask("GET", path, query=query).json()

    def put(self, path: str, document: object) -> Any:
        """Make a resource, or find it as it was made before; gives its document."""
        return self.ask("PUT", path, json.dumps(document).encode()).json()

    def post(self, path: str, document: object | None = None, *, idempotency_key: str | None = None) -> Any:
        """Have something done, once if there is an idempotency key; gives the document of the answer."""
        body = b"" if document is None else json.dumps(document).encode()
        return self.ask("POST", path, body, idempotency_key=idempotency_key).json()

    def delete(self, path: str) -> None:
        """Remove what is at a path."""
        self.ask("DELETE", path)

    def whole(self, path: str) -> dict[str, Any]:
        """A list with the items of all its pages."""
        page = self.get(path, limit=_PAGE)
        items = page["items"]
        while page["cursor"] is not None:
            page = self.get(path, limit=_PAGE, cursor=page["cursor"])
            items += page["items"]
        return {"items": items, "cursor": None}

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, object] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        idempotency_key: str | None = None,
        repeatable: bool = False,
    ) -> Answer:
        """Send a request and give its answer; a refusal is raised as a `Problem`.

        Safe to repeat, and so repeated until the patience is over, are GET, PUT and DELETE, a request with an
        idempotency key, and one that the caller calls `repeatable`.
        """
        if self.api_key is None:
            raise Misuse("No key: set DISCREET_KEY to an API key of the server, or give --key.")
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._parts.path.rstrip("/") + path + (f"?{urlencode(given, doseq=True)}" if given else "")
        headers = {"Authorization": f"Bearer {self.api_key}", "Accept": f"{accept}, application/problem+json;q=0.1"}
        if body is not None:
            headers["Content-Type"] = content_type
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        if repeatable or method in _REPEATABLE or idempotency_key is not None:
            return _accepted(self._ask_patiently(method, target, body, headers))
        return _accepted(self._ask_once(method, target, body, headers))

    def _ask_patiently(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        deadline = time.monotonic() + self.patience
        pause = _FIRST_PAUSE
        reused = self._connection is not None
        while True:
            try:
                answer = self._ask_once(method, target, body, headers)
                if answer.status not in _BUSY or Problem(answer.status, _document(answer)).slug in _HOPELESS:
                    return answer
                why, least = "the server is busy", _retry_after(answer)
            except Unreachable as unreachable:
                if reused:  # the server may only have closed an idle connection, so try a new one without waiting
                    reused = False
                    continue
                answer, why, least = None, str(unreachable), 0.0
            pause = min(_LONGEST_PAUSE, max(least, pause))
            if time.monotonic() + pause > deadline:
                if answer is None:
                    raise Unreachable(why)
                return answer
            self.on_wait(why)
            time.sleep(pause)
            pause *= 2

    def _ask_once(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        connection = self._connection or self._new_connection()
        self._connection = None  # kept again only after a whole answer
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            answer = Answer(response.status, dict(response.headers.items()), response.read())
        except ssl.SSLError as error:
            connection.close()
            raise Failure(f"{self.url} cannot be trusted or does not speak TLS: {error.reason}.") from None
        except (OSError, http.client.HTTPException):
            connection.close()
            raise Unreachable(f"No server answers at {self.url}; check DISCREET_URL and that it runs.") from None
        if not response.will_close:
            self._connection = connection
        return answer

    def _new_connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS)
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close the connection, if one is open; another request would open a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def at(*parts: str) -> str:
    """The path of a resource, with names quoted: people choose them."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _has_valid_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _accepted(answer: Answer) -> Answer:
    if answer.status < http.HTTPStatus.MULTIPLE_CHOICES:
        return answer
    raise Problem(answer.status, _document(answer))


def _document(answer: Answer) -> Mapping[str, Any]:
    try:
        document = json.loads(answer.body)
    except ValueError:
        document = None
    return document if isinstance(document, dict) else {}


def _retry_after(answer: Answer) -> float:
    after = next((value for name, value in answer.headers.items() if name.lower() == "retry-after"), "")
    return float(after) if after.isdecimal() else 0.0
