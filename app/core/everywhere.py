"""Noise on every key of a universe, without a draw for every key.

Every key x of a universe of size d gets c_x + ζ_x, ζ discrete Laplace, and those at or above a cut-off are kept. Keys
with a counter are drawn one by one. Of the u others, each is kept with probability q = Pr[ζ ≥ cut-off], independently:
so how many are kept is Binomial(u, q), which ones is uniform, and by how much each passes the cut-off is geometric,
which is the law of ζ − 1 given ζ ≥ 1. Each of the three is drawn exactly, so the result has the law of d draws.
"""

from collections.abc import Iterator
from decimal import Context, Decimal, localcontext

from app.core.histogram import Counts
from app.core.noise import Below, Sampler, geometric
from app.core.universe import Universe


def noisy_everywhere(
    counters: Counts, universe: Universe, scale: float, cutoff: int, sample: Sampler, below: Below
) -> dict[str, int]:
    """The noisy values of all keys of the universe that are at least the cut-off, which must be positive."""
    stored = sorted(counters)
    draws = sample(scale, len(stored))
    noisy = {key: counters[key] + draw for key, draw in zip(stored, draws, strict=True)}
    kept = {key: value for key, value in noisy.items() if value >= cutoff}
    others = binomial_of_tail(universe.size - len(stored), scale, cutoff, below)
    for key in _unstored(counters, universe, others, below):
        kept[key] = cutoff + geometric(scale, sample)
    return kept


def _unstored(counters: Counts, universe: Universe, number: int, below: Below) -> Iterator[str]:
    """So many different keys without a counter, all choices equally likely."""
    chosen: set[str] = set()
    while len(chosen) < number:
        key = universe.key(below(universe.size))
        if key not in counters and key not in chosen:
            chosen.add(key)
            yield key


_DIGITS = 60
_GUARD = 60  # digits beyond: trials·log(1 − q) loses 20 of them, the recursion a few


def binomial_of_tail(trials: int, scale: float, cutoff: int, below: Below) -> int:
    """How many of so many draws of scale `scale` are at least the cut-off: Binomial(trials, Pr[ζ ≥ cutoff]), exactly.

    By inversion: a uniform number is drawn to 60 digits and compared with the distribution function, computed to more.
    If the digits do not decide the comparison, more are drawn. So no rounding enters the law.
    """
    digits, drawn = _DIGITS, below(10**_DIGITS)
    while True:
        decided = _inverted(trials, scale, cutoff, drawn, digits)
        if decided is not None:
            return decided
        drawn, digits = drawn * 10**_DIGITS + below(10**_DIGITS), digits + _DIGITS


def _inverted(trials: int, scale: float, cutoff: int, drawn: int, digits: int) -> int | None:
    """The quantile at [drawn, drawn + 1)·10^−digits; None where the interval straddles a step."""
    with localcontext(Context(prec=digits + _GUARD)):
        low = Decimal(drawn).scaleb(-digits)
        high = Decimal(drawn + 1).scaleb(-digits)
        margin = Decimal(1).scaleb(-digits - 10)  # far more than the computation loses
        p = (-1 / Decimal(scale)).exp()
        q = p**cutoff / (1 + p)
        mass = (trials * (1 - q).ln()).exp() if trials else Decimal(1)
        reached = mass
        for successes in range(trials + 1):
            if high <= reached - margin:
                return successes
            if low < reached + margin:
                return None
            mass *= q / (1 - q) * (trials - successes) / (successes + 1)
            reached += mass
    return None  # the sum of all steps is 1, up to the margin
