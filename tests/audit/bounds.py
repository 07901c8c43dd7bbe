"""Exact confidence bounds for a probability (Clopper–Pearson), from how often an event was seen.

Whatever the probability p is, `at_least` exceeds it with probability at most `risk`, and so does `at_most` fall short
of it. Nothing is assumed but independent trials.
"""

import math

_HALVINGS = 60
_NEGLIGIBLE = 1e-17


def at_least(seen: int, trials: int, risk: float) -> float:
    """The p below which seeing so many, or more, has a probability of at most `risk`."""
    low, high = 0.0, seen / trials
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(seen, trials, middle) <= risk else (low, middle)
    return low


def at_most(seen: int, trials: int, risk: float) -> float:
    return 1 - at_least(trials - seen, trials, risk)


def _tail(seen: int, trials: int, p: float) -> float:
    """Pr[Binomial(trials, p) ≥ seen] for p ≤ seen/trials, where each term is smaller than the one before."""
    if p == 0.0:
        return float(seen == 0)
    odds = p / (1 - p) if p < 1 else math.inf
    term = total = math.exp(_log_probability(seen, trials, p))
    for number in range(seen, trials):
        term *= (trials - number) / (number + 1) * odds
        total += term
        if term < _NEGLIGIBLE * total:
            break
    return total


def _log_probability(seen: int, trials: int, p: float) -> float:
    choices = math.lgamma(trials + 1) - math.lgamma(seen + 1) - math.lgamma(trials - seen + 1)
    missed = (trials - seen) * math.log1p(-p) if seen < trials else 0.0
    return choices + seen * math.log(p) + missed
