"""Noise on every key of a universe, drawn without visiting them, has the law of one draw for each key.

Draws with the right law come from a seeded generator where very many are needed, and from the operating system where a
test says so. `law.FALSE_ALARM` is the probability that a correct sampler fails one check.
"""

import math
import random
import secrets
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from app.core.noise.everywhere import binomial_of_tail, noisy_everywhere
from app.core.noise.samplers import SYSTEM_NOISE, Below, Noise
from app.core.noise.samplers import geometric as geometric_draw
from app.core.sketches.universe import Range, of_range, of_values
from tests.laws.law import Gaussian, Laplace, Seeded, agrees

COUNTERS = {"b": 3, "d": 1}
UNIVERSE = of_values("abcde")
SCALE, CUTOFF = 2.0, 2
TOP = 9  # larger values count as one

Outcome = tuple[int | None, ...]  # for each key of the universe its value, None where it is cut


def seeded(seed: int) -> Noise:
    return Noise(Seeded(Laplace, seed), Seeded(Gaussian, seed), random.Random(seed).randrange)


def outcomes(noise: Noise, number: int) -> list[Outcome]:
    """What the fast way keeps, again and again."""
    found = []
    for _ in range(number):
        kept = noisy_everywhere(COUNTERS, UNIVERSE, SCALE, CUTOFF, noise.laplace, noise.below, most_keys=3)
        found.append(tuple(min(kept[key], TOP) if key in kept else None for key in UNIVERSE.keys))
    return found


def key_law(scale: float, count: int) -> dict[int | None, float]:
    """One key, drawn directly."""
    law = Laplace(scale)
    reported: dict[int | None, float] = {
        value: float(law.probability(np.array([value - count]))[0]) for value in range(CUTOFF, TOP)
    }
    reported[None] = float(law.less_than(np.array([CUTOFF - count]))[0])
    reported[TOP] = float(law.at_least(np.array([TOP - count]))[0])
    return reported


def expected(scale: float, number: int, of: Callable[[Outcome], object]) -> dict[object, float]:
    """How often some function of the outcome takes each of its values, when every key is drawn directly."""
    laws = [key_law(scale, COUNTERS.get(key, 0)) for key in UNIVERSE.keys]
    found: dict[object, float] = {}
    for outcome in product(*laws):
        weight = math.prod(law[value] for law, value in zip(laws, outcome, strict=True))
        found[of(outcome)] = found.get(of(outcome), 0.0) + number * weight
    return found


def how_many(outcome: Outcome) -> object:
    return sum(value is not None for value in outcome)


def which_keys(outcome: Outcome) -> object:
    return tuple(value is not None for value in outcome)


def values_of_unstored_keys(outcome: Outcome) -> object:
    return outcome[0], outcome[2], outcome[4]


def values_of_one_of_each_kind(outcome: Outcome) -> object:
    return outcome[1], outcome[2]


VIEWS = [how_many, which_keys, values_of_unstored_keys, values_of_one_of_each_kind]


def test_it_agrees_with_drawing_every_key() -> None:
    """How many are kept, which, and with what values; another scale is told apart by each of these."""
    number = 20_000
    drawn = outcomes(seeded(1), number)
    for view in VIEWS:
        seen = Counter(map(view, drawn))
        assert agrees(seen, expected(SCALE, number, view)), view
        assert not agrees(seen, expected(SCALE * 1.3, number, view)), view  # the test can fail
        assert not agrees(seen, expected(SCALE / 1.3, number, view)), view


def test_it_agrees_with_real_noise_too() -> None:
    number = 2000
    seen = Counter(which_keys(outcome) for outcome in outcomes(SYSTEM_NOISE, number))
    assert agrees(seen, expected(SCALE, number, which_keys))
    assert not agrees(seen, expected(SCALE * 1.7, number, which_keys))  # fewer draws tell less apart


def binomial(trials: int, q: float, number: int) -> dict[int, float]:
    """Means of the cells; large numbers of trials by the recursion, which does not overflow."""
    mass = math.exp(trials * math.log1p(-q))
    found = {}
    for successes in range(min(trials, 60) + 1):
        found[successes] = number * mass
        mass *= q / (1 - q) * (trials - successes) / (successes + 1)
    return found


def tail(scale: float, cutoff: int) -> float:
    return float(Laplace(scale).at_least(np.array([cutoff]))[0])


@pytest.mark.parametrize(
    ("trials", "scale", "cutoff"), [(10, 2.0, 2), (1, 1.0, 1), (500, 3.0, 15), (2**63 - 1, 2.0, 86)]
)
def test_the_number_that_pass_is_binomial(trials: int, scale: float, cutoff: int) -> None:
    number = 5000
    below = random.Random(2).randrange
    seen = Counter(binomial_of_tail(trials, scale, cutoff, below) for _ in range(number))
    assert agrees(seen, binomial(trials, tail(scale, cutoff), number))
    assert not agrees(seen, binomial(trials, 1.3 * tail(scale, cutoff), number))  # the test can fail


def test_the_operating_systems_numbers_do_as_well() -> None:
    seen = Counter(binomial_of_tail(30, 2.0, 4, secrets.randbelow) for _ in range(3000))
    assert agrees(seen, binomial(30, tail(2.0, 4), 3000))
    assert not agrees(seen, binomial(30, 1.3 * tail(2.0, 4), 3000))


