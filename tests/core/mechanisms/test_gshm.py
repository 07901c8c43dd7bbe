"""Gaussian noise on compact sketches: the discrete mechanism itself is private, and calibrated with little to spare.

Neighbours are all that `corol:merged-sensitivity` and `cor:merged-user-level` allow. The divergence of the discrete
output laws is computed from their definition alone; the inequality of `thm:sparse-gaussian`, which is for continuous
noise, is evaluated in 60 digits.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Context, Decimal, localcontext
from functools import cache
from itertools import product

import numpy as np
import pytest

from app.core.errors import NoMechanism
from app.core.histogram import Bar, ErrorBound
from app.core.ledger.budget import Cost
from app.core.mechanisms import gshm
from app.core.mechanisms.gshm import Gshm
from app.core.sketches.compact import CompactSketch
from tests.core.mechanisms.moves import Move, apart
from tests.core.mechanisms.recorded import Recorded, gaussian, no_noise
from tests.laws import normal
from tests.laws.divergence import law_divergences, output_law
from tests.laws.law import Array, Gaussian
from tests.questions import question

ROUNDING = 1e-13  # of the transforms that convolve probabilities, and of what is neglected
NEGLIGIBLE = 1e-18
SMALL_K = pytest.mark.parametrize("k", [1, 2, 3])


def every(k: int) -> Array:
    return np.arange(1.0, k + 1)


class Laws:
    """The privacy loss of a discrete mechanism, key by key.

    In steps of the lattice let a key have l on one side and r on the other, and d = l − r. The value v then has the
    probabilities p(v − l) and p(v − r), and the logarithm of their ratio is d·(v − r − d/2)/s². So the losses of
    reported values lie on one grid of width lattice/s² for all keys, and sums of them are found by convolution,
    exactly. What is cut is one more outcome with its own loss; of a key that is not stored nothing is reported.
    """

    def __init__(self, mechanism: Gshm, *, lowered: int = 0) -> None:
        assert mechanism.lattice % 2 == 0  # then d²/2 is a multiple of the lattice for each d that is
        self.lattice = mechanism.lattice
        self.threshold = (mechanism.threshold - lowered) * mechanism.lattice
        self.noise = Gaussian(mechanism.sigma * mechanism.lattice)
        self.width = mechanism.lattice / self.noise.scale**2
        self.reported = cache(self._reported)

    def _reported(self, left: int, right: int) -> tuple[int, Array]:
        """First loss in units of the grid, and the probabilities on the left of that loss and the following."""
        d = left - right
        reach = math.ceil(12 * self.noise.scale)  # beyond lies less than 1e-30
        first = max(self.threshold, left * self.lattice - reach)
        values = np.arange(first, max(first, left * self.lattice + reach) + 1, dtype=np.float64)
        mass = np.zeros((len(values) - 1) * abs(d) + 1)
        mass[:: abs(d)] = self.noise.probability(values - left * self.lattice)[:: 1 if d > 0 else -1]
        ends = [round(d * (v - right * self.lattice)) - d * d * self.lattice // 2 for v in (values[0], values[-1])]
        return min(ends), mass

    def _cut(self, count: int) -> float:
        if count == 0:
            return 1.0
        return float(self.noise.less_than(np.array([self.threshold - count * self.lattice]))[0])

    def divergence(self, epsilon: float, keys: Sequence[Move]) -> float:
        """From the left side to the right: the sum over the left side's outputs of (1 − e^(ε − loss))₊."""
        own = [left for left, right in keys if right == 0]
        common = [move for move in keys if 0 not in move]
        log_none_own = math.fsum(math.log(self._cut(left)) for left in own)
        log_none_other = math.fsum(math.log(self._cut(right)) for left, right in keys if left == 0)
        total = -math.expm1(log_none_own)  # some own key is reported: the right side never does that
        for cut in product([False, True], repeat=len(common)):
            weight, loss = math.exp(log_none_own), log_none_own - log_none_other
            for (left, right), is_cut in zip(common, cut, strict=True):
                if is_cut:
                    weight *= self._cut(left)
                    loss += math.log(self._cut(left)) - math.log(self._cut(right))
            if weight < NEGLIGIBLE:
                continue
            rest = [self.reported(*move) for move, is_cut in zip(common, cut, strict=True) if not is_cut]
            total += weight * self._excess(epsilon - loss, rest)
        return total

    def _excess(self, epsilon: float, parts: list[tuple[int, Array]]) -> float:
        first, mass = 0, certain()
        for start, part in parts:
            first, mass = first + start, convolved(mass, part)
        losses = (first + np.arange(len(mass))) * self.width
        above = losses > epsilon
        return float(np.sum(mass[above] * -np.expm1(epsilon - losses[above])))

    def worst(self, epsilon: float, pairs: Iterable[Sequence[Move]]) -> float:
        """In both directions: `pairs` has each pair the other way round too."""
        return max(self.divergence(epsilon, keys) for keys in pairs)


