"""A case of the audit: neighbours, and the calibrated mechanism that is to hide which of them it was given."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from app.core import planner
from app.core.histogram import Released
from app.core.ledger.budget import DELTA_DIGITS, Cost
from app.core.mechanism import FAMILIES, Calibrated
from app.core.mechanisms import pmg
from app.core.mechanisms.pmg import StandardPmg
from app.core.noise.samplers import Noise
from app.core.planner import Question
from app.core.sketches.standard import StandardSketch
from app.core.sketches.state import Sketch
from app.core.sketches.summed import SummedSketch
from app.core.sketches.universe import Universe

AnySketch = Sketch | StandardSketch
Pair = tuple[AnySketch, AnySketch]
Release = Callable[[AnySketch, Noise], Released]

DRAWS = 60_000
TOTAL = "(total)"  # stands for a key

_BETA = 0.5  # keeps the public cut-offs of the pure mechanisms low, so that there is something to see


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`release_with` gives the release of a calibrated mechanism; so a test may change what was calibrated."""

    mechanism: str
    neighbours: str
    cost: Cost  # what is charged, and so what is claimed; of a cost in ρ, an (ε, δ) that follows from it
    calibrated: Calibrated[Any]
    release_with: Callable[[Calibrated[Any]], Release]
    pair: Pair
    universe: Universe | None = None
    total: tuple[str, ...] = ()  # the column of the total, where it is released too
    draws: int  # of each neighbour, in a full audit

    def release(self) -> Release:
        return self.release_with(self.calibrated)

    def keys(self) -> list[str]:
        """Every key that can be reported."""
        everywhere = [] if self.universe is None else [self.universe.key(i) for i in range(self.universe.size)]
        return sorted({*everywhere, *self.total, *(key for sketch in self.pair for key in sketch.counters)})


def planned(
    mechanism: str,
    neighbours: str,
    pair: tuple[Sketch, Sketch],
    *,
    epsilon: str,
    delta: str,
    rho: str | None = None,
    max_contributions: int = 1,
    universe: Universe | None = None,
    total_share: Fraction = Fraction(0),
    draws: int = DRAWS,
) -> Case:
    """As the service does it: the planner calibrates the named mechanism, and releases with it.

    With ρ, that and δ are the price, and the claim is what follows from them at ε.
    """
    longer, _ = pair
    in_epsilon = Cost.charged(epsilon=epsilon, delta=delta)
    question = Question(
        family=FAMILIES[type(longer)],
        k=longer.k,
        max_contributions=max_contributions,
        sources=longer.sources if isinstance(longer, SummedSketch) else 1,
        universe_size=None if universe is None else universe.size,
        cost=in_epsilon if rho is None else Cost.charged_in_rho(rho=rho, delta=delta),
        beta=_BETA,
        total_share=total_share,
    )
    offer = planner.choose(question, mechanism)

    def release_with(calibrated: Calibrated[Any]) -> Release:
        changed = replace(offer, calibrated=calibrated)

        def release(sketch: AnySketch, noise: Noise) -> Released:
            assert not isinstance(sketch, StandardSketch)
            output = planner.run(changed, sketch, universe, noise)
            if output.total is None:
                return output.histogram
            return replace(output.histogram, counts={**output.histogram.counts, TOTAL: output.total})

        return release

    return Case(
        mechanism=mechanism,
        neighbours=f"k = {longer.k}: {neighbours}",
        cost=offer.cost if rho is None else replace(in_epsilon, delta_units=converted(offer.cost, float(epsilon))),
        calibrated=offer.calibrated,
        release_with=release_with,
        pair=pair,
        universe=universe,
        total=(TOTAL,) if total_share else (),
        draws=draws,
    )


def converted(cost: Cost, epsilon: float) -> int:
    """The units of δ that go with ε, by the best of many orders (Canonne, Kamath & Steinke 2020), rounded up."""
    orders = 1 + np.geomspace(1e-3, 1e3, 10_000)
    logs = (orders - 1) * (orders * float(cost.rho) - epsilon) + orders * np.log1p(-1 / orders) - np.log(orders - 1)
    added: int = math.ceil(math.exp(float(logs.min())) * 10**DELTA_DIGITS)
    return cost.delta_units + added


def standard(neighbours: str, pair: tuple[StandardSketch, StandardSketch], *, epsilon: str, delta: str) -> Case:
    """The variant for sketches that drop zero counters, which the planner does not offer."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)

    def release_with(calibrated: Calibrated[Any]) -> Release:
        def release(sketch: AnySketch, noise: Noise) -> Released:
            assert isinstance(calibrated, StandardPmg)
            assert isinstance(sketch, StandardSketch)
            return Released(calibrated.release_standard(sketch, noise), None)

        return release

    k = pair[0].k
    return Case(
        mechanism="pmg standard",
        neighbours=f"k = {k}: {neighbours}",
        cost=cost,
        calibrated=pmg.calibrate_standard(k, cost),
        release_with=release_with,
        pair=pair,
        draws=DRAWS,
    )
