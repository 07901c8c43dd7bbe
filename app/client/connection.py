"""HTTP to the service over one kept connection: JSON in and out, problems as failures, retries where they are safe."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from app.client.failures import Failure, Misuse, Unreachable
from app.client.terminal import clean

DEFAULT_URL = "http://127.0.0.1:8000"
JSON = "application/json"

_TIMEOUT_SECONDS = 120
_BUSY = {429, 502, 503, 504}
_HOPELESS = {"wrong-user-key"}  # a 503 that no waiting ends
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_REPEATABLE = {"GET", "PUT", "DELETE"}
_PAGE = 1000
_IN_COMMANDS = {  # where the server speaks of requests
    "unauthenticated": "The server does not take this key: it is unknown or revoked. Set DISCREET_KEY, or give --key.",
    "no-snapshot": "Nothing has been released yet; `discreet snapshot` does it, for a price, and reading is free.",
}


class Problem(Failure):
    """A refusal by the server (RFC 9457)."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        self.http_status = status
        self.document = document
        self.slug = str(document.get("type", "")).rpartition(":")[2]
        super().__init__(clean(" ".join(self._sentence().split())))

    def _sentence(self) -> str:
        return _IN_COMMANDS.get(self.slug) or str(
            self.document.get("detail")
            or self.document.get("title")
            or f"The answer was {self.http_status}; check DISCREET_URL."
        )


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise Failure("The answer is not JSON: this is not a Discreet server. Check DISCREET_URL.") from None


@dataclass
class Api:
    """A server and who asks. `patience` is for how many seconds a safe request is tried again."""

    url: str
    key: str | None = field(repr=False)
    patience: float = 0.0
    on_wait: Callable[[str], None] = lambda _why: None
    _connection: http.client.HTTPConnection | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or not _has_fair_port(parts):
            raise Misuse("The URL must look like http://host:port; check DISCREET_URL or --url.")
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and self.key):
            raise Misuse("The key must have printable ASCII characters alone; check DISCREET_KEY or --key.")
        self._parts = parts

    def get(self, path: str, **query: object) -> Any:
        return self.ask("GET", path, query=query).json()

    def put(self, path: str, document: object) -> Any:
        return self.ask("PUT", path, json.dumps(document).encode()).json()

    def post(self, path: str, document: object | None = None, *, request_key: str | None = None) -> Any:
        body = b"" if document is None else json.dumps(document).encode()
        return self.ask("POST", path, body, request_key=request_key).json()

    def delete(self, path: str) -> None:
        self.ask("DELETE", path)

    def whole(self, path: str) -> dict[str, Any]:
        """A list, all its pages as one."""
        pages = list(self._pages(path))
        return {"items": [item for page in pages for item in page["items"]], "cursor": None}

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            page = self.get(path, limit=_PAGE, cursor=cursor)
            yield page
            cursor = page["cursor"]
            if cursor is None:
                return

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, object] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        request_key: str | None = None,
        repeatable: bool = False,
    ) -> Answer:
        """A problem is raised. A request that is safe to repeat is repeated, until the patience is over: reading,
        writing the same again, what has an idempotency key, and what the caller calls repeatable."""
        if self.key is None:
            raise Misuse("No key: set DISCREET_KEY to an API key of the server, or give --key.")
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._parts.path.rstrip("/") + path + (f"?{urlencode(given)}" if given else "")
        headers = {"Authorization": f"Bearer {self.key}", "Accept": f"{accept}, application/problem+json;q=0.1"}
        if body is not None:
            headers["Content-Type"] = content_type
        if request_key is not None:
            headers["Idempotency-Key"] = request_key
        if repeatable or method in _REPEATABLE or request_key is not None:
            return _accepted(self._patiently(method, target, body, headers))
        return _accepted(self._once(method, target, body, headers))

    def _patiently(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        deadline = time.monotonic() + self.patience
        pause = _FIRST_PAUSE
        reused = self._connection is not None
        while True:
            try:
                answer = self._once(method, target, body, headers)
                if not _is_busy(answer):
                    return answer
                why, least = "the server is busy", _retry_after(answer)
            except Unreachable as unreachable:
                if reused:  # a server closes a connection that is idle: that alone is no reason to wait
                    reused = False
                    continue
                answer, why, least = None, str(unreachable), 0.0
            pause = min(_LONGEST_PAUSE, max(least, pause))
            if time.monotonic() + pause > deadline:
                return answer or _raise(Unreachable(why))
            self.on_wait(why)
            time.sleep(pause)
            pause *= 2

    def _once(self, method: str, target: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        connection = self._connection or self._connected()
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

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS)
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def at(*parts: str) -> str:
    """The path of a resource; names come from people."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _has_fair_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _raise(failure: Failure) -> Answer:
    raise failure


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


def _is_busy(answer: Answer) -> bool:
    return answer.status in _BUSY and str(_document(answer).get("type", "")).rpartition(":")[2] not in _HOPELESS


def _retry_after(answer: Answer) -> float:
    after = next((value for name, value in answer.headers.items() if name.lower() == "retry-after"), "")
    return float(after) if after.isdecimal() else 0.0