def certain() -> Array:
    return np.ones(1)


def convolved(left: Array, right: Array) -> Array:
    if len(left) == 1:
        return left * right
    size = len(left) + len(right) - 1
    length = 1 << (size - 1).bit_length()
    found: Array = np.fft.irfft(np.fft.rfft(left, length) * np.fft.rfft(right, length), length)[:size]
    return np.maximum(found, 0.0)


def heights(mechanism: Gshm) -> list[int]:
    """Smaller counts of a key that differs: not stored, small, near the threshold, and almost never cut."""
    near, tall = mechanism.threshold, mechanism.threshold + math.ceil(9 * mechanism.sigma)
    return [0, 1, near - 1, near, tall] if mechanism.k < 3 else [0, near, tall]


def exact_delta_needed(k: int, sigma: float, tau: float, epsilon: float, *, j: Iterable[int]) -> Decimal:
    """`thm:sparse-gaussian` with l = k as it stands, in 60 digits, its maxima taken over the given j."""
    with localcontext(Context(prec=80)):
        s, e = Decimal(sigma), Decimal(epsilon)
        log_below = normal.log_phi(Decimal(tau) / s)
        candidates = [1 - (k * log_below).exp()]
        for common in j:
            gamma = (k - common) * log_below
            candidates.append(1 - gamma.exp() + gamma.exp() * gaussian_delta(common, s, e - gamma))
            candidates.append(gaussian_delta(common, s, e + gamma))
        return max(candidates)


def gaussian_delta(j: int, sigma: Decimal, epsilon: Decimal) -> Decimal:
    root = Decimal(j).sqrt()
    shift = epsilon * sigma / root
    return normal.phi(root / (2 * sigma) - shift) - epsilon.exp() * normal.phi(-root / (2 * sigma) - shift)


def slack(mechanism: Gshm, epsilon: float) -> float:
    """What drawing on the lattice may cost (gshm.md)."""
    return (1 + math.exp(epsilon)) * mechanism.k / (8 * (mechanism.sigma * mechanism.lattice) ** 2)


COARSE = pytest.mark.parametrize(
    ("sigma", "threshold", "lattice", "epsilon"),
    [(2.0, 5, 8, 1.0), (1.5, 4, 16, 2.0), (6.0, 12, 4, 0.3), (1.0, 6, 32, 1.0)],
)


@SMALL_K
@COARSE
def test_the_discrete_mechanism_diverges_as_the_theorem_says_but_for_the_lattice(
    k: int, sigma: float, threshold: int, lattice: int, epsilon: float
) -> None:
    """On a coarse lattice, where the difference is seen: neither more than the theorem and the slack, nor much less."""
    mechanism = Gshm(k=k, sigma=sigma, threshold=threshold, lattice=lattice)
    worst = Laws(mechanism).worst(epsilon, apart(k, 1, heights(mechanism)))
    needed = gshm.delta_needed(k, sigma, threshold - 1 - 1 / (2 * lattice), epsilon, every(k))
    assert abs(worst - needed) <= slack(mechanism, epsilon)
    assert slack(mechanism, epsilon) < needed / 10


