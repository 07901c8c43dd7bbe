"""The confidence bounds are exact, and the bounds on ε and δ are right where the truth is known."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.audit import bounds
from tests.audit.distinguishing import Claim, findings

RISK = 1e-7


def tail(seen: int, trials: int, p: Fraction) -> Fraction:
    """Pr[Binomial(trials, p) ≥ seen], in fractions."""
    return sum(
        (math.comb(trials, number) * p**number * (1 - p) ** (trials - number) for number in range(seen, trials + 1)),
        Fraction(0),
    )


@pytest.mark.parametrize("risk", [0.05, 1e-3, 1e-8])
@pytest.mark.parametrize(("seen", "trials"), [(1, 10), (7, 10), (10, 10), (3, 200), (150, 200), (199, 200)])
def test_the_lower_bound_is_where_the_tail_is_the_risk(seen: int, trials: int, risk: float) -> None:
    low = bounds.at_least(seen, trials, risk)
    assert float(tail(seen, trials, Fraction(low))) == pytest.approx(risk, rel=1e-9)
    assert bounds.at_most(trials - seen, trials, risk) == 1 - low


def test_what_was_never_seen_has_no_lower_bound_and_a_small_upper_one() -> None:
    assert bounds.at_least(0, 100, 0.01) == 0
    assert bounds.at_most(0, 100, 0.01) == pytest.approx(1 - 0.01**0.01)
    assert bounds.at_most(100, 100, 0.01) == 1


@pytest.mark.parametrize(("seen", "trials"), [(2_000, 100_000), (50_000, 100_000), (98_000, 100_000)])
def test_many_trials_are_near_the_normal_law(seen: int, trials: int) -> None:
    share = seen / trials
    spread = math.sqrt(share * (1 - share) / trials)
    assert bounds.at_least(seen, trials, 0.001) == pytest.approx(share - 3.0902 * spread, abs=0.2 * spread)
    assert bounds.at_most(seen, trials, 0.001) == pytest.approx(share + 3.0902 * spread, abs=0.2 * spread)


def answers(truth: int, epsilon: float, seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Randomised response to a question with the answers 1 and 2, exactly ε-private, a key that tells nothing, and a
    sketch error that tells nothing."""
    random = np.random.default_rng(seed)
    true = random.random(40_000) < math.exp(epsilon) / (1 + math.exp(epsilon))
    told = np.where(true, truth, 3 - truth)
    return np.stack([told, random.integers(1, 6, 40_000), random.integers(-3, 3, 40_000)], axis=1)


def test_randomised_response_is_bounded_by_what_it_is() -> None:
    found = findings(answers(1, 1.0, seed=1), answers(2, 1.0, seed=2), Claim(1.0, 0.0), RISK)
    assert 0.9 < max(finding.epsilon for finding in found) <= 1.0
    assert not any(finding.passes_the_claim for finding in found)


@pytest.mark.parametrize("hidden", [0, 1], ids=["alone", "beside a count"])
def test_a_sketch_error_that_gives_the_answer_away_is_seen(hidden: int) -> None:
    """It is the answer, or the answer less a count."""
    both = answers(1, 1.0, seed=1), answers(2, 1.0, seed=2)
    left, right = (np.column_stack([rows[:, 1], rows[:, 0] - hidden * rows[:, 1]]) for rows in both)
    assert 0.9 < max(finding.epsilon for finding in findings(left, right, Claim(0.5, 0.0), RISK)) <= 1.0


def test_a_claim_of_less_than_it_is_is_refuted() -> None:
    found = findings(answers(1, 1.0, seed=1), answers(2, 1.0, seed=2), Claim(0.8, 0.01), RISK)
    assert any(finding.passes_the_claim for finding in found)
    for finding in found:
        assert finding.passes_the_claim == (finding.epsilon > 0.8)


def test_equal_laws_show_nothing() -> None:
    found = findings(answers(1, 1.0, seed=1), answers(1, 1.0, seed=2), Claim(0.1, 0.0), RISK)
    assert max(finding.epsilon for finding in found) == 0
