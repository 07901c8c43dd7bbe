"""Tail probabilities of sums and maxima of discrete Laplace noise.

ζ is discrete Laplace of scale s: Pr[ζ = j] = (1−p)/(1+p)·p^|j| with p = e^(−1/s). Then
Pr[ζ > j] = p^(j+1)/(1+p) for j ≥ −1 and Pr[ζ ≤ j] = p^(−j)/(1+p) for j ≤ 0.

Two kinds of function, kept apart by their types. Those that decide a threshold return `Decimal`: closed forms
in `CONTEXT`, widened by `OUTWARD`, so the probability is never understated. Their callers multiply them with
`product_above`: a plain `*` would round to 28 digits, half of the time downwards. Those that only describe an
error bound return `float`, summed on a grid whose steps are rounded to the pessimistic side.
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np

# The context of everything that decides a threshold. It rounds a product or quotient of positive numbers up. A formula
# with differences or powers loses digits all the same, so its result is multiplied by `OUTWARD`, which is more than it
# loses: the sums below lose at most 3·log10(s) of the 120 digits to cancellation, and there s = m/ε ≤ 1e12.
CONTEXT = Context(prec=120, rounding=ROUND_CEILING)
OUTWARD = CONTEXT.add(Decimal(1), Decimal("1e-60"))


def product_above(*factors: Decimal | int) -> Decimal:
    """The product of positive factors, rounded up: never below the exact product."""
    with localcontext(CONTEXT):
        return math.prod(map(Decimal, factors), start=Decimal(1))


def float_below(exact: Fraction) -> float:
    """The largest float that is not above a positive number."""
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def draw_tail(scale: float, j: int) -> Decimal:
    """Pr[ζ ≥ j] for j ≥ 0."""
    with localcontext(CONTEXT):
        p = (-1 / Decimal(scale)).exp()
        return p**j / (1 + p) * OUTWARD


def some_draw_tail(scale: float, draws: int, j: int) -> Decimal:
    """Pr[some of `draws` draws is at least j], j ≥ 0."""
    one = draw_tail(scale, j)
    with localcontext(CONTEXT) as context:
        context.rounding = ROUND_FLOOR  # of Pr[none]: so it is not understated where 1 − Pr[one] has no digits left
        none = (1 - one) ** draws
    with localcontext(CONTEXT):
        return (1 - none) * OUTWARD


def one_key_tail(scale: float, threshold: int) -> Decimal:
    """Pr[η + 1 + ζ ≥ t]: a key of count 1 under a shared and an own draw reaches the threshold t ≥ 1."""
    with localcontext(CONTEXT):
        p = (-1 / Decimal(scale)).exp()
        a = 1 / (1 + p)
        u = threshold - 1
        shared_below_zero = p**u * p**2 / (1 - p**2)
        shared_up_to_u = (u + 1) * p**u
        # Pr[ζ ≥ u − j] = 1 − a·p^(j−u+1) for j > u
        shared_above_u = p**u * p / (1 - p) / a - p**u * p**3 / (1 - p**2)
        density = (1 - p) / (1 + p)
        return density * a * (shared_below_zero + shared_up_to_u + shared_above_u) * OUTWARD


def two_key_tail(scale: float, threshold: int) -> Decimal:
    """Pr[η + max(1 + ζ₁, ζ₂) ≥ t]: keys of counts 1 and 0 under one shared draw, t ≥ 1 (state S6 of `lem:nb-cases`).

    With M = max(1 + ζ₁, ζ₂): Pr[M > m] = p^m − a²·p^(2m+1) for m ≥ 0 and 1 − a²·p^(1−2m) for m ≤ 0, a = 1/(1+p).
    Summed over the values of η below zero, from zero to u = t − 1, and above u.
    """
    with localcontext(CONTEXT):
        p = (-1 / Decimal(scale)).exp()
        a_squared = 1 / (1 + p) ** 2
        u = threshold - 1
        first_power = p**u * (p**2 / (1 - p**2) + u + 1 + p / (1 - p))
        both_below_zero = p ** (2 * u + 4) / (1 - p**3)
        both_up_to_u = p ** (u + 1) * (1 - p ** (u + 1)) / (1 - p)
        both_above_u = p ** (u + 4) / (1 - p**3)
        density = (1 - p) / (1 + p)
        return density * (first_power - a_squared * (both_below_zero + both_up_to_u + both_above_u)) * OUTWARD


def smallest(holds: Callable[[int], bool], start: int, guess: int | None = None) -> int:
    """The smallest integer from `start` on for which a condition holds that, once true, stays true.

    A `guess` that is not far above it halves the steps.
    """
    if holds(start):
        return start
    below, above = start, max(start + 1, guess or 0)
    while not holds(above):
        below, above = above, above + 2 * (above - below)
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if holds(middle) else (middle, above)
    return above


def lowest_threshold(tail: Callable[[int], Decimal], delta: Fraction, start: int) -> int:
    """The smallest t from `start` on at which a falling tail probability is at most δ, which must be above 0."""
    if delta <= 0:
        raise ValueError("no threshold is high enough for a delta of 0")
    return smallest(lambda threshold: tail(threshold) <= delta, start=start)


def draw_bound(scale: float, draws: int, beta: float) -> int:
    """The smallest b, but for rounding up, that the union bound gives: Pr[some of `draws` draws exceeds b] ≤ β."""
    times_one_draw = draws / (beta * (1 + math.exp(-1 / scale)))  # Pr[ζ > b] = p^(b+1)/(1+p)
    return max(0, math.ceil(scale * (math.log(times_one_draw) + 1e-12)) - 1)  # 1e-12: more than the floats lose


def many_key_tail(scale: float, keys: int, threshold: int) -> float:
    """At least Pr[η + 1 + max of `keys` draws ζ ≥ t]: so many keys of count 1 under one shared draw.

    A sum of positive terms in double precision, each right to some 1e-14, widened by 1e-9.
    """
    return some_exceeds(scale, keys, threshold - 2) * (1 + 1e-9)


@lru_cache(maxsize=256)
def noise_bound(scale: float, keys: int, beta: float) -> int:
    """The smallest b for which Pr[η + ζ_i > b for some of `keys` draws ζ_i] is shown to be at most β.

    The law is symmetric, so it bounds the noise below as well.
    """
    by_union = draw_bound(scale, 1, beta / 2) + draw_bound(scale, keys, beta / 2)
    return smallest(lambda b: some_exceeds(scale, keys, b) <= beta, start=0, guess=by_union)


_CELLS = 1 << 16
_REACH = 60  # scales: Pr[|η| > reach] < 1e-25


def some_exceeds(scale: float, keys: int, bound: int) -> float:
    """At least Pr[η + ζ_i > bound for some of `keys` draws], summed over η in at most `_CELLS` cells.

    In each cell η is taken at its upper end, where the probability is largest; with one value a cell it is exact.
    """
    ends, mass, outside = _cells(scale)
    tail = np.minimum(survival(scale, bound - (ends - 1)), 1.0)
    with np.errstate(divide="ignore"):
        exceeds = -np.expm1(keys * np.log1p(-tail))
    return float(np.sum(mass * exceeds)) + outside


@lru_cache(maxsize=4)  # a search asks for many bounds of one scale
def _cells(scale: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Where the cells of η end, the probability of each, and of what lies outside."""
    reach = math.ceil(scale * _REACH)
    width = (2 * reach) // _CELLS + 1
    starts = np.arange(-reach, reach + 1, width, dtype=np.float64)
    ends = starts + width
    mass = survival(scale, starts - 1) - survival(scale, ends - 1)
    return ends, mass, 2 * math.exp(-reach / scale)


def survival(scale: float, j: np.ndarray) -> np.ndarray:
    """Pr[ζ > j] for whole j."""
    p = math.exp(-1 / scale)
    with np.errstate(over="ignore"):
        upper = np.exp(-(j + 1) / scale) / (1 + p)
        lower = 1 - np.exp(j / scale) / (1 + p)
    return np.where(j >= 0, upper, lower)
