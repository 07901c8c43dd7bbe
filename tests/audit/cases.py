"""What is attacked: each mechanism on the neighbours that are worst for it, at an (ε, δ) at which that can be measured.

Two kinds of neighbours are bad. Counters so tall that they are always reported show the noise alone, and with it ε; a
small δ keeps out of the way there. Keys that one side alone stores show the threshold, and with it δ; there δ is large,
and just above what some threshold needs, so that the calibration has nothing to spare.
"""

from fractions import Fraction

from app.core.sketches.state import Sketch
from app.core.sketches.universe import of_values
from tests.audit import neighbours
from tests.audit.case import Case, planned, standard
from tests.streams import LETTERS

TALL = 200  # far above every threshold here: such a counter is always reported
NOISE_ALONE = "0.001"  # the δ for tall counters

_SLOW = 20_000  # releases over a universe compute with 120 digits


def pmg() -> list[Case]:
    """The six states of `lem:nb-cases`, and persons with two events."""
    state = neighbours.in_state
    return [
        planned("pmg", "S1, all counters lower", state("S1", 6, TALL), epsilon="1", delta=NOISE_ALONE),
        planned("pmg", "S2, others lower", state("S2", 3, TALL), epsilon="1", delta=NOISE_ALONE),
        planned("pmg", "S2, small", state("S2", 2, TALL), epsilon="1", delta="0.102"),
        planned("pmg", "S3, one counter higher", state("S3", 6, TALL), epsilon="1", delta=NOISE_ALONE),
        planned("pmg", "S4, a key of its own", state("S4", 2, TALL), epsilon="1", delta="0.102"),
        planned("pmg", "S5, one higher, keys swapped", state("S5", 4, TALL), epsilon="1", delta=NOISE_ALONE),
        planned("pmg", "S6, two keys of its own", state("S6", 2, 0), epsilon="1", delta="0.102", draws=200_000),
        planned("pmg", "S6, less ε", state("S6", 2, 0), epsilon="0.5", delta="0.104"),
        planned("pmg", "S6, beside a tall counter", state("S6", 3, TALL), epsilon="1", delta="0.046"),
        planned(
            "pmg",
            "m = 2, one key twice, tall",
            neighbours.one_counter_higher(6, TALL, by=2),
            epsilon="1",
            delta=NOISE_ALONE,
            max_contributions=2,
        ),
        planned(
            "pmg",
            "m = 2, one key twice, small",
            neighbours.beside_nothing(2, [(LETTERS[0], 2)]),
            epsilon="1",
            delta="0.102",
            max_contributions=2,
        ),
        planned(
            "pmg",
            "m = 2, S6 and one key twice",
            neighbours.twice_in_s6(2),
            epsilon="1",
            delta="0.104",
            max_contributions=2,
        ),
        planned(
            "pmg",
            "m = 2, two keys, small",
            neighbours.beside_nothing(2, [(LETTERS[0], 1), (LETTERS[1], 1)]),
            epsilon="1",
            delta="0.102",
            max_contributions=2,
        ),
        standard("k keys of its own", neighbours.standard_pair(2), epsilon="1", delta="0.138"),
        standard("k keys of its own", neighbours.standard_pair(4), epsilon="1", delta="0.103"),
    ]


def pmg_gaussian() -> list[Case]:
    """The same states. ρ is claimed at ε = 1; where the threshold is attacked, ρ is small, so that δ is all of it."""
    state, name = neighbours.in_state, "pmg-gaussian"
    return [
        planned(name, "S1, all counters lower", state("S1", 6, TALL), rho="0.5", epsilon="1", delta=NOISE_ALONE),
        planned(name, "S2, others lower", state("S2", 3, TALL), rho="0.5", epsilon="1", delta=NOISE_ALONE),
        planned(name, "S3, one counter higher", state("S3", 6, TALL), rho="0.5", epsilon="1", delta=NOISE_ALONE),
        planned(name, "S5, one higher, keys swapped", state("S5", 4, TALL), rho="0.5", epsilon="1", delta=NOISE_ALONE),
        planned(
            name,
            "m = 4, one key four times, tall",
            neighbours.one_counter_higher(6, TALL, by=4),
            rho="0.5",
            epsilon="1",
            delta=NOISE_ALONE,
            max_contributions=4,
        ),
        planned(name, "S4, a key of its own", state("S4", 2, TALL), rho="0.02", epsilon="1", delta="0.0922"),
        planned(name, "S6, two keys of its own", state("S6", 2, 0), rho="0.02", epsilon="1", delta="0.0922"),
        planned(
            name,
            "m = 2, S6 and one key twice",
            neighbours.twice_in_s6(2),
            rho="0.02",
            epsilon="1",
            delta="0.0979",
            max_contributions=2,
        ),
    ]