@pytest.mark.parametrize("k", [1, 2])
@COARSE
def test_without_the_half_step_the_theorem_would_promise_too_much(
    k: int, sigma: float, threshold: int, lattice: int, epsilon: float
) -> None:
    """Rounded noise reaches the threshold half a step earlier, which is seen where all k keys are own ones."""
    mechanism = Gshm(k=k, sigma=sigma, threshold=threshold, lattice=lattice)
    own = Laws(mechanism).divergence(epsilon, [(1, 0)] * k)
    half_step = normal_tail(k, (threshold - 1 - 1 / (2 * lattice)) / sigma)
    assert own == pytest.approx(half_step, rel=0.05)
    assert own > normal_tail(k, (threshold - 1) / sigma)


def normal_tail(k: int, z: float) -> float:
    """Pr[some of k normal draws is at least z]."""
    return float(1 - normal.phi(Decimal(z)) ** k)


@SMALL_K
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.01"), ("0.3", "1e-3"), ("2", "1e-3")])
def test_no_neighbours_diverge_by_more_than_delta(k: int, epsilon: str, delta: str) -> None:
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    mechanism = gshm.calibrate(k, cost)
    worst = Laws(mechanism).worst(float(epsilon), apart(k, 1, heights(mechanism)))
    assert worst + ROUNDING <= cost.delta
    assert worst > 0.99 * float(delta)  # little is given away


@pytest.mark.parametrize("k", [1, 2])
def test_a_small_delta_is_kept_on_its_fine_lattice(k: int) -> None:
    """σ is some 80,000 steps there."""
    cost = Cost.charged(epsilon="1", delta="1e-6")
    mechanism = gshm.calibrate(k, cost)
    tall = mechanism.threshold + math.ceil(9 * mechanism.sigma)
    pairs = [((1, 0),) * k, ((0, 1),) * k, ((tall + 1, tall),) * k, ((tall, tall + 1),) * k]
    if k == 2:
        pairs += [((1, 0), (tall + 1, tall)), ((0, 1), (tall, tall + 1))]
    assert 0.99e-6 < Laws(mechanism).worst(1.0, pairs) <= 1e-6 - ROUNDING


@SMALL_K
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.01"), ("0.3", "1e-3"), ("2", "1e-3")])
def test_noise_a_tenth_too_small_is_found_out(k: int, epsilon: str, delta: str) -> None:
    mechanism = gshm.calibrate(k, Cost.charged(epsilon=epsilon, delta=delta))
    shrunk = Laws(replace(mechanism, sigma=mechanism.sigma * 0.9))
    tall = mechanism.threshold + math.ceil(9 * mechanism.sigma)
    assert shrunk.divergence(float(epsilon), [(tall + 1, tall)] * k) > float(delta)


@SMALL_K
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.01"), ("0.3", "1e-3"), ("2", "1e-3")])
def test_a_threshold_one_lower_is_not_private(k: int, epsilon: str, delta: str) -> None:
    mechanism = gshm.calibrate(k, Cost.charged(epsilon=epsilon, delta=delta))
    assert Laws(mechanism, lowered=1).divergence(float(epsilon), [(1, 0)] * k) > float(delta)


