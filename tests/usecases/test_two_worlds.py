"""One person, or one event, more or less: whatever requests they are cut into, the stored sketches are neighbours.

The same through HTTP is in `tests/api/test_two_worlds.py`, and through `discreet ingest` in `tests/client`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from app.core.kernel import Batch, batch_of, sets_of
from app.core.ledger.budget import Budget
from app.core.people import Enforcement, Unit
from app.core.sketches.compact import CompactSketch
from app.core.sketches.parameters import SketchParameters
from app.main import build_context
from app.settings import Settings
from app.store.claims import Claim
from app.usecases.context import Context
from app.usecases.ingest.count import count_submissions
from app.usecases.ingest.people import rules_of
from app.usecases.ingest.submission import Submission
from app.usecases.manage_ledgers import create_ledger
from app.usecases.manage_sketches import SketchSpec, create_sketch
from app.usecases.merge_sketches import merge_sketches
from tests import books
from tests.worlds import (
    MOST_KEYS,
    Counts,
    Event,
    Person,
    are_compact_neighbours,
    are_neighbours,
    counted,
    is_close,
    pair_of_events,
    pair_of_people,
    whole_request,
)

pytestmark = pytest.mark.long

PAIRS = 1700  # of people, on each database; with those through HTTP 4,000 in all
EVENT_PAIRS = 200


@pytest.fixture
def workers(database_url: str, tmp_path: Path) -> Iterator[list[Context]]:
    """Two processes' worth of open sketches on one database."""
    settings = Settings(database_url=database_url, user_key_file=str(tmp_path / "user.key"))
    contexts = [build_context(settings) for _ in range(2)]
    create_ledger(contexts[0], "all", "basic", Budget.granted(epsilon="1", delta="1e-3"), None)
    yield contexts
    for context in contexts:
        context.database.close()


def _create(context: Context, name: str, k: int, unit: Unit, enforcement: Enforcement = "declared") -> None:
    spec = SketchSpec(
        SketchParameters(k=k, unit=unit, max_contributions=MOST_KEYS if unit == "user" else 1, enforcement=enforcement),
        ledger="all",
    )
    create_sketch(context, name, spec)


def _send(workers: Sequence[Context], name: str, batches: Sequence[Batch], rng: Random) -> None:
    """In order: some together in a commit, some again, by whichever worker."""
    rules = rules_of(workers[0], name)
    at = 0
    while at < len(batches):
        together = batches[at : at + rng.choice((1, 2, 5))]
        submissions = [
            Submission(batch, claim, None, rules.people_in(batch), rules)
            for batch, claim in zip(together, _claims(name, at, len(together), rng), strict=True)
        ]
        worker = rng.choice(workers)
        for _ in range(rng.choice((1, 2)) if submissions[0].claim else 1):
            assert count_submissions(worker, name, submissions) == [None] * len(submissions)
        at += len(together)


def _claims(name: str, first: int, number: int, rng: Random) -> list[Claim | None]:
    """So that they can be sent again; or none, which lets the fast path count them."""
    if rng.random() < 0.5:
        return [None] * number
    keys = (f"{first + place}" for place in range(number))
    return [Claim.of(secret="s", operation="events", target=name, key=key, content=b"") for key in keys]


def _stored_people(
    workers: Sequence[Context], name: str, k: int, enforcement: Enforcement, requests: list[list[Person]], rng: Random
) -> CompactSketch:
    _create(workers[0], name, k, "user", enforcement)
    _send(workers, name, [sets_of(request, MOST_KEYS) for request in requests], rng)
    return _compact(workers[0], name)


def _compact(worker: Context, name: str) -> CompactSketch:
    found = books.sketch(worker.database, name)
    assert isinstance(found, CompactSketch)
    return found