def reduced() -> list[Case]:
    """One counter higher, the others lower by what its share of the sum took from them; or all lower."""
    one, two = neighbours.one_counter_higher(1, TALL - 1), neighbours.one_counter_higher(2, TALL)
    lower, single = neighbours.in_state("S1", 2, TALL), neighbours.beside_nothing(1, [(LETTERS[0], 1)])
    approx, pure = "reduced-approx", "reduced-pure"
    universe = of_values(LETTERS[:3])
    return [
        planned(approx, "one counter higher", one, epsilon="1", delta=NOISE_ALONE),
        planned(approx, "one counter higher", two, epsilon="1", delta=NOISE_ALONE),
        planned(approx, "all counters lower", lower, epsilon="1", delta=NOISE_ALONE),
        planned(approx, "one key, small", single, epsilon="1", delta="0.1392"),
        planned(approx, "one key, small", neighbours.beside_nothing(2, [(LETTERS[0], 1)]), epsilon="1", delta="0.1801"),
        planned(approx, "summed, one higher", neighbours.summed_at_whole_counts(TALL), epsilon="1", delta=NOISE_ALONE),
        planned(approx, "summed, one higher", neighbours.summed(2, two, TALL), epsilon="1", delta=NOISE_ALONE),
        planned(approx, "summed, one key, small", neighbours.summed(1, single, TALL), epsilon="1", delta="0.1145"),
        planned(pure, "one counter higher", one, epsilon="1", delta="0", universe=universe, draws=_SLOW),
        planned(pure, "one counter higher", two, epsilon="1", delta="0", universe=universe, draws=_SLOW),
        planned(pure, "one key, small", single, epsilon="1", delta="0", universe=universe, draws=_SLOW),
        summed_pure(_SLOW),
        *reduced_gaussian(),
    ]


def summed_pure(draws: int) -> Case:
    """All of the noise is seen."""
    universe = of_values([LETTERS[0], "other", "third"])
    pair = neighbours.summed_at_whole_counts(TALL)
    return planned("reduced-pure", "summed, one higher", pair, epsilon="1", delta="0", universe=universe, draws=draws)


def reduced_gaussian() -> list[Case]:
    """At ρ = ½ and ρ = 0.05: they leave a δ of their own at every ε."""
    one, two = neighbours.one_counter_higher(1, TALL - 1), neighbours.one_counter_higher(2, TALL)
    lower, single = neighbours.in_state("S1", 2, TALL), neighbours.beside_nothing(1, [(LETTERS[0], 1)])

    def priced(name: str, pair: tuple[Sketch, Sketch], *, rho: str = "0.5", delta: str = NOISE_ALONE) -> Case:
        return planned("reduced-gaussian", name, pair, epsilon="1", delta=delta, rho=rho)

    return [
        priced("one counter higher", one),
        priced("one counter higher", two),
        priced("all counters lower", lower),
        priced("summed, one higher", neighbours.summed_at_whole_counts(TALL)),
        priced("one key, small", single, rho="0.05", delta="0.101"),
        priced("summed, one key, small", neighbours.summed(1, single, TALL), rho="0.05", delta="0.0589"),
    ]


def compact() -> list[Case]:
    """Up to k counters differ by one, in one direction."""
    merged, users, cut, one_by_one = neighbours.merged, neighbours.users, neighbours.cut_by_count, neighbours.one_by_one
    gshm, laplace, twice = "gshm", "laplace-compact", neighbours.lowered_twice(2, TALL)
    universe = of_values(LETTERS[:2])
    return [
        planned(gshm, "merged, all counters lower", merged(2, TALL, 2), epsilon="1", delta="0.14"),
        planned(gshm, "merged, half of them lower", merged(4, TALL, 2), epsilon="1", delta="0.174"),
        planned(gshm, "merged, all keys its own", merged(2, 1, 2), epsilon="1", delta="0.045"),
        planned(gshm, "a user, tall", users(3, TALL), epsilon="1", delta="0.1"),
        planned(gshm, "a user, requests cut by count", cut(one_by_one, TALL), epsilon="1", delta="0.127"),
        planned(gshm, "a user beside nobody", users(4, 0), epsilon="1", delta="0.048"),
        planned(gshm, "priced in ρ, a user, tall", users(3, TALL), epsilon="1", rho="0.5", delta=NOISE_ALONE),
        planned(gshm, "m = 2, two events lower all", twice, epsilon="1", delta="0.14", max_contributions=2),
        planned(laplace, "merged, all counters lower", merged(2, TALL, 2), epsilon="1", delta=NOISE_ALONE),
        planned(laplace, "merged, all keys its own", merged(3, 1, 3), epsilon="1", delta="0.0640"),
        planned(laplace, "a user, tall", users(2, TALL), epsilon="1", delta=NOISE_ALONE),
        planned(laplace, "a user, requests cut by count", cut(one_by_one, TALL), epsilon="1", delta=NOISE_ALONE),
        planned(laplace, "a user beside nobody", users(2, 0), epsilon="1", delta="0.0572"),
        planned(laplace, "m = 2, two events lower all", twice, epsilon="1", delta=NOISE_ALONE, max_contributions=2),
        planned(laplace, "pure, a user, tall", users(2, TALL), epsilon="1", delta="0", universe=universe, draws=_SLOW),
        planned(
            laplace, "pure, a user beside nobody", users(2, 0), epsilon="1", delta="0", universe=universe, draws=_SLOW
        ),
    ]


def totals() -> list[Case]:
    """The number of events beside the histogram: both move, and together they must not pass the cost."""
    half, state, merged = Fraction(1, 2), neighbours.in_state, neighbours.merged
    one_higher = state("S3", 2, TALL)
    return [
        planned("pmg", "S3, with a total", one_higher, epsilon="1", delta=NOISE_ALONE, total_share=half),
        planned("pmg", "S1, with a total", state("S1", 2, TALL), epsilon="1", delta=NOISE_ALONE, total_share=half),
        planned("gshm", "merged, with a total", merged(2, TALL, 2), epsilon="1", delta="0.14", total_share=half),
        planned(
            "pmg-gaussian", "S3, with a total", one_higher, epsilon="1", rho="0.5", delta=NOISE_ALONE, total_share=half
        ),
    ]


def every_case() -> list[Case]:
    return [*pmg(), *pmg_gaussian(), *reduced(), *compact(), *totals()]
