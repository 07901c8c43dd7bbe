"""Part `people`: what it costs to bound each person's contributions, with ten million people known already."""

import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import func, select

from app.api.decoding import decode_events, decode_users
from app.core.ledger.budget import Budget
from app.core.people import Enforcement, Fingerprints, Unit
from app.core.sketches.parameters import SketchParameters
from app.main import build_context
from app.settings import Settings
from app.store import allowances, sketches
from app.store.migrate import migrate
from app.store.tables import AllowanceRow
from app.usecases.context import Context
from app.usecases.ingest.count import count_submissions
from app.usecases.ingest.people import rules_of
from app.usecases.ingest.submission import Submission
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch
from benchmarks import servers
from benchmarks.markdown import number
from benchmarks.report import NOT_INSTALLED, Claim, Part
from benchmarks.rounds import ROUNDS, in_rounds, median, ratio, seconds

_KNOWN = 10_000_000
_ITEMS, _USERS = 10_000, 2_000  # in a request
_PEOPLE, _KEYS = 10_000, 3  # in a request of sets
_TOGETHER = 8  # requests in a commit, as eight clients send them
_REQUESTS = 16  # in one round
_MOST = 1000
_SET_REQUESTS = 4  # in one round
_SETS: dict[str, Enforcement] = {"sets-enforced": "enforced", "sets-declared": "declared"}
_ROW = 250_000  # people in one row of the log
_USED_ONCE = (1).to_bytes(2, "little")


def run(part: Part, *, quick: bool) -> None:
    """Measure on both databases."""
    part.say(
        f"Requests of {_ITEMS:,} events of {_USERS:,} users, k = 1,024, read from JSON bytes, folded and committed by "
        f"the service's own use case, {_TOGETHER} requests in a commit. *Enforced* counts at most {_MOST:,} events of "
        f"each user, with {_KNOWN:,} users known already; *declared* takes the same bodies and counts nobody. *Sets* "
        f"are requests of {_PEOPLE:,} people with {_KEYS} keys each, in a sketch of users, one request in a commit."
    )
    for kind in (servers.SQLITE, servers.POSTGRESQL):
        if not servers.available(kind):
            part.say(f"{kind}: {NOT_INSTALLED}.")
            continue
        with servers.new_database(kind) as url:
            _Bench(part, kind, build_context(Settings(database_url=url))).measure()


@dataclass(frozen=True, slots=True)
class _Bench:
    part: Part
    kind: str
    context: Context

    def measure(self) -> None:
        migrate(self.context.database)
        for name in ("enforced", "declared"):
            create_sketch(self.context, name, _spec("event", _MOST, "enforced" if name == "enforced" else "declared"))
        stored = self._make_known()
        costs = in_rounds({name: self._requests(name) for name in ("enforced", "declared")})
        rows = [
            [name, number(_TOGETHER * _ITEMS / median(cost) / 1e6), number(median(cost) / _TOGETHER * 1e3)]
            for name, cost in costs.items()
        ]
        self.part.say(f"### {self.kind}")
        self.part.show(["sketch", "million events/s", "ms a request"], rows)
        self.part.say(f"A known user takes {number(stored / _KNOWN)} bytes in the database.")
        share = ratio(costs["declared"], costs["enforced"])
        self.part.claim(Claim(f"people, {self.kind}: of the rate without enforcement", share, at_least=0.25))
        self._measure_sets()
        self.context.database.close()

    def _measure_sets(self) -> None:
        for name in _SETS:
            create_sketch(self.context, name, _spec("user", 5, _SETS[name]))
        costs = in_rounds({name: self._set_requests(name) for name in _SETS})
        rows = [
            [name, number(_PEOPLE / median(cost) / 1e6), number(median(cost) * 1e3)] for name, cost in costs.items()
        ]
        self.part.show(["sketch", "million people/s", "ms a request"], rows)

    def _set_requests(self, name: str) -> Callable[[], float]:
        rules = rules_of(self.context, name)
        bodies = iter(list(itertools.islice(_set_bodies(), 1 + _SET_REQUESTS * ROUNDS)))  # made before the clock runs

        def commit() -> None:
            batch = decode_users("application/json", "", next(bodies), max_items=10**6, max_bytes=2**24, most_keys=5)
            submission = Submission(batch, people=rules.people_in(batch), rules=rules)
            assert count_submissions(self.context, name, [submission]) == [None]

        commit()
        return lambda: median([seconds(commit) for _ in range(_SET_REQUESTS)])

    def _make_known(self) -> int:
        """Write the log as earlier batches would have left it; gives its size in bytes."""
        with self.context.database.writing() as session:
            register_id = sketches.get(session, "enforced").register_id
            assert register_id is not None
            prints = Fingerprints(self.context.user_key.value, allowances.get(session, register_id).name)
            for start in range(0, _KNOWN, _ROW):
                known = prints.of([f"user-{at:08}".encode() for at in range(start, start + _ROW)])
                entries = b"".join(known[at : at + 12] + _USED_ONCE for at in range(0, len(known), 12))
                allowances.append(session, allowances.lock(session, register_id), entries)
        with self.context.database.reading() as session:
            return session.scalar(select(func.sum(func.length(AllowanceRow.usages)))) or 0

    def _requests(self, name: str) -> Callable[[], float]:
        rules = rules_of(self.context, name)
        bodies = _bodies()

        def one(body: bytes) -> Submission:
            batch = decode_events("application/json", "", body, max_items=_ITEMS, max_bytes=2**24)
            return Submission(batch, people=rules.people_in(batch), rules=rules)

        def commit() -> None:
            outcomes = count_submissions(self.context, name, [one(next(bodies)) for _ in range(_TOGETHER)])
            assert outcomes == [None] * _TOGETHER

        commit()  # the first reads what is known
        return lambda: median([seconds(commit) for _ in range(_REQUESTS // _TOGETHER)])


def _spec(unit: Unit, most: int, enforcement: Enforcement) -> SketchSpec:
    return SketchSpec(
        SketchParameters(k=1024, unit=unit, max_contributions=most, enforcement=enforcement),
        ledger=OwnBudget(Budget(10**9, 10**12), "basic"),
    )


def _set_bodies() -> Iterator[bytes]:
    """Requests of people who are all new, each of whom comes once."""
    generator = random.Random(1)
    for request in itertools.count():
        people = [
            {"user": f"user-{request * _PEOPLE + at:010}", "keys": [_key(generator) for _ in range(_KEYS)]}
            for at in range(_PEOPLE)
        ]
        yield json.dumps({"users": people}).encode()


def _key(generator: random.Random) -> str:
    return f"key-{int(generator.paretovariate(0.5)) % 10**12:012}"


def _bodies() -> Iterator[bytes]:
    generator = random.Random(1)
    bodies = []
    for _ in range(_TOGETHER * 2 + _REQUESTS * ROUNDS):
        users = [f"user-{generator.randrange(_KNOWN):08}" for _ in range(_USERS)]
        events = [{"user": users[at % _USERS], "key": _key(generator)} for at in range(_ITEMS)]
        bodies.append(json.dumps({"events": events}).encode())
    return itertools.cycle(bodies)
