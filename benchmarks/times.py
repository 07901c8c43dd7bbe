"""Part `times`: how long a release of the largest sketch, a plan and advice take."""

import itertools
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from app.core.advice import Wish, advise
from app.core.ledger.budget import Cost
from app.core.mechanism import Family
from app.core.mechanisms import gshm, pmg
from app.core.noise.samplers import SYSTEM_NOISE
from app.core.people import Unit
from app.core.planner import offers
from app.core.sketches.compact import CompactSketch
from app.core.sketches.parameters import Contributions
from app.core.sketches.stream import MAX_K, StreamSketch
from benchmarks import before
from benchmarks.contenders import BETA, question
from benchmarks.inputs import key_of
from benchmarks.markdown import number
from benchmarks.report import Part
from benchmarks.rounds import ROUNDS, busy_seconds, in_rounds, median

_COST = Cost.charged(epsilon="1", delta="1e-6")

_fresh = itertools.count(1)  # so that nothing was computed already


def run(part: Part, *, quick: bool) -> None:
    """Measure in rounds; a full sketch, and the operating system's noise."""
    part.say(
        f"Processor time, medians of {ROUNDS} rounds, k = {MAX_K:,}, ε = 1, δ = 1e-6. A release draws its noise from "
        "the operating system, in memory, without the database. A plan or advice is for figures that were not asked "
        "before: the service keeps what it has computed."
    )
    costs = in_rounds(_releases() | _plans())
    part.show(["what", "ms"], [[name, number(1e3 * median(cost))] for name, cost in costs.items()])


def _releases() -> dict[str, Callable[[], float]]:
    counters = {key_of(at): 1000 + at for at in range(MAX_K)}
    stream, compact = StreamSketch(MAX_K, counters, lowered=0), CompactSketch(MAX_K, counters, 0, 0)
    by_pmg, by_gshm, earlier = pmg.calibrate(MAX_K, _COST), gshm.calibrate(MAX_K, _COST), _before(_COST)
    return {
        "release of a stream (pmg; the same draws before)": lambda: busy_seconds(
            lambda: by_pmg.release(stream, SYSTEM_NOISE)
        ),
        "release of a compact sketch (gshm)": lambda: busy_seconds(lambda: by_gshm.release(compact, SYSTEM_NOISE)),
        "release of a compact sketch, before": lambda: busy_seconds(lambda: earlier.release(compact, SYSTEM_NOISE)),
    }


def _plans() -> dict[str, Callable[[], float]]:
    return {
        "plan for a stream": lambda: busy_seconds(lambda: _plan("stream")),
        "plan for a compact sketch": lambda: busy_seconds(lambda: _plan("compact")),
        "calibration of a compact sketch (gshm)": lambda: busy_seconds(lambda: gshm.calibrate(MAX_K, _new_cost())),
        "calibration of a compact sketch, before": lambda: busy_seconds(lambda: _before(_new_cost())),
        "advice for a stream": lambda: busy_seconds(lambda: advise(_wish("event"), MAX_K)),
        "advice for people's sets": lambda: busy_seconds(lambda: advise(_wish("user"), MAX_K)),
    }


def _before(cost: Cost) -> before.Gshm:
    return before.calibrate_gshm(MAX_K, cost)


def _plan(family: Family) -> object:
    return offers(question(family, MAX_K, _new_cost()))


def _new_cost() -> Cost:
    return Cost.charged(epsilon=1 + Decimal(next(_fresh)) / 1000, delta="1e-6")


def _wish(unit: Unit) -> Wish:
    return Wish(
        events_per_day=1_000_000 + next(_fresh),
        smallest_count=None,
        number=1,
        every="day",
        days=30 + next(_fresh),
        covers="everything",
        contributions=Contributions(unit, 1 if unit == "event" else 10),
        budget=None,
        beta=Decimal(str(BETA)),
        total_share=Fraction(0),
    )
