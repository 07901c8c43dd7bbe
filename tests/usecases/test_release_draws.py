"""A release draws its noise before it locks anything, and uses each draw once."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from typing import cast

import pytest
from sqlalchemy.pool import QueuePool

from app.core.budget import Budget, Cost
from app.core.claims import Claim
from app.core.errors import KeyReused
from app.core.histogram import Counts, Selection, Snapshot
from app.core.kernel import batch_of
from app.core.noise import Draws, Noise
from app.core.planner import choose, draws, released
from app.core.universe import Universe, of_values
from app.main import build_context
from app.settings import Settings
from app.store import sketches, states
from app.usecases.context import Context
from app.usecases.ingest_events import Submission, ingest_events
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch, delete_sketch
from app.usecases.merge_sketches import merge_sketches
from app.usecases.plan_release import Terms
from app.usecases.read_snapshots import read_bars
from app.usecases.release_snapshot import release_snapshot
from tests import books

_K = 8
_KEYS = ["a", "b", "c", "d", "e"]
_MECHANISMS = {
    "pmg": "stream",
    "reduced-approx": "stream",
    "reduced-pure": "stream",
    "gshm": "compact",
    "laplace-compact": "compact",
    "reduced-approx of a sum": "summed",
    "reduced-pure of a sum": "summed",
}


@dataclass
class _Numbers:
    """A sampler whose draws are 1000, 1001, …, so that each is known again; it notes what was asked of it, and when."""

    context: Context | None = None
    asked: list[tuple[float, int]] = field(default_factory=list)
    within: list[bool] = field(default_factory=list)  # whether a transaction was open
    given: list[int] = field(default_factory=list)
    next_draw: Iterator[int] = field(default_factory=lambda: count(1000))

    def __call__(self, scale: float, size: int) -> list[int]:
        self.asked.append((scale, size))
        if self.context is not None:
            pool = cast(QueuePool, self.context.database.engine.pool)
            self.within.append(pool.checkedout() > 0)
        drawn = [next(self.next_draw) for _ in range(size)]
        self.given += drawn
        return drawn


def _noise(sampler: _Numbers) -> Noise:
    return Noise(sampler, sampler, lambda below: below // 2)


@pytest.fixture
def numbers() -> _Numbers:
    return _Numbers()


@pytest.fixture
def context(settings: Settings, numbers: _Numbers) -> Iterator[Context]:
    context = build_context(settings, _noise(numbers))
    numbers.context = context
    yield context
    context.database.close()


def _create(context: Context, name: str = "views", universe: Universe | None = None) -> None:
    budget = OwnBudget(Budget.granted(epsilon="10", delta="1e-3"), "basic")
    spec = SketchSpec(k=_K, unit="event", max_contributions=1, ledger=budget, description="", universe=universe)
    create_sketch(context, name, spec)
    ingest_events(context, name, Submission(batch_of([(key, 10_000 + 1000 * at) for at, key in enumerate(_KEYS)])))


def _create_family(context: Context, family: str) -> None:
    universe = of_values([f"u{number}" for number in range(50)] + _KEYS)
    _create(context, universe=universe)
    if family != "stream":
        _create(context, "more", universe)
        merge_sketches(context, "views", ["more"], "compact" if family == "compact" else "summed")


def _terms(mechanism: str) -> Terms:
    delta = "0" if mechanism == "reduced-pure" else "1e-6"
    return Terms(cost=Cost.charged(epsilon="1", delta=delta), beta=Decimal("0.05"), expected_events=None)


def _claim(content: str = "") -> Claim:
    return Claim.of(secret="s", operation="release", target="views", key="1", content=content.encode())


def _release(context: Context, mechanism: str = "auto", claim: Claim | None = None) -> Snapshot:
    return release_snapshot(context, "views", _terms(mechanism), mechanism, claim)


def _counts(context: Context, snapshot: Snapshot) -> Counts:
    return {bar.key: bar.count for piece in read_bars(context, snapshot.id, Selection()) for bar in piece}


def _without_a_stock(context: Context, mechanism: str, noise: Noise) -> Counts:
    """What the mechanism alone gives."""
    with context.database.reading() as session:
        row = sketches.get(session, "views")
        offer = choose(_terms(mechanism).about(row), mechanism)
        sketch = states.load(session, row, for_update=False)
        return released(offer, sketch, sketches.universe(row), noise)


@pytest.mark.parametrize("case", _MECHANISMS)
def test_a_release_is_what_the_mechanism_gives_for_the_same_draws(
    context: Context, numbers: _Numbers, case: str
) -> None:
    """So a stock leaves the law as it is: the same draws in the same order, none twice, none left out."""
    mechanism = case.partition(" ")[0]
    _create_family(context, _MECHANISMS[case])
    plain = _Numbers()
    expected = _without_a_stock(context, mechanism, _noise(plain))
    assert set(_KEYS) <= expected.keys()
    assert _counts(context, _release(context, mechanism)) == expected
    assert numbers.given[: len(plain.given)] == plain.given


@pytest.mark.parametrize("case", _MECHANISMS)
def test_the_draws_are_made_before_the_transaction(context: Context, numbers: _Numbers, case: str) -> None:
    mechanism = case.partition(" ")[0]
    _create_family(context, _MECHANISMS[case])
    _release(context, mechanism)
    with context.database.reading() as session:
        offer = choose(_terms(mechanism).about(sketches.get(session, "views")), mechanism)
    wanted = draws(offer)
    assert numbers.asked == [(wanted.scale, wanted.size)]  # once, and what is public
    assert numbers.within == [False]


def test_a_second_release_gets_draws_of_its_own(context: Context, numbers: _Numbers) -> None:
    _create(context)
    first, second = (_counts(context, _release(context, "pmg")) for _ in range(2))
    assert len(numbers.given) == len(set(numbers.given)) == 2 * (_K + 1)
    shifted = {key: second[key] - first[key] for key in _KEYS}
    assert set(shifted.values()) == {2 * (_K + 1)}  # the shared and the own draw are both later ones


def test_a_replayed_release_draws_nothing(context: Context, numbers: _Numbers) -> None:
    _create(context)
    first = _release(context, claim=_claim())
    drawn = len(numbers.given)
    assert _release(context, claim=_claim()) == first
    with pytest.raises(KeyReused):
        _release(context, claim=_claim("other"))
    delete_sketch(context, "views")
    assert _release(context, claim=_claim()) == first
    assert len(numbers.given) == drawn
    assert books.read(context.database).payments == 1


@pytest.mark.parametrize(("mode", "mechanism"), [("compact", "gshm"), ("summed", "reduced-approx")])
def test_a_sketch_that_changes_after_the_draws_is_released_as_what_it_became(
    context: Context, numbers: _Numbers, mode: str, mechanism: str
) -> None:
    """Its draws do not fit any more, or are too few; the others are made in the transaction."""
    _create(context)
    _create(context, "more")
    calls = numbers.asked

    def merge_at_first(scale: float, size: int) -> list[int]:
        if not calls:
            merge_sketches(context, "views", ["more"], "compact" if mode == "compact" else "summed")
        return numbers(scale, size)

    noise = Noise(merge_at_first, merge_at_first, lambda below: below // 2)
    snapshot = _release(replace(context, noise=noise))
    assert snapshot.mechanism == mechanism
    assert {paid["ledger"] for paid in snapshot.charged} == {"views", "more"}
    assert numbers.within == [False, True]
    fresh = _Numbers(next_draw=count(1000 + calls[0][1]))
    assert _counts(context, snapshot) == _without_a_stock(context, snapshot.mechanism, _noise(fresh))


@pytest.mark.parametrize("sizes", [[9], [3, 3, 3], [5, 5, 5], [0, 20], [9, 1, 1], [1] * 30, [4, 0, 5, 0, 2]])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_stock_gives_out_each_draw_once_and_then_new_ones(sizes: list[int], law: str) -> None:
    numbers = _Numbers()
    stocked = _noise(numbers).stocked(Draws("laplace" if law == "laplace" else "gaussian", 2.5, 9))
    assert numbers.asked == [(2.5, 9)]
    sample = stocked.laplace if law == "laplace" else stocked.gaussian
    given = [sample(2.5, size) for size in sizes]
    assert [len(part) for part in given] == sizes
    used = [draw for part in given for draw in part]
    assert used == numbers.given[: sum(sizes)]
    assert len(numbers.given) == max(9, sum(sizes))  # no more than were needed


def test_a_stock_is_of_one_law_and_one_scale(numbers: _Numbers) -> None:
    stocked = _noise(numbers).stocked(Draws("laplace", 2.5, 4))
    assert stocked.laplace(2.0, 2) == [1004, 1005]
    assert stocked.gaussian(2.5, 2) == [1006, 1007]
    assert stocked.laplace(2.5, 5) == [1000, 1001, 1002, 1003, 1008]
    assert numbers.asked == [(2.5, 4), (2.0, 2), (2.5, 2), (2.5, 1)]
