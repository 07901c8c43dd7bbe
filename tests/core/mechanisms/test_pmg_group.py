"""Up to m events of a person: what pmg.md says about the chain between two streams, and the exact divergence."""

import math
from collections import defaultdict
from fractions import Fraction

import pytest

from app.core.ledger.budget import Cost
from app.core.mechanisms import pmg
from app.core.noise.own_keys import laplace_cells, raised_and_keys
from app.core.noise.tails import two_key_tail
from tests.core.mechanisms.chains import random_chains
from tests.core.mechanisms.exact_laws import LOST, ROUNDING, Divergence, Laws
from tests.core.mechanisms.stream_pairs import pairs_apart
from tests.core.mechanisms.test_pmg_divergence import height

pytestmark = pytest.mark.long

COST = Cost.charged(epsilon="1", delta="1e-6")


def test_chains_of_real_streams_are_as_the_proof_says() -> None:
    """The four statements of pmg.md; each bound is met with equality somewhere."""
    seen: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for chain in random_chains(15_000, most_k=5, most_events=4, seed=1):
        u, v, k = chain.raising, chain.lowering, len(chain.longer)
        assert 0 <= v <= chain.events
        assert sum(abs(move) for move in chain.moves) + sum(chain.own) <= u  # 1 and 2
        assert all(0 <= count <= v for count in chain.others)  # 3
        assert len(chain.own) == len(chain.others) <= min(k, 2 * u + (v > 0))  # 4
        seen["moved"].add((sum(map(abs, chain.moves)), u))
        seen["own"].add((sum(chain.own), u))
        seen["others"].add((max(chain.others, default=0), v))
        seen["keys"].add((len(chain.own), 2 * u + (v > 0)))
    assert {(3, 3), (2, 2)} <= seen["moved"]
    assert {(3, 3), (2, 2)} <= seen["own"]
    assert {(2, 2), (1, 1)} <= seen["others"]
    assert {(1, 1), (2, 2), (3, 3)} <= seen["keys"]


@pytest.mark.parametrize(("k", "m", "events"), [(1, 2, 6), (1, 3, 6), (2, 2, 5), (2, 3, 4), (3, 2, 4), (3, 3, 3)])
@pytest.mark.parametrize(("epsilon", "delta"), [("2", "1e-4"), ("3", "0.01")])
def test_streams_m_events_apart_diverge_by_at_most_delta(k: int, m: int, events: int, epsilon: str, delta: str) -> None:
    """Counts and D together. The events may be equal or not, and lie anywhere."""
    cost = Cost.charged(epsilon=epsilon, delta=delta)
    calibrated = pmg.calibrate(k, cost, m)
    pairs = pairs_apart(k, height(calibrated), events, m)
    assert {pair.gap for pair in pairs} >= {0, 1, 2}

    def measured_at(scale: float) -> list[Divergence]:
        laws = Laws(scale, calibrated.threshold, height(calibrated) + events)
        return laws.divergences(float(cost.epsilon), pairs)

    found = measured_at(calibrated.scale)
    assert max(divergence.total for divergence in found) + LOST + ROUNDING <= cost.delta
    assert max(divergence.common for divergence in found) <= ROUNDING
    # The test can fail: at a tenth less noise, and all the more at the noise for one event.
    assert max(divergence.common for divergence in measured_at(0.9 * calibrated.scale)) > 1e5 * ROUNDING
    assert max(divergence.total for divergence in measured_at(pmg.calibrate(k, cost).scale)) > cost.delta


@pytest.mark.parametrize(("k", "m"), [(2, 2), (3, 2), (3, 3)])
def test_the_threshold_for_one_event_would_not_do_for_several(k: int, m: int) -> None:
    """At the noise for m events, shown by the outputs with an own key."""
    cost = Cost.charged(epsilon="2", delta="1e-4")
    calibrated = pmg.calibrate(k, cost, m)
    tail = float(two_key_tail(calibrated.scale, 1))
    alone = next(t for t in range(1, 1000) if two_key_tail(calibrated.scale, t) <= cost.delta)
    assert alone < calibrated.threshold
    assert tail > cost.delta
    pairs = pairs_apart(k, height(calibrated), 4, m)
    laws = Laws(calibrated.scale, alone, height(calibrated) + 4)
    assert max(laws.own_key_reported(side) for pair in pairs for side in (pair.left, pair.right)) > cost.delta


def by_group_privacy(m: int) -> int:
    """`lem:group-privacy` step by step: the smallest t with δ₁·Σ e^(iε/m) ≤ δ, for ε = 1 and δ = 1e-6."""
    steps = math.fsum(math.exp(i / m) for i in range(m))
    scale = pmg.calibrate(1024, COST, m).scale
    return next(t for t in range(m, 100 * m) if float(two_key_tail(scale, t)) * steps <= 1e-6)


@pytest.mark.parametrize(("m", "direct", "by_steps"), [(1, 17, 17), (2, 35, 35), (5, 90, 92), (40, 788, 818)])
def test_m_events_at_once_need_a_lower_threshold_than_m_steps(m: int, direct: int, by_steps: int) -> None:
    assert pmg.calibrate(1024, COST, m).threshold == direct
    assert by_group_privacy(m) == by_steps


@pytest.mark.parametrize("k", [1, 2, 3, 1024])
@pytest.mark.parametrize("m", [2, 5, 64])
def test_the_threshold_is_the_lowest_that_the_proof_allows(k: int, m: int) -> None:
    calibrated = pmg.calibrate(k, COST, m)
    assert calibrated.scale == pytest.approx(m, rel=1e-9)

    def needed(threshold: int) -> float:
        cells = laplace_cells(calibrated.scale)
        return max(cells.own_key_tail(Fraction(threshold - m), u, w - 1) for u, w in raised_and_keys(m, k))

    assert needed(calibrated.threshold) <= 1e-6 < needed(calibrated.threshold - 1)