@pytest.mark.parametrize(("k", "m"), [(1, 2), (1, 3), (2, 2)])
def test_m_events_cost_no_more_than_is_charged(k: int, m: int) -> None:
    """`lem:group-privacy`: where m steps add up in one counter, and where they bring in other keys."""
    cost = Cost.charged(epsilon="1", delta="0.01")
    mechanism = gshm.calibrate(k, cost, m)
    pairs = list(apart(k, m, [0, 1, mechanism.threshold + math.ceil(9 * mechanism.sigma)]))
    assert Laws(mechanism).worst(1.0, pairs) + ROUNDING <= cost.delta
    assert Laws(gshm.calibrate(k, cost)).worst(1.0, pairs) > cost.delta  # the noise for one event is not enough


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": 1, "b": 1}, {}),
        ({"a": 1, "b": 5}, {"b": 4}),
        ({"a": 6, "b": 5}, {"a": 5, "b": 4}),
        ({"a": 2, "b": 9}, {"a": 2, "b": 8}),
    ],
)
def test_the_release_itself_has_these_laws(left: dict[str, int], right: dict[str, int]) -> None:
    """`release` run on every pair of draws. With two steps a count it loses a little by rounding down to counts."""
    mechanism = Gshm(k=2, sigma=1.0, threshold=4, lattice=2)
    p, q = (
        output_law(lambda sample, _: mechanism.release(sketch, gaussian(sample)), Gaussian(2.0), draws=2, reach=20)  # noqa: B023
        for sketch in (CompactSketch(2, left), CompactSketch(2, right))
    )
    for law, counters in ((p, left), (q, right)):
        for key, count in counters.items():
            for value in range(4, 12):
                found = math.fsum(weight for output, weight in law.items() if dict(output).get(key) == value)
                draws = np.array([2 * value, 2 * value + 1.0]) - 2 * count
                assert found == pytest.approx(math.fsum(Gaussian(2.0).probability(draws)), abs=1e-12)
    keys = [(left[key], right.get(key, 0)) for key in left if left[key] != right.get(key, 0)]
    there, back = Laws(mechanism).divergence(1.0, keys), Laws(mechanism).divergence(1.0, [key[::-1] for key in keys])
    found_there, found_back = law_divergences(1.0, p, q)
    assert 0.8 * there - 1e-9 <= found_there <= there + 1e-9
    assert 0.8 * back - 1e-9 <= found_back <= back + 1e-9


COSTS = [(0.9, 1e-6), (0.1, 1e-9), (5.0, 1e-6), (1.0, 0.01), (0.01, 0.1), (30.0, 1e-3)]


@pytest.mark.parametrize("k", [1, 2, 7, 64])
@pytest.mark.parametrize(("epsilon", "delta"), COSTS)
def test_what_is_chosen_satisfies_the_inequality_at_every_j(k: int, epsilon: float, delta: float) -> None:
    sigma, tau = gshm.least_threshold(k, epsilon, delta)
    needed = exact_delta_needed(k, sigma, tau, epsilon, j=range(1, k + 1))
    assert 0.99 * delta < needed <= Decimal(delta)
    assert gshm.delta_needed(k, sigma, tau, epsilon, every(k)) == pytest.approx(float(needed), rel=1e-10)


@pytest.mark.parametrize("k", [1, 2, 6])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.5, 3.0, 8.0])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 4.0])
def test_the_inequality_is_evaluated_right_everywhere(k: int, sigma: float, ratio: float, epsilon: float) -> None:
    """One j at a time: of all together it is the first term or j = k that decides."""
    for j in range(1, k + 1):
        needed = float(exact_delta_needed(k, sigma, ratio * sigma, epsilon, j=[j]))
        found = gshm.delta_needed(k, sigma, ratio * sigma, epsilon, np.array([float(j)]))
        assert found == pytest.approx(needed, rel=1e-10), j


def test_a_thousand_counters_satisfy_the_inequality_too() -> None:
    sigma, tau = gshm.least_threshold(1024, 0.9, 1e-6)
    assert exact_delta_needed(1024, sigma, tau, 0.9, j=range(1, 1025)) <= Decimal("1e-6")
    assert exact_delta_needed(1024, sigma * 0.999, tau, 0.9, j=[1024]) > Decimal("1e-6")  # the test can fail
    assert exact_delta_needed(1024, sigma, tau * 0.999, 0.9, j=[1024]) > Decimal("1e-6")


