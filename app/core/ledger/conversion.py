"""From ρ to (ε, δ) and back, as tightly as is known, rounded to the safe side and the same on every machine.

What is ρ-zCDP is (ε, δ)-private if for some α > 1 δ ≥ exp((α − 1)(αρ − ε))·(1 − 1/α)^α/(α − 1) (Canonne, Kamath &
Steinke 2020, Proposition 12 and Corollary 13). Solved for ε that is a line in ρ: ε ≥ α·ρ + c(α), with
c(α) = ln(1 − 1/α) + (ln(1/δ) − ln α)/(α − 1).

Every α gives a valid bound. We take the best of a fixed grid, by exact comparison of values that are rounded outward.
Floats only say where on the grid to look first. Why the best is found so, and both functions fit together:
accountants.md
"""

from bisect import bisect_left
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import log, log1p

from app.core.noise.tails import CONTEXT

# α − 1 is n/2^34 with n = (2^24 + part)·2^doubling: from 2^-10 to 2^40, neighbours at most 2^-24 of it apart.
_ONE = 1 << 34
_PARTS = 1 << 24
_GRID = range(50 * _PARTS)
_OUTWARD = Decimal("1e-60")  # far more than c(α) loses in 120 digits, which is less than 1e-110


@lru_cache(maxsize=4096)
def largest_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A ρ at which everything is (ε, δ)-private, 0 < δ < 1: the largest that an α of the grid gives."""
    inverse, nearly = -log(delta), float(epsilon)

    def is_above(at: int) -> bool:  # the best α − 1 = a: there (ln(1/δ) − ln α)(2a + 1)/a² − ln(1 + 1/a) falls to ε
        a = _numerator(at) / _ONE
        return (inverse - log1p(a)) * (2 * a + 1) / a**2 - log1p(1 / a) <= nearly

    def value(at: int) -> Fraction:
        return (epsilon - _intercept(at, delta)) / _alpha(at)

    return max(Fraction(0), _best(value, bisect_left(_GRID, True, key=is_above)))


@lru_cache(maxsize=4096)
def smallest_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """An ε at which everything ρ-zCDP is (ε, δ)-private, ρ > 0 and 0 < δ < 1: the smallest that an α of the grid gives.

    It is at most ε where ρ is at most `largest_rho(ε, δ)`, and nowhere else.
    """
    inverse, nearly = -log(delta), float(rho)

    def is_above(at: int) -> bool:  # the best α − 1 = a: there a²·ρ has grown to ln(1/δ) − ln α
        a = _numerator(at) / _ONE
        return a * a * nearly + log1p(a) >= inverse

    def value(at: int) -> Fraction:
        return -(_alpha(at) * rho + _intercept(at, delta))

    return max(Fraction(0), -_best(value, bisect_left(_GRID, True, key=is_above)))


def _best(value: Callable[[int], Fraction], start: int) -> Fraction:
    """The largest of values that rise along the grid and then fall; found soonest if it is near the start."""
    at = min(start, _GRID[-1])
    for step in (-1, 1):
        while at + step in _GRID and value(at + step) > value(at):
            at += step
    return value(at)


def _numerator(at: int) -> int:
    doubling, part = divmod(at, _PARTS)
    return (_PARTS + part) << doubling


def _alpha(at: int) -> Fraction:
    return Fraction(_ONE + _numerator(at), _ONE)


@lru_cache(maxsize=64)  # while the best is looked for, each is asked for several times
def _intercept(at: int, delta: Fraction) -> Fraction:
    """c(α), a hair too large."""
    numerator = _numerator(at)
    with localcontext(CONTEXT):
        log_alpha = (Decimal(_ONE + numerator) / _ONE).ln()
        log_share = (Decimal(numerator) / (_ONE + numerator)).ln()  # ln(1 − 1/α)
        return Fraction(log_share + (_log_inverse(delta) - log_alpha) * _ONE / numerator + _OUTWARD)


@lru_cache(maxsize=64)
def _log_inverse(delta: Fraction) -> Decimal:
    """ln(1/δ), to 120 digits."""
    with localcontext(CONTEXT):
        return -(Decimal(delta.numerator) / delta.denominator).ln()