class Digits:
    """Gives the numbers it was told to, and counts how often it was asked."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)
        self.asked = 0

    def __call__(self, limit: int) -> int:
        assert limit == 10**60
        self.asked += 1
        return self.numbers.pop(0)


def exact_steps(trials: int, q: Fraction) -> list[Fraction]:
    """The distribution function of Binomial(trials, q)."""
    masses = [math.comb(trials, n) * q**n * (1 - q) ** (trials - n) for n in range(trials + 1)]
    return [sum(masses[: n + 1], start=Fraction(0)) for n in range(trials + 1)]


def rational_tail(scale: float, cutoff: int) -> Fraction:
    """Pr[ζ ≥ cutoff] to 100 digits and more, from the series of e^x in fractions."""
    x = -1 / Fraction(scale)
    term, p = Fraction(1), Fraction(1)
    for n in range(1, 90):
        term *= x / n
        p += term
    p = Fraction(round(p * 10**130), 10**130)
    return p**cutoff / (1 + p)


@pytest.mark.parametrize(("trials", "scale", "cutoff"), [(1, 1.0, 1), (7, 2.0, 1), (12, 4.0, 3)])
def test_each_uniform_number_gives_its_quantile(trials: int, scale: float, cutoff: int) -> None:
    """Without chance: one number in each of a thousand equal parts of [0, 1)."""
    steps = exact_steps(trials, rational_tail(scale, cutoff))
    for part in range(1000):
        uniform = Fraction(2 * part + 1, 2000)
        quantile = next(n for n, step in enumerate(steps) if uniform < step)
        assert binomial_of_tail(trials, scale, cutoff, Digits(int(uniform * 10**60))) == quantile


@pytest.mark.parametrize(
    ("trials", "scale", "cutoff", "step"), [(1, 1.0, 1, 0), (7, 2.0, 1, 0), (7, 2.0, 1, 3), (12, 4.0, 3, 1)]
)
def test_digits_that_do_not_decide_are_followed_by_more(trials: int, scale: float, cutoff: int, step: int) -> None:
    """The number agrees with a step of the distribution function in all 60 digits; the next 60 tell the side."""
    boundary = exact_steps(trials, rational_tail(scale, cutoff))[step]
    first = int(boundary * 10**60)
    second = int((boundary * 10**60 - first) * 10**60)
    for following, decided in ((second - 10**45, step), (second + 10**45, step + 1)):
        digits = Digits(first, following)
        assert binomial_of_tail(trials, scale, cutoff, digits) == decided
        assert digits.asked == 2
    clear = Digits(first + 1)
    assert (binomial_of_tail(trials, scale, cutoff, clear), clear.asked) == (step + 1, 1)


def test_the_largest_number_asks_for_more_digits_and_ends() -> None:
    digits = Digits(10**60 - 1, 10**60 - 1, 5)
    assert binomial_of_tail(3, 1.0, 1, digits) == 3
    assert digits.asked == 3


def test_no_keys_left_over_is_no_special_case() -> None:
    assert binomial_of_tail(0, 1.0, 1, Digits(5 * 10**59)) == 0
    kept = noisy_everywhere({"a": 5}, of_values("a"), 1.0, 2, lambda scale, size: [0] * size, Digits(0), most_keys=1)
    assert kept == {"a": 5}


def test_the_largest_universe_has_its_noise_only_keys_drawn_evenly() -> None:
    """2^63 − 1 keys, of which about one passes: their number, and the half of the universe they come from."""
    universe = of_range(0, 2**63 - 2)
    noise, runs = seeded(3), 6000
    kept = [
        noisy_everywhere({"7": 1000}, universe, 2.0, 86, noise.laplace, noise.below, most_keys=1) for _ in range(runs)
    ]
    assert all(found.pop("7") > 900 for found in kept)
    assert agrees(Counter(map(len, kept)), binomial(universe.size - 1, tail(2.0, 86), runs))
    passing = [int(key) for found in kept for key in found]
    eighths = Counter(key // (universe.size // 8 + 1) for key in passing)
    assert agrees(eighths, dict.fromkeys(range(8), len(passing) / 8))
    assert not agrees(eighths, {eighth: len(passing) * (0.2 if eighth == 0 else 0.8 / 7) for eighth in range(8)})


def test_the_excess_over_the_cutoff_is_geometric() -> None:
    noise, number = seeded(4), 10_000
    excess = Counter(geometric_draw(SCALE, noise.laplace) for _ in range(number))
    assert agrees(excess, geometric(SCALE, number))
    assert not agrees(excess, geometric(SCALE * 1.3, number))  # the test can fail


def geometric(scale: float, number: int) -> dict[int, float]:
    p = math.exp(-1 / scale)
    return {i: number * (1 - p) * p**i for i in range(60)}


def test_stored_keys_are_never_drawn_a_second_time() -> None:
    """All keys pass by noise alone. One that is named again does not count again, and stored ones keep their own."""
    below: Below = Indices(10**60 - 10**40, [1, 0, 0, 3, 2, 2, 4])
    universe = of_values("abcde")
    kept = noisy_everywhere(COUNTERS, universe, SCALE, CUTOFF, lambda scale, size: [3] * size, below, most_keys=2)
    assert kept == {"a": 4, "b": 6, "c": 4, "d": 4, "e": 4}


class Indices:
    """One uniform number to 60 digits, then indices into the universe."""

    def __init__(self, number: int, indices: list[int]) -> None:
        self.answers = [number, *indices]

    def __call__(self, limit: int) -> int:
        answer = self.answers.pop(0)
        assert answer < limit
        return answer


def test_a_range_names_its_keys_in_order() -> None:
    universe = Range(-2, 3)
    assert [universe.key(index) for index in range(universe.size)] == ["-2", "-1", "0", "1", "2", "3"]
    assert all(universe.key(index) in universe for index in range(universe.size))
    assert not any(key in universe for key in ("-3", "4", "-0", "01", "+1", "1.0", " 1", "", "-", "٣", "1" * 30))