def grid_of_sigmas(k: int, epsilon: float, delta: float) -> Iterator[float]:
    """From the least σ that any threshold allows up to three times as much, finer near the start."""
    too_small, enough = 0.0, math.sqrt(k) / epsilon
    while gshm.delta_needed(k, enough, 80 * enough, epsilon, every(k)) > delta:
        enough *= 2
    while enough - too_small > 1e-5 * enough:
        middle = (too_small + enough) / 2
        holds = gshm.delta_needed(k, middle, 80 * middle, epsilon, every(k)) <= delta
        too_small, enough = (too_small, middle) if holds else (middle, enough)
    yield from enough * np.concatenate([1 + np.geomspace(1e-5, 0.1, 12), np.linspace(1.15, 3, 8)])


def brute_force_tau(k: int, sigma: float, epsilon: float, delta: float) -> float:
    low, high = 0.0, 80 * sigma
    while high - low > 1e-4 * sigma:
        middle = (low + high) / 2
        enough = gshm.delta_needed(k, sigma, middle, epsilon, every(k)) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


@pytest.mark.parametrize("k", [1, 64])
@pytest.mark.parametrize(("epsilon", "delta"), COSTS)
def test_the_threshold_is_the_least_that_a_grid_of_sigmas_finds(k: int, epsilon: float, delta: float) -> None:
    _, tau = gshm.least_threshold(k, epsilon, delta)
    best = min(brute_force_tau(k, sigma, epsilon, delta) for sigma in grid_of_sigmas(k, epsilon, delta))
    assert tau <= 1.005 * best


def test_the_exact_analysis_saves_a_third_over_the_easy_one() -> None:
    """`lem:gaussian-sparse-easy-version` at k = 1024, ε = 0.9, δ = 1e-6."""
    sigma = math.sqrt(1024 * 2 * math.log(2.5 / 1e-6)) / 0.9
    tau = math.sqrt(2 * math.log(2 * 1024 / 1e-6)) * sigma
    assert (round(sigma), round(tau)) == (193, 1264)
    mechanism = gshm.calibrate(1024, Cost.charged(epsilon="0.9", delta="1e-6"))
    assert mechanism.threshold - 1 <= 905
    assert mechanism.sigma < 151


@pytest.mark.parametrize("epsilon", ["0.01", "1", "10"])
def test_the_most_counters_are_calibrated(epsilon: str) -> None:
    k = 65_536
    mechanism = gshm.calibrate(k, Cost.charged(epsilon=epsilon, delta="1e-6"))
    tau = mechanism.threshold - 1 - 1 / (2 * mechanism.lattice)
    assert gshm.delta_needed(k, mechanism.sigma, tau, float(epsilon), every(k)) <= 0.999e-6
    assert mechanism.threshold > 5 * mechanism.sigma


