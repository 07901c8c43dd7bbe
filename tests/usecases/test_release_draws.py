"""A release searches and draws before it locks anything, and uses each draw once."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from typing import cast, get_args

import pytest
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from app.core.errors import BudgetExhausted
from app.core.histogram import Counts, Snapshot
from app.core.kernel import batch_of
from app.core.ledger import account
from app.core.ledger.budget import Budget, Cost
from app.core.mechanism import FAMILIES
from app.core.mechanisms import MECHANISMS, gshm, of_family
from app.core.noise import samplers
from app.core.noise.gaussians import largest_distance
from app.core.noise.samplers import Noise, draw_ahead
from app.core.planner import choose, run
from app.core.selection import Selection
from app.core.sketches.compact import CompactSketch
from app.core.sketches.parameters import SketchParameters
from app.core.sketches.state import Sketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch
from app.core.sketches.universe import Universe, of_values
from app.main import build_context
from app.refusals import IdempotencyKeyReused, Overloaded, Unavailable
from app.settings import Settings
from app.store import sketches, snapshots, states
from app.store.claims import Claim
from app.usecases.context import Context
from app.usecases.ingest.submission import Submission
from app.usecases.manage_sketches import OwnBudget, SketchSpec, create_sketch, delete_sketch
from app.usecases.merge_sketches import merge_sketches
from app.usecases.plan_release import Terms
from app.usecases.read_bars import read_bars
from app.usecases.release_snapshot import release_snapshot, release_together
from app.usecases.together import Mode, taken_together
from tests import books
from tests.counting import count_one

_K = 8
_KEYS = ["a", "b", "c", "d", "e"]
_UNIVERSE = of_values([f"u{number}" for number in range(50)] + _KEYS)
_MECHANISMS = {
    mechanism.name + (" of a sum" if family == "summed" else ""): family
    for family in FAMILIES.values()
    for mechanism in of_family(family)
}
_IN_RHO = {mechanism.name for mechanism in MECHANISMS if mechanism.needs_rho}


@dataclass
class _Numbers:
    """A sampler whose draws are 1000, 1001, …, so that each is known again; it notes what was asked of it, and when."""

    context: Context | None = None
    asked: list[tuple[float, int]] = field(default_factory=list)
    within: list[bool] = field(default_factory=list)  # whether a transaction was open
    given: list[int] = field(default_factory=list)
    next_draw: Iterator[int] = field(default_factory=lambda: count(1000))
    first_uniform: int = 5 * 10**59  # how many keys noise alone lifts: at a half none
    tossed: list[int] = field(default_factory=list)

    def __call__(self, scale: float, size: int) -> list[int]:
        self.asked.append((scale, size))
        self._note()
        drawn = [next(self.next_draw) for _ in range(size)]
        self.given += drawn
        return drawn

    def below(self, limit: int) -> int:
        """A half of the limit; of few, as the universe has keys, each in turn."""
        self._note()
        self.tossed.append(limit)
        if limit == 10**60:
            return self.first_uniform
        return len(self.tossed) % limit if limit == _UNIVERSE.size else limit // 2

    def _note(self) -> None:
        if self.context is not None:
            self.within.append(_in_use(self.context))


def _in_use(context: Context) -> bool:
    """Whether some transaction is open, be it one that reads."""
    return cast(QueuePool, context.database.engine.pool).checkedout() > 0


def _noise(sampler: _Numbers) -> Noise:
    return Noise(sampler, sampler, sampler.below)


@pytest.fixture
def numbers() -> _Numbers:
    return _Numbers()


@pytest.fixture
def context(settings: Settings, numbers: _Numbers) -> Iterator[Context]:
    context = build_context(settings, _noise(numbers))
    numbers.context = context
    yield context
    context.database.close()


def _create(
    context: Context, name: str = "views", universe: Universe | None = None, *, epsilon: str = "10", kind: str = "basic"
) -> None:
    budget = OwnBudget(Budget.granted(epsilon=epsilon, delta="1e-3"), kind)
    spec = SketchSpec(SketchParameters(k=_K, unit="event", max_contributions=1, universe=universe), ledger=budget)
    create_sketch(context, name, spec)
    count_one(context, name, Submission(batch_of([(key, 10_000 + 1000 * at) for at, key in enumerate(_KEYS)])))


def _create_family(context: Context, family: str, mechanism: str = "") -> None:
    kind = "zcdp" if mechanism in _IN_RHO else "basic"
    _create(context, universe=_UNIVERSE, kind=kind)
    if family != "stream":
        _create(context, "more", _UNIVERSE, kind=kind)
        merge_sketches(context, "views", ["more"], "compact" if family == "compact" else "summed")


def _terms(mechanism: str) -> Terms:
    if mechanism in _IN_RHO:
        return Terms(cost=Cost.charged_in_rho(rho="0.5", delta="1e-6"), beta=Decimal("0.05"))
    delta = "0" if mechanism in ("reduced-pure", "everywhere") else "1e-6"
    return Terms(cost=Cost.charged(epsilon="1", delta=delta), beta=Decimal("0.05"))


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
        offer = choose(_terms(mechanism).about(row.parameters, family=row.family, sources=row.sources), mechanism)
        sketch = states.load(session, row, for_update=False)
        return run(offer, sketch, row.parameters.universe, noise).histogram.counts


@pytest.mark.parametrize("case", _MECHANISMS)
@pytest.mark.parametrize("first_uniform", [5 * 10**59, 10**60 - 10**40], ids=["none by noise alone", "some"])
def test_a_release_is_what_the_mechanism_gives_for_the_same_draws(
    context: Context, numbers: _Numbers, case: str, first_uniform: int
) -> None:
    """So drawing ahead leaves the law as it is: the same draws in the same order, none twice, none left out."""
    mechanism, *_ = case.split()
    _create_family(context, _MECHANISMS[case], mechanism)
    plain = _Numbers(first_uniform=first_uniform)
    numbers.first_uniform = first_uniform
    expected = _without_a_stock(context, mechanism, _noise(plain))
    assert set(_KEYS) <= expected.keys()
    assert _counts(context, _release(context, mechanism)) == expected
    assert (numbers.given, numbers.tossed) == (plain.given, plain.tossed)


@pytest.mark.parametrize("case", _MECHANISMS)
@pytest.mark.parametrize("first_uniform", [5 * 10**59, 10**60 - 10**40], ids=["none by noise alone", "some"])
def test_all_draws_are_made_before_a_lock_is_held_and_are_those_of_an_empty_sketch(
    context: Context, numbers: _Numbers, case: str, first_uniform: int
) -> None:
    mechanism, *_ = case.split()
    _create_family(context, _MECHANISMS[case], mechanism)
    numbers.first_uniform = first_uniform
    _release(context, mechanism)
    assert len(numbers.within) == len(numbers.asked) + len(numbers.tossed) > 0
    assert not any(numbers.within)
    with context.database.reading() as session:
        row = sketches.get(session, "views")
    empty: dict[str, Sketch] = {
        "stream": StreamSketch.empty(_K),
        "compact": CompactSketch.empty(_K),
        "summed": SummedSketch(_K, 2, {}),
    }
    other = _Numbers(first_uniform=first_uniform)
    question = _terms(mechanism).about(row.parameters, family=row.family, sources=row.sources)
    run(choose(question, mechanism), empty[row.family], _UNIVERSE, _noise(other))
    assert (numbers.asked, numbers.tossed) == (other.asked, other.tossed)


@pytest.mark.parametrize("mechanism", ["reduced-approx", "reduced-pure"])
def test_a_sum_of_very_many_keys_makes_a_draw_for_each_before_a_lock_is_held(
    context: Context, numbers: _Numbers, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samplers, "MOST_HIDDEN", len(_KEYS) - 1)
    _create_family(context, "summed")
    snapshot = _release(context, mechanism)
    assert [size for _, size in numbers.asked] == [1, len(_KEYS)]  # the first is for the number of events
    assert not any(numbers.within)
    assert _counts(context, snapshot) == _without_a_stock(context, mechanism, _noise(_Numbers()))


@pytest.mark.parametrize(
    ("mode", "mechanism"),
    [(mode, each.name) for mode in get_args(Mode) for each in of_family(mode) if not each.needs_rho],
)
def test_sketches_released_together_draw_for_all_keys_that_there_can_be_before_a_lock_is_held(
    context: Context, numbers: _Numbers, mode: Mode, mechanism: str
) -> None:
    """And what is added to them in the transaction is what the mechanism gives for the same draws."""
    names = ["c", "a", "b"]
    for name in names:
        _create(context, name, _UNIVERSE)
    snapshot = release_together(context, names, mode, _terms(mechanism), mechanism, None)
    assert not any(numbers.within)
    with context.database.reading() as session:
        rows = [sketches.get(session, name) for name in names]
        loaded = [states.load(session, row, for_update=False) for row in rows]
    sources = 3 if mode == "summed" else 1
    offer = choose(_terms(mechanism).about(rows[0].parameters, family=mode, sources=sources), mechanism)
    empty = SummedSketch.empty(_K, 3) if mode == "summed" else CompactSketch.empty(_K)
    given = []
    for sketch in (empty, taken_together(loaded, mode)):
        plain = _Numbers()
        given.append(run(offer, sketch, _UNIVERSE, _noise(plain)).histogram.counts)
        assert (numbers.asked, numbers.tossed) == (plain.asked, plain.tossed)
    assert _counts(context, snapshot) == given[1]


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
    with pytest.raises(IdempotencyKeyReused):
        _release(context, claim=_claim("other"))
    delete_sketch(context, "views")
    assert _release(context, claim=_claim()) == first
    assert len(numbers.given) == drawn
    assert books.read(context.database).payments == 1


@pytest.mark.parametrize(("mode", "mechanism"), [("compact", "gshm"), ("summed", "reduced-approx")])
def test_a_sketch_that_changes_after_the_draws_is_released_as_what_it_became(
    context: Context, numbers: _Numbers, mode: Mode, mechanism: str
) -> None:
    """Its draws do not fit any more. They are thrown away, and others are made, before a lock is held again."""
    _create(context)
    _create(context, "more")

    def merge_at_first(scale: float, size: int) -> list[int]:
        if not numbers.asked:
            merge_sketches(context, "views", ["more"], mode)
        return numbers(scale, size)

    snapshot = _release(replace(context, noise=Noise(merge_at_first, merge_at_first, numbers.below)))
    assert snapshot.mechanism == mechanism
    assert {paid["ledger"] for paid in snapshot.charged} == {"views", "more"}
    assert not any(numbers.within)
    fresh = _Numbers(next_draw=count(1000 + numbers.asked[0][1]))
    assert _counts(context, snapshot) == _without_a_stock(context, snapshot.mechanism, _noise(fresh))
    assert books.read(context.database).payments == 1


def test_a_sum_that_grows_after_it_was_copied_is_copied_again(context: Context, numbers: _Numbers) -> None:
    """So what is released is paid for by all whose data it holds."""
    _create_family(context, "summed")
    _create(context, "third", _UNIVERSE)

    def merge_at_first(scale: float, size: int) -> list[int]:
        if not numbers.asked:
            merge_sketches(context, "views", ["third"], "summed")
        return numbers(scale, size)

    snapshot = _release(replace(context, noise=Noise(merge_at_first, merge_at_first, numbers.below)), "reduced-approx")
    assert {paid["ledger"] for paid in snapshot.charged} == {"views", "more", "third"}
    assert [size for _, size in numbers.asked] == [1, 2 * _K, 1, 3 * _K]
    assert not any(numbers.within)
    fresh = _Numbers(next_draw=count(1000 + 1 + 2 * _K))
    assert _counts(context, snapshot) == _without_a_stock(context, "reduced-approx", _noise(fresh))


def test_a_sketch_that_changes_each_time_is_given_up_with_nothing_charged(context: Context, numbers: _Numbers) -> None:
    _create(context)
    others = [f"more-{number}" for number in range(9)]
    for name in others:
        _create(context, name)

    def merge_and_draw(scale: float, size: int) -> list[int]:
        merge_sketches(context, "views", [others.pop()], "summed")
        return numbers(scale, size)

    with pytest.raises(Overloaded):
        _release(replace(context, noise=Noise(merge_and_draw, merge_and_draw, numbers.below)), claim=_claim())
    assert [size for _, size in numbers.asked] == [_K + 1, 1, 2 * _K, 1, 4 * _K]  # three times, of more sources each
    assert not any(numbers.within)
    assert books.read(context.database).payments == 0
    drawn = len(numbers.given)
    _release(context, claim=_claim())  # the claim was given back as well
    assert books.read(context.database).payments == 1
    assert len(numbers.given) > drawn


def test_draws_of_a_release_that_failed_are_never_used_again(
    context: Context, numbers: _Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    _create(context)

    def fail(*_: object) -> None:
        raise Unavailable("the commit was refused")

    with monkeypatch.context() as broken:
        broken.setattr(snapshots, "add", fail)
        with pytest.raises(Unavailable):
            _release(context, "pmg", _claim())
    drawn = len(numbers.given)
    assert books.read(context.database).payments == 0
    fresh = _Numbers(next_draw=count(1000 + drawn))
    assert _counts(context, _release(context, "pmg", _claim())) == _without_a_stock(context, "pmg", _noise(fresh))
    assert len(set(numbers.given)) == len(numbers.given) == 2 * drawn


def test_draws_made_ahead_are_given_out_once_in_their_order_and_no_others_are_made(numbers: _Numbers) -> None:
    def rehearse(noise: Noise) -> None:
        noise.laplace(2.5, 3)
        noise.laplace(2.5, 3)
        noise.gaussian(4.0, 2)
        assert [noise.below(9) for _ in range(3)] == [4, 4, 4]
        noise.below(3)

    ahead = draw_ahead(_noise(numbers), rehearse)
    asked, tossed = list(numbers.asked), list(numbers.tossed)
    assert ahead.gaussian(4.0, 2) == [1006, 1007]
    assert ahead.laplace(2.5, 3) == [1000, 1001, 1002]
    assert ahead.laplace(2.5, 3) == [1003, 1004, 1005]
    assert [ahead.below(9), ahead.below(9), ahead.below(9), ahead.below(3)] == [4, 4, 4, 1]
    for more in (lambda: ahead.laplace(2.5, 3), lambda: ahead.gaussian(4.0, 2), lambda: ahead.below(3)):
        with pytest.raises(RuntimeError, match="not made ahead"):
            more()
    assert (numbers.asked, numbers.tossed) == (asked, tossed)


@pytest.mark.parametrize(("scale", "size"), [(2.0, 3), (2.5, 2), (2.5, 4), (2.5, 0)])
def test_draws_made_ahead_are_of_one_law_and_one_size(numbers: _Numbers, scale: float, size: int) -> None:
    ahead = draw_ahead(_noise(numbers), lambda noise: noise.laplace(2.5, 3))
    with pytest.raises(RuntimeError, match="not made ahead"):
        ahead.laplace(scale, size)
    assert ahead.laplace(2.5, 3) == [1000, 1001, 1002]


@dataclass
class _Searches:
    """Notes each calibration of Gaussian noise, and whether a transaction was open meanwhile."""

    context: Context
    within: list[bool] = field(default_factory=list)

    def __call__(self, epsilon: float, delta: float) -> float:
        self.within.append(_in_use(self.context))
        return largest_distance(epsilon, delta)


@pytest.fixture
def searches(context: Context, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Searches]:
    searches = _Searches(context)
    monkeypatch.setattr(gshm, "largest_distance", searches)
    for cached in (gshm.calibrate, account._largest_gaussian):
        cached.cache_clear()
    yield searches
    for cached in (gshm.calibrate, account._largest_gaussian):
        cached.cache_clear()


def _gaussian(context: Context, epsilon: str, claim: Claim | None = None) -> Snapshot:
    terms = Terms(cost=Cost.charged(epsilon=epsilon, delta="1e-6"), beta=Decimal("0.05"))
    return release_snapshot(context, "views", terms, "gshm", claim)


def _writes(context: Context, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows with each transaction that writes."""
    begun: list[None] = []
    begin = context.database._writing.begin

    def noted() -> AbstractContextManager[Session]:
        begun.append(None)
        return begin()

    monkeypatch.setattr(context.database._writing, "begin", noted)
    return begun