def test_one_person_more_moves_stored_counters_by_at_most_one_in_one_direction(workers: list[Context]) -> None:
    """`cor:merged-user-level`, and the error stays at most M/(k+1). Where nobody is counted, everybody comes once.

    Counters that fall were lowered once more, and the sketch knows how many people it has counted.
    """
    for number in range(PAIRS):
        rng = Random(number)
        enforcement: Enforcement = "enforced" if number % 2 else "declared"
        pair = pair_of_people(rng, again=enforcement == "enforced")
        longer, shorter = (
            _stored_people(workers, f"{world}-{number}", pair.k, enforcement, requests, rng)
            for world, requests in zip(("longer", "shorter"), pair.requests(), strict=True)
        )
        assert are_neighbours(longer.counters, shorter.counters), number
        assert are_compact_neighbours(longer, shorter), number
        for sketch, people in ((longer, pair.longer), (shorter, pair.shorter)):
            assert is_close(sketch.counters, counted(people), pair.k), number
            assert sketch.items == len({name for name, _ in people}), number


def _merged(workers: Sequence[Context], number: int, world: str, k: int, requests: list[list[Event]]) -> CompactSketch:
    """Two streams, merged, and the requests into the merged sketch."""
    rng = Random(number)
    for source in "ab":
        _create(workers[0], f"{source}-{world}-{number}", k, "event")
        before = [(rng.choice("abcdefgh"), rng.randint(1, 9)) for _ in range(rng.randint(0, 20))]
        _send(workers, f"{source}-{world}-{number}", [batch_of(before)], rng)
    name = f"{world}-{number}"
    merge_sketches(workers[0], name, [f"a-{name}", f"b-{name}"], "compact")
    _send(workers, name, [batch_of(request) for request in requests], rng)
    return _compact(workers[0], name)


def test_one_event_more_in_a_merged_sketch_moves_counters_by_at_most_one_in_one_direction(
    workers: list[Context],
) -> None:
    """`corol:merged-sensitivity`, for events that are sent into a sketch after it was merged."""
    for number in range(EVENT_PAIRS):
        pair = pair_of_events(Random(number))
        longer, shorter = (
            _merged(workers, number, world, pair.k, requests)
            for world, requests in zip(("longer", "shorter"), pair.requests(), strict=True)
        )
        assert are_neighbours(longer.counters, shorter.counters), number
        assert are_compact_neighbours(longer, shorter), number
        assert longer.items is not None
        assert shorter.items == longer.items - 1


# The tests above can fail


def _counted_by_request(k: int, requests: list[list[Person]]) -> Counts:
    stored: Counts = {}
    seen: set[str] = set()
    for request in requests:
        new = [item for item in request if item[0] not in seen]
        stored = whole_request(k, stored, counted(new))
        seen |= {name for name, _ in new}
    return stored


def test_a_fold_of_whole_requests_breaks_the_claim() -> None:
    pairs = [pair_of_people(Random(number)) for number in range(PAIRS)]
    worlds = [[_counted_by_request(pair.k, requests) for requests in pair.requests()] for pair in pairs]
    apart = [largest_difference(longer, shorter) for longer, shorter in worlds]
    assert sum(not are_neighbours(*world) for world in worlds) > PAIRS // 20
    assert max(apart) >= 3


def largest_difference(left: Counts, right: Counts) -> int:
    differences = Counter(dict(left))
    differences.subtract(dict(right))
    return max((abs(difference) for difference in differences.values()), default=0)


def test_a_fold_of_whole_requests_of_events_breaks_its_claim() -> None:
    broken = 0
    for number in range(EVENT_PAIRS):
        pair = pair_of_events(Random(number))
        worlds = []
        for requests in pair.requests():
            stored: Counts = {}
            for request in requests:
                added: Counter[str] = Counter()
                for key, count in request:
                    added[key] += count
                stored = whole_request(pair.k, stored, added)
            worlds.append(stored)
        broken += not are_neighbours(*worlds)
    assert broken > EVENT_PAIRS // 20
