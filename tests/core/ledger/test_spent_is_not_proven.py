"""Why a zcdp ledger's report states the total: what is spent, read at a well-chosen moment, does not hold.

The releases are randomised responses, the worst of their cost, so the privacy loss is a random walk in steps of ±ε. A
claim "(ε_n, δ) holds if you stop after n releases" is refuted by a rule for when to stop: then the claimed δ must be at
least the sum over all ends of P − e^(ε_n)·Q. The best rule is found exactly, from the last step back to the first.
"""

import math
from collections.abc import Sequence

import numpy as np

from app.core.ledger.accountants import ACCOUNTANTS, Price
from app.core.ledger.budget import Budget, Cost

ZCDP = ACCOUNTANTS["zcdp"]
RELEASES = 1_000
COST = Cost.charged(epsilon="0.1", delta="0")
TOTAL = Budget.granted(epsilon="25", delta="2e-6")


def delta_needed(claimed: Sequence[float]) -> float:
    """The least δ at which the claims hold, whoever stops when: claimed[n] is the ε claimed after n releases."""
    epsilon = float(COST.epsilon)
    up = 1 / (1 + math.exp(-epsilon))
    best = np.zeros(len(claimed) + 1)  # after the last release nothing more is gained by going on
    for number in reversed(range(len(claimed))):
        losses = (2 * np.arange(number + 1) - number) * epsilon
        stopping = -np.expm1(np.minimum(claimed[number] - losses, 0.0))  # 1 − e^ε·Q/P
        best = np.maximum(up * best[1:] + (1 - up) * best[:-1], stopping)
    return float(best[0])


def spent(releases: int) -> float:
    price = ZCDP.price(COST, COST.epsilon**2 / 2)
    return float(ZCDP.converted(TOTAL, Price(releases * price.main, 0)).epsilon)


def test_what_is_spent_does_not_hold_at_a_moment_that_is_chosen_by_the_answers() -> None:
    """Beside a total that does, with much to spare."""
    set_aside = float(TOTAL.delta) / 2  # what a figure of ε is claimed at: nothing else of δ is spent here
    figures = [spent(number) for number in range(RELEASES + 1)]
    assert figures[-1] < float(TOTAL.epsilon)
    assert delta_needed(figures) > 1.9 * set_aside
    assert delta_needed([figures[-1]] * (RELEASES + 1)) < set_aside / 7


def test_what_is_spent_does_hold_where_epsilon_is_added_up() -> None:
    """`basic`, by the same computation: the claim after n releases is n·ε, which no walk passes."""
    assert delta_needed([number * float(COST.epsilon) * (1 + 1e-12) for number in range(500)]) == 0