@pytest.mark.parametrize("epsilon", ["1e-9", "1", "20"])
@pytest.mark.parametrize(("k", "delta"), [(5, "1e-18"), (1, "0.4"), (1, "0.6"), (2, "0.9"), (5, "0.999")])
def test_every_cost_is_calibrated_in_bounded_time(
    k: int, epsilon: str, delta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A δ near 1 is foolish, and may be asked for; a search that never ends would answer nobody."""
    evaluate, evaluations = gshm.delta_needed, iter(range(3000))

    def counted(k: int, sigma: float, tau: float, epsilon: float, j: Array) -> float:
        assert next(evaluations, None) is not None, "the search does not end"
        return evaluate(k, sigma, tau, epsilon, j)

    monkeypatch.setattr(gshm, "delta_needed", counted)
    try:
        mechanism = gshm.calibrate.__wrapped__(k, Cost.charged(epsilon=epsilon, delta=delta))
    except NoMechanism:
        return
    assert evaluate(k, mechanism.sigma, mechanism.threshold - 1, float(epsilon), every(k)) <= float(delta)


@pytest.mark.parametrize("k", [1, 64, 65_536])
@pytest.mark.parametrize(("epsilon", "delta"), [("0.01", "1e-6"), ("1", "1e-9"), ("5", "0.01")])
def test_the_lattice_costs_at_most_a_thousandth_of_delta(k: int, epsilon: str, delta: str) -> None:
    mechanism = gshm.calibrate(k, Cost.charged(epsilon=epsilon, delta=delta))
    assert slack(mechanism, float(epsilon)) <= float(delta) / 1000
    assert mechanism.lattice & (mechanism.lattice - 1) == 0  # a power of two, so σ in steps is exact
    assert mechanism.sigma * mechanism.lattice < 2**51


def test_a_cost_that_cannot_be_met_is_refused() -> None:
    with pytest.raises(NoMechanism, match="gshm cuts at a threshold and needs a delta above 0, for example 1e-6"):
        gshm.MECHANISM.calibrated(question("compact", k=4, delta="0"))
    with pytest.raises(NoMechanism, match="delta"):
        gshm.calibrate(4, Cost.charged(epsilon="1", delta="0"))
    with pytest.raises(NoMechanism, match="epsilon"):
        gshm.calibrate(4, Cost.charged(epsilon="1000", delta="1e-6"))


@pytest.mark.parametrize("epsilon", ["650", "700", "720", "1000"])
def test_a_delta_that_group_privacy_makes_too_small_for_double_precision_is_refused(epsilon: str) -> None:
    with pytest.raises(NoMechanism, match="epsilon"):
        gshm.calibrate(1024, Cost.charged(epsilon=epsilon, delta="1e-18"), 1000)


def test_noise_that_would_saturate_is_refused_also_where_the_lattice_is_one() -> None:
    """σ itself, in counts, is above 2^50: no lattice makes it smaller. At m = 1000 it is 1.14·2^50."""
    with pytest.raises(NoMechanism, match="epsilon"):
        gshm.calibrate(65_536, Cost.charged(epsilon="1e-9", delta="1e-17"), 1000)


def test_the_largest_noise_that_is_offered_stays_far_from_64_bits() -> None:
    mechanism = gshm.calibrate(65_536, Cost.charged(epsilon="1e-9", delta="1e-15"), 1000)
    assert mechanism.lattice == 1
    assert 2**49 < mechanism.sigma <= 2**50


CALIBRATED = Gshm(k=4, sigma=2.0, threshold=10, lattice=8)


def test_without_noise_exactly_the_counts_from_the_threshold_on_are_reported() -> None:
    sketch = CompactSketch(4, {"below": 9, "at": 10, "above": 11})
    assert CALIBRATED.release(sketch, gaussian(no_noise)) == {"at": 10, "above": 11}


def test_noise_is_added_in_steps_and_counts_are_rounded_down() -> None:
    sketch = CompactSketch(4, {"d": 9, "c": 2**80, "b": 20, "a": 10})
    found = CALIBRATED.release(sketch, gaussian(Recorded(-1, 7, -1, 8)))
    assert list(found.items()) == [("b", 20), ("c", 2**80 - 1), ("d", 10)]  # a is one step too low


@pytest.mark.parametrize("stored", range(5))
def test_every_sketch_draws_k_values(stored: int) -> None:
    """So neither the time nor the entropy used tells how many keys are stored."""
    sample = Recorded()
    CALIBRATED.release(CompactSketch(4, {f"key {number}": 9 for number in range(stored)}), gaussian(sample))
    assert sample.asked == [(16.0, 4)]


def test_parameters_let_a_sceptic_recompute_the_guarantee() -> None:
    assert CALIBRATED.parameters() == {
        "noise": "discrete-gaussian",
        "sigma": "2",
        "lattice": 8,
        "threshold": 10,
        "k": 4,
        "max_contributions": 1,
    }


def test_a_bar_allows_for_rounding_down() -> None:
    bound = ErrorBound(noise_low=30, noise_high=10, sketch_low=5)
    assert CALIBRATED.bars({"a": 90, "b": 11}, bound) == [Bar("a", 90, 80, 106), Bar("b", 11, 1, 27)]


def test_the_proof_covers_these_families_of_sketch_and_no_others() -> None:
    assert gshm.MECHANISM.families == ("compact",)
