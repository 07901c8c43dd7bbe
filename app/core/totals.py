"""Release how many events, or people, a sketch has counted: a number with noise of its own, for a share of the price.

One event more or less moves the number by one, up to m of a person by m, and a person in a sketch of people's sets by
one. So discrete Laplace noise of scale m/ε makes it ε-private, and discrete Gaussian noise of deviation σ m²/2σ²-zCDP:
the noise is whole and so is the move, so both hold exactly (Canonne, Kamath & Steinke 2020, Theorem 4). A ledger
adds it up with the histogram's own cost, as two releases that are made together.

The number is private, so it is released for this price or not at all. It needs no threshold and no δ. Proof note:
totals.md
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from app.core.histogram import Interval
from app.core.ledger.budget import Cost
from app.core.noise.samplers import Noise, laplace_scale
from app.core.noise.tails import draw_bound

USUAL_SHARE = Fraction(2, 100)  # of the price
SHARE_OF_BETA = Fraction(1, 10)  # the intervals of the counts get the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A release of the number of events, calibrated for its share of a cost."""

    cost: Cost  # its share
    max_contributions: int  # m
    scale: float  # m/ε, or σ where the cost is in ρ

    def release(self, number: int, noise: Noise) -> int:
        """Draw noise and add it. One draw, whatever the number is."""
        sample = noise.gaussian if self.cost.rho_units else noise.laplace
        return number + sample(self.scale, 1)[0]

    def interval(self, noisy: int, beta: float) -> Interval:
        """Where the true number lies with probability 1 − β."""
        reach = self.reach(beta)
        return Interval(max(0, noisy), max(0, noisy - reach), max(0, noisy + reach))

    def reach(self, beta: float) -> int:
        """How far off the number may be, except with probability β."""
        if self.cost.rho_units:
            return math.ceil(self.scale * math.sqrt(2 * math.log(2 / beta)))  # Pr[|Z| ≥ b] ≤ 2·e^(−b²/2σ²)
        return draw_bound(self.scale, 1, beta / 2)

    def rho(self) -> Fraction:
        """ρ at which it is ρ-zCDP."""
        if not self.cost.rho_units:
            return self.cost.epsilon**2 / 2
        return Fraction(self.max_contributions**2) / (2 * Fraction(self.scale) ** 2)

    def parameters(self) -> dict[str, object]:
        """What a sceptic needs to recompute its guarantee; names begin with `total_`."""
        law = "discrete-gaussian" if self.cost.rho_units else "discrete-laplace"
        return {"total_noise": law, "total_scale": f"{self.scale:.17g}"}


def shares(cost: Cost, share: Fraction) -> tuple[Cost, Cost]:
    """The cost of the total, its share rounded up, and what is left for the histogram. Together they are the cost."""
    epsilon, rho = -(-cost.epsilon_units * share // 1), -(-cost.rho_units * share // 1)
    return Cost(epsilon, 0, rho), Cost(cost.epsilon_units - epsilon, cost.delta_units, cost.rho_units - rho)


def calibrate(cost: Cost, max_contributions: int) -> Total:
    """The least noise that this cost allows."""
    if not cost.rho_units:
        scale = laplace_scale(cost.epsilon / max_contributions)
        return Total(cost=cost, max_contributions=max_contributions, scale=scale)
    least = Fraction(max_contributions**2) / (2 * cost.rho)  # σ²
    sigma = math.sqrt(least)
    while Fraction(sigma) ** 2 < least:
        sigma = math.nextafter(sigma, math.inf)
    return Total(cost=cost, max_contributions=max_contributions, scale=sigma)


def rho_of(parameters: Mapping[str, Any]) -> Fraction:
    """ρ of the total that was released with Gaussian noise and these published parameters; 0 where none was."""
    if "total_noise" not in parameters:
        return Fraction(0)
    scale, m = Fraction(float(str(parameters["total_scale"]))), int(str(parameters["max_contributions"]))
    return Fraction(m**2) / (2 * scale**2)
