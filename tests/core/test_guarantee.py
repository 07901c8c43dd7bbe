"""The guarantee of a snapshot in a sentence: it claims no more than what was counted, or declared."""

from itertools import product

import pytest

from app.core.guarantee import NOT_COVERED, sentence
from app.core.ledger.budget import Cost
from app.core.people import Enforcement, Unit
from app.core.sketches.parameters import SketchParameters

_COST = Cost.charged(epsilon="0.5", delta="1e-6")
_PURE = Cost.charged(epsilon="0.5", delta="0")
_APPROXIMATE_WORDS = "any answer is at most e^0.5 times as likely, plus 1e-6, with it as without it."
_PURE_WORDS = "any answer is at most e^0.5 times as likely with it as without it."
_KNOWN = " from whoever sees this snapshot, whatever else they know: "

_EVENTS_COUNTED = (
    "The service counted at most {m} events of each user that senders named; whoever has several names counts as "
    "several people."
)
_SETS_COUNTED = _EVENTS_COUNTED.replace("{m} events", "one set of {m} keys")
_EVENTS_DECLARED = (
    "Assumes that nobody sent more than {m} events: the senders declared it, and the service did not check."
)
_SETS_DECLARED = _EVENTS_DECLARED.replace(
    "sent more than {m} events", "is in two sets, or in one of more than {m} keys"
)
_ONE_EVENT = "One event is one event: a person who sent several is protected less."

_PERSON, _SET = "all events of any one person", "all that any one person contributed, a set of keys,"

_SAID: dict[tuple[Unit, Enforcement, int], tuple[str, str]] = {
    ("event", "enforced", 1): (_PERSON, _EVENTS_COUNTED),
    ("event", "enforced", 5): (_PERSON, _EVENTS_COUNTED),
    ("event", "declared", 1): ("any one event", _ONE_EVENT),
    ("event", "declared", 5): (_PERSON, _EVENTS_DECLARED),
    ("user", "enforced", 1): (_SET, _SETS_COUNTED),
    ("user", "enforced", 5): (_SET, _SETS_COUNTED),
    ("user", "declared", 1): (_SET, _SETS_DECLARED),
    ("user", "declared", 5): (_SET, _SETS_DECLARED),
}


_TAKEN = (
    "It holds for what the service took, where one person more or less changes neither the order nor the destination"
)


def _parameters(unit: Unit, m: int, enforcement: Enforcement) -> SketchParameters:
    return SketchParameters(k=8, unit=unit, max_contributions=m, enforcement=enforcement)


def _taken(unit: Unit, enforcement: Enforcement, m: int) -> str:
    """What every guarantee assumes."""
    if (unit, enforcement, m) == ("event", "declared", 1):
        return f"{_TAKEN.replace('person', 'event')} of the others."
    bounded = _TAKEN.replace("took", "took after bounding") if enforcement == "enforced" else _TAKEN
    return f"{bounded} of the others' items."


def test_every_combination_is_said() -> None:
    assert set(_SAID) == set(product(("event", "user"), ("enforced", "declared"), (1, 5)))


@pytest.mark.parametrize(("unit", "enforcement", "m"), _SAID)
@pytest.mark.parametrize(("cost", "likely"), [(_COST, _APPROXIMATE_WORDS), (_PURE, _PURE_WORDS)], ids=["δ", "pure"])
def test_the_sentence_says_what_is_protected_and_under_which_assumption(
    unit: Unit, enforcement: Enforcement, m: int, cost: Cost, likely: str
) -> None:
    protected, assumption = _SAID[unit, enforcement, m]
    said = sentence(_parameters(unit, m, enforcement), cost=cost)
    assert said == f"Protects {protected}{_KNOWN}{likely} {assumption.format(m=m)} {_taken(unit, enforcement, m)}"


def test_what_an_earlier_version_counted_is_said_not_to_be_covered() -> None:
    plain, marked = (
        sentence(_parameters("user", 3, "enforced"), cost=_COST, counted_by_request=marked) for marked in (False, True)
    )
    assert marked == f"{plain} {NOT_COVERED}"


@pytest.mark.parametrize(("unit", "enforcement", "m"), _SAID)
def test_only_what_the_service_counted_is_called_counted(unit: Unit, enforcement: Enforcement, m: int) -> None:
    said = sentence(_parameters(unit, m, enforcement), cost=_COST)
    assert ("The service counted" in said) == (enforcement == "enforced")
    assert ("did not check" in said) == (enforcement == "declared" and (unit, m) != ("event", 1))
