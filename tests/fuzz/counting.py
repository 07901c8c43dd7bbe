"""Post one request to the real app, and look into the database: a batch is counted whole, or nothing of it is."""

import json
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from fastapi import FastAPI

from app.store import states
from app.usecases.context import Context
from tests import books
from tests.conftest import ADMIN_KEY
from tests.fuzz.batches import Request
from tests.fuzz.meaning import Counts, meant, must_be_refused, must_be_taken

COUNTERS = 2048
FULL = COUNTERS // 2  # a batch has at most half as many keys, so no counter is ever shared and counts are exact
_SLUGS = {400: "bad-batch", 413: "body-too-large", 415: "unsupported-media-type"}


class Wrong(Exception):
    """The service did not keep its promise."""


def require(holds: bool, claim: str) -> None:
    if not holds:
        raise Wrong(claim)


@dataclass(frozen=True)
class Answer:
    status: int
    content_type: str
    members: dict[str, Any]

    @property
    def slug(self) -> str:
        return str(self.members.get("type", "")).rpartition(":")[2]


@dataclass(frozen=True)
class Stored:
    token: int
    state: bytes

    def counts(self) -> Counts:
        return Counter(dict(states.decoded(self.state).counters))


class Checked:
    """The app, with a sketch that nobody else posts to, made anew before it is full."""

    def __init__(self, app: FastAPI, context: Context, prefix: str) -> None:
        self.app = app
        self.context = context
        self.prefix = prefix
        self.sketches = 0
        self._before = Stored(0, b"")
        self._counts: Counts = Counter()

    async def check(self, number: int, request: Request) -> Answer:
        """The answer, if it is one that may be given and the stored sketch bears it out."""
        if not self.sketches or len(self._counts) > FULL:
            await self._new_sketch()
        rng = Random(number)
        headers = {"idempotency-key": str(number)} if rng.random() < 0.1 else {}
        before = self._before
        answer = await self._post(request, headers, rng)
        after = self._stored()
        if answer.status == 200:
            self._require_counted(request, answer, after)
        else:
            _require_refused(request, answer)
            require(after == before, "nothing of a refused batch is counted")
        if headers:
            require(await self._post(request, headers, rng) == answer, "a retry is answered as the first time")
            require(self._stored() == after, "a retry counts nothing")
        self._before = after
        return answer

    def _require_counted(self, request: Request, answer: Answer, after: Stored) -> None:
        require(not must_be_refused(request), "a bad batch is refused")
        counts = after.counts()
        grown = meant(request)
        if grown is None:
            grown = counts - self._counts
        require(counts == self._counts + grown, "all of a batch that was taken is counted, and nothing else")
        require(answer.members == {"accepted": grown.total()}, "the receipt says how many events were counted")
        self._counts = counts

    async def _new_sketch(self) -> None:
        self.sketches += 1
        self._counts = Counter()
        body = json.dumps({"k": COUNTERS, "budget": {"epsilon": 1, "delta": 0}}).encode()
        made = await self._call("PUT", f"/v1/sketches/{self._name}", {"content-type": "application/json"}, [body])
        require(made.status == 201, f"a sketch can be made: {made}")
        self._before = self._stored()

    @property
    def _name(self) -> str:
        return f"{self.prefix}-{self.sketches}"

    def _stored(self) -> Stored:
        return Stored(*books.stored(self.context.database, self._name))

    async def _post(self, request: Request, more: dict[str, str], rng: Random) -> Answer:
        headers = {"content-type": request.content_type, **more}
        if request.encoding:
            headers["content-encoding"] = request.encoding
        cut = rng.randrange(len(request.body) + 1)
        parts = [request.body] if rng.random() < 0.7 else [request.body[:cut], request.body[cut:]]
        return await self._call("POST", f"/v1/sketches/{self._name}/events", headers, parts)

    async def _call(self, method: str, path: str, headers: dict[str, str], parts: list[bytes]) -> Answer:
        """As the server would call the app."""
        sent = {**headers, "authorization": f"Bearer {ADMIN_KEY}", "content-length": str(sum(map(len, parts)))}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        coming = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        coming[-1]["more_body"] = False
        messages: list[Any] = []

        async def receive() -> Any:
            return coming.pop(0) if coming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        answered = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        members = json.loads(b"".join(message.get("body", b"") for message in messages[1:]))
        return Answer(messages[0]["status"], answered["content-type"], members)


def _require_refused(request: Request, answer: Answer) -> None:
    """As an RFC 9457 problem that blames the request, and only where there is something to blame."""
    require(answer.status in _SLUGS, f"a batch is taken, or refused as one that is wrong, not {answer}")
    require(answer.content_type == "application/problem+json", "a refusal is a problem")
    require(answer.slug == _SLUGS[answer.status], "a refusal has the slug of its status")
    require(answer.members["status"] == answer.status, "a problem has the status of its answer")
    require(bool(answer.members["title"] and answer.members["detail"]), "a problem says what to change")
    require(not must_be_taken(request), f"a good batch is taken, not refused: {answer.members['detail']}")