def test_a_refusal_takes_no_lock_and_is_explained_by_one_search(
    context: Context, numbers: _Numbers, searches: _Searches, monkeypatch: pytest.MonkeyPatch
) -> None:
    _create(context, epsilon="0.5", kind="zcdp")
    _create(context, "more")
    merge_sketches(context, "views", ["more"], "compact")
    begun = _writes(context, monkeypatch)
    with pytest.raises(BudgetExhausted) as refused:
        _gaussian(context, "5")
    assert float(refused.value.largest["epsilon"]) > 0
    assert 1 < len(searches.within) <= 12
    del searches.within[1:]
    with pytest.raises(BudgetExhausted) as again:
        _gaussian(context, "6")
    assert again.value.largest["epsilon"] == refused.value.largest["epsilon"]
    assert searches.within == [False, False]  # of the two that were asked for; what fits was known
    assert begun == numbers.given == []


def test_a_refusal_that_comes_to_light_under_the_lock_is_explained_after_it(
    context: Context, numbers: _Numbers, searches: _Searches
) -> None:
    """Another release takes most of what is left while the noise is drawn."""
    _create(context, epsilon="0.5", kind="zcdp")
    _create(context, "more")
    merge_sketches(context, "views", ["more"], "compact")
    with pytest.raises(BudgetExhausted) as first:
        _gaussian(context, "5")
    asked, less = (f"{float(first.value.largest['epsilon']) * share:.9f}" for share in (0.9, 0.8))

    def spend_at_first(scale: float, size: int) -> list[int]:
        if not numbers.asked:
            numbers(scale, size)
            _gaussian(context, less)
        return numbers(scale, size)

    with pytest.raises(BudgetExhausted) as refused:
        _gaussian(replace(context, noise=Noise(spend_at_first, spend_at_first, numbers.below)), asked)
    assert refused.value.blocking == ["views"]
    assert 0 < float(refused.value.largest["epsilon"]) < float(less)
    assert not any(searches.within)
    assert books.read(context.database).payments == 1
    assert _gaussian(context, refused.value.largest["epsilon"]).epsilon == refused.value.largest["epsilon"]
