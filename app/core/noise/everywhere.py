"""Noise on every key of a universe, without a draw for every key.

Every key x of a universe of size d gets c_x + ζ_x, ζ discrete Laplace, and those at or above a cut-off are kept. Keys
with a counter are drawn one by one. The others have c_x = 0: each is kept with probability q = Pr[ζ ≥ cut-off],
independently. To draw these, all d keys are treated as if none had a counter. How many are kept is then Binomial(d, q),
which ones is uniform, and by how much each passes the cut-off is geometric, which is the law of ζ − 1 given ζ ≥ 1. Of
the keys kept so, those with a counter are left out again. They were kept independently of the others, so leaving them
out does not change the law of the others. Each of the three is drawn exactly, so the result has the law of d draws.

So nothing that is drawn depends on which keys have a counter, or on how many. On average less than one key is kept by
its noise alone, if the cut-off makes that rare (`calibrate` of the mechanisms does).
"""

from decimal import Context, Decimal, localcontext

from app.core.histogram import Counts
from app.core.noise.samplers import Below, Sampler, geometric, padded
from app.core.sketches.universe import Universe


def noisy_everywhere(
    counters: Counts, universe: Universe, scale: float, cutoff: int, sample: Sampler, below: Below, *, most_keys: int
) -> dict[str, int]:
    """Draw noise for all keys of the universe, and return the noisy values that are at least the positive cut-off.

    At most `most_keys` have a counter. So many values are drawn for them (`padded`), however many there are.
    """
    draws = sample(scale, padded(len(counters), most_keys))
    alone = _kept_by_noise_alone(universe, scale, cutoff, sample, below)
    noisy = {key: counters[key] + draw for key, draw in zip(sorted(counters), draws, strict=False)}
    stored = {key: value for key, value in noisy.items() if value >= cutoff}
    return stored | {key: value for key, value in alone.items() if key not in counters}


def _kept_by_noise_alone(
    universe: Universe, scale: float, cutoff: int, sample: Sampler, below: Below
) -> dict[str, int]:
    """Draw what is kept, with its value, as if no key had a counter. A key that is drawn again is not counted again."""
    number = binomial_of_tail(universe.size, scale, cutoff, below)
    kept: dict[str, int] = {}
    while len(kept) < number:
        key = universe.key(below(universe.size))
        if key not in kept:
            kept[key] = cutoff + geometric(scale, sample)
    return kept


_DIGITS = 60
_GUARD = 60  # digits beyond: trials·log(1 − q) loses 20 of them, the recursion a few


def binomial_of_tail(trials: int, scale: float, cutoff: int, below: Below) -> int:
    """Draw how many of `trials` Laplace draws are at least the cut-off: Binomial(trials, Pr[ζ ≥ cutoff]), exactly.

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
