"""The same question by two units of privacy: thresholds as the planner has them, and the turn where it is."""

from dataclasses import replace

import pytest

from app.core.comparison import MOST_CONTRIBUTIONS, compare
from app.core.ledger.budget import Cost
from app.core.planner import Question, offers

_QUESTION = Question(
    family="stream",
    k=1024,
    max_contributions=1,
    sources=1,
    universe_size=None,
    cost=Cost.charged(epsilon="1", delta="1e-6"),
    beta=0.05,
)


def _by_events(question: Question, m: int) -> int:
    return offers(replace(question, family="stream", max_contributions=m))[0].calibrated.threshold


def _by_users(question: Question) -> int:
    return offers(replace(question, family="compact", max_contributions=1))[0].calibrated.threshold


@pytest.mark.parametrize("m", [1, 5, 39, 41, 1000])
def test_each_unit_cuts_where_its_best_mechanism_does_and_users_alike_for_every_m(m: int) -> None:
    found = compare(_QUESTION, m)
    assert found is not None
    assert found.by_events.calibrated.threshold == _by_events(_QUESTION, m)
    assert found.by_users.calibrated.threshold == _by_users(_QUESTION)
    assert found.turns_at is not None
    assert (_by_events(_QUESTION, m) > _by_users(_QUESTION)) == (m >= found.turns_at)


@pytest.mark.parametrize("k", [1, 16, 1024])
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_it_turns_at_the_first_m_whose_threshold_by_events_is_above_the_one_by_users(k: int, epsilon: str) -> None:
    question = replace(_QUESTION, k=k, cost=Cost.charged(epsilon=epsilon, delta="1e-6"))
    found = compare(question, 5)
    assert found is not None
    assert found.turns_at is not None
    assert _by_events(question, found.turns_at) > _by_users(question)
    assert found.turns_at == 1 or _by_events(question, found.turns_at - 1) <= _by_users(question)
    assert f"It turns at m = {found.turns_at}." in found.words


@pytest.mark.parametrize("family", ["stream", "compact"])
def test_the_question_may_be_of_either_unit(family: str) -> None:
    assert compare(replace(_QUESTION, family=family), 5) == compare(_QUESTION, 5)  # type: ignore[arg-type]  # a Family


def test_it_may_never_turn() -> None:
    """So many counters that sets cost more noise than a thousand events of each person."""
    found = compare(replace(_QUESTION, k=2**22, cost=Cost.charged(epsilon="10", delta="1e-6")), 5)
    assert found is not None
    assert found.turns_at is None
    assert _by_events(replace(_QUESTION, k=2**22, cost=found.by_users.cost), MOST_CONTRIBUTIONS) <= _by_users(
        replace(_QUESTION, k=2**22, cost=found.by_users.cost)
    )
    assert f"It does not turn before m = {MOST_CONTRIBUTIONS}." in found.words


def test_without_a_mechanism_for_both_there_is_nothing_to_compare() -> None:
    pure = replace(_QUESTION, cost=Cost.charged(epsilon="1", delta="0"))
    assert compare(pure, 5) is None
