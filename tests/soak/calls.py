"""One client's connection. A call is repeated until it is answered, and whatever goes wrong on the way is counted."""

import http.client
import json
import random
import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from tests.conftest import ADMIN_KEY

_TIMEOUT_SECONDS = 60
_PATIENCE_SECONDS = 120  # with which a call is repeated
_PAUSE_SECONDS = 0.05  # before it is
_CALLS_PER_CONNECTION = 30  # on average; new ones find their way to a worker that was brought back
_BROKEN = (ConnectionError, http.client.IncompleteRead)


class Unexpected(Exception):
    """A call came to nothing; the tally has it."""


@dataclass
class Tally:
    """What one client saw."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # of answers, by kind
    breaks: list[float] = field(default_factory=list)  # moments at which a connection broke under a request
    events: int = 0  # acknowledged
    retried: int = 0
    replayed: int = 0  # sent again although it had been acknowledged
    refused: int = 0  # for want of budget
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Call:
    kind: str
    method: str
    path: str
    body: bytes | None = None
    content_type: str = "application/json"
    key: str | None = None  # Idempotency-Key
    expected: Collection[str] = ("200",)
    expected_of_a_repetition: Collection[str] = ()  # what it may also be told that an earlier attempt took effect

    @classmethod
    def of(cls, kind: str, method: str, path: str, document: object = None, **more: Any) -> "Call":
        """With a JSON body."""
        return cls(kind, method, path, None if document is None else json.dumps(document).encode(), **more)


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def outcome(self) -> str:
        """ "201", or "409 budget-exhausted"."""
        if self.status < 400:
            return str(self.status)
        try:
            return f"{self.status} {self.document['type'].rpartition(':')[2]}"
        except (ValueError, KeyError, TypeError):
            return f"{self.status} without a problem"


class Caller:
    """`http.client`, because it repeats nothing by itself: a break is seen here, and counted."""

    def __init__(self, port: int, choice: random.Random) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
        self._choice = choice
        self.tally = Tally()

    def call(self, call: Call) -> Answer:
        """The answer, which is one that was expected."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        repeated = False
        while time.monotonic() < deadline:
            answer = self._attempt(call)
            if answer is not None:
                if answer.outcome in call.expected or (repeated and answer.outcome in call.expected_of_a_repetition):
                    return answer
                self.fault(f"{call.kind}: {call.method} {call.path} was answered {answer.outcome}")
                if answer.status != 503:
                    raise Unexpected
            repeated = True
            self.tally.retried += 1
            time.sleep(_PAUSE_SECONDS)
        self.fault(f"{call.kind}: {call.method} {call.path} was never answered as expected")
        raise Unexpected

    def fault(self, words: str) -> None:
        self.tally.faults.append(words)

    def close(self) -> None:
        self._connection.close()

    def _attempt(self, call: Call) -> Answer | None:
        """None if the connection broke."""
        started = time.perf_counter()
        try:
            answer = self._once(call)
        except _BROKEN:
            self.tally.breaks.append(time.monotonic())
            self._connection.close()
            return None
        except TimeoutError:
            self.fault(f"{call.kind}: {call.method} {call.path} had no answer in {_TIMEOUT_SECONDS} s")
            self._connection.close()
            return None
        self.tally.seconds[call.kind].append(time.perf_counter() - started)
        if self._choice.random() < 1 / _CALLS_PER_CONNECTION:
            self._connection.close()
        return answer

    def _once(self, call: Call) -> Answer:
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        if call.key is not None:
            headers["Idempotency-Key"] = call.key
        self._connection.request(call.method, call.path, call.body, headers)
        response = self._connection.getresponse()
        return Answer(response.status, response.read())
