"""The guarantee of a snapshot, written out in words: what is protected, from whom, and under which assumptions.

This is the one place that says what every guarantee of the service assumes:

- It is about the items that the service took, after bounding (`people.py`). No batch is refused because a person in it
  goes beyond their allowance. One that is too large, or has an item that cannot be counted (no key, a key outside the
  universe), is refused whole: a sender who corrects that item alone and sends it again keeps to what follows, one who
  drops the batch lets that item decide about the others.
- One person, or one event, more or less changes neither the order nor the destination of the others' items. The
  mechanisms' lemmas compare two worlds in which the others' items come in the same order into the same sketch. How they
  are cut into requests does not matter; a sender who samples or routes them by what others sent breaks it.
"""

import math
from collections.abc import Sequence

from app.core.ledger.account import Account
from app.core.ledger.budget import Cost
from app.core.sketches.parameters import Contributions, SketchParameters

NOT_COVERED = (
    "Not covered is what an earlier version of the service counted in this sketch: there one person more or less could "
    "also change what was counted of others."
)
ASSUMED = (
    "It holds for what the service took, where one person or event more or less changes neither the order nor the "
    "destination of the others' items."
)


def sentence(
    parameters: SketchParameters, *, cost: Cost, payers: Sequence[Account] = (), counted_by_request: bool = False
) -> str:
    """The whole guarantee of a snapshot at this cost, paid by these ledgers, of a sketch of these parameters."""
    said = (
        f"Protects {_what(parameters)} from whoever sees this snapshot, whatever else they know: "
        f"{_likelihood(cost, payers)} {_assumption(parameters)} {_taken(parameters)}"
    )
    return with_exception(said) if counted_by_request else said


def _likelihood(cost: Cost, payers: Sequence[Account]) -> str:
    """What the cost promises, for somebody who knows no formula.

    Of ρ-zCDP the logarithm of how much likelier an answer is stays below ρ + 2√(ρ·ln 20), except with probability 1/20.
    """
    amounts = cost.as_strings()
    if not cost.rho_units:
        plus = f", plus {amounts['delta']}," if cost.delta else ""
        return f"any answer is at most e^{amounts['epsilon']} times as likely{plus} with it as without it."
    rho = float(cost.rho)
    times = math.exp(rho + 2 * math.sqrt(rho * math.log(20)))
    totals = [
        f"({total['epsilon']}, {total['delta']}) for ledger {account.ledger}"
        for account, total in ((account, account.total.as_strings()) for account in payers[:3])
    ]
    return (
        f"the release is {amounts['rho']}-zCDP, but for a probability of {amounts['delta']}. In words: in 19 of 20 "
        f"cases at least, the answer that comes is at most {times:.3g} times as likely with it as without it. All "
        f"releases together keep within the (ε, δ) of the ledgers that pay: {', '.join(totals)}."
    )


def with_exception(said: str) -> str:
    """A guarantee with what it does not cover: for sketches that hold what an earlier version counted."""
    return f"{said} {NOT_COVERED}".strip()


def _what(parameters: SketchParameters) -> str:
    if parameters.unit == "user":
        return "all that any one person contributed, a set of keys,"
    if _is_one_event(parameters):
        return "any one event"
    return "all events of any one person"


def _assumption(parameters: SketchParameters) -> str:
    if _is_one_event(parameters):
        return "One event is one event: a person who sent several is protected less."
    unit, most = parameters.unit, parameters.max_contributions
    if parameters.enforcement == "enforced":
        counted = f"{most} events" if unit == "event" else f"one set of {most} keys"
        return (
            f"The service counted at most {counted} of each user that senders named; whoever has several names counts "
            "as several people."
        )
    sent = f"sent more than {most} events" if unit == "event" else f"is in two sets, or in one of more than {most} keys"
    return f"Assumes that nobody {sent}: the senders declared it, and the service did not check."


def _taken(parameters: SketchParameters) -> str:
    """What every guarantee assumes (see above), in the words of this unit."""
    if _is_one_event(parameters):
        one, others = "event", "others"
    else:
        one, others = "person", "others' items"
    bounded = " after bounding" if parameters.enforcement == "enforced" else ""
    return (
        f"It holds for what the service took{bounded}, where one {one} more or less changes neither the order nor the "
        f"destination of the {others}."
    )


def _is_one_event(parameters: SketchParameters) -> bool:
    return parameters.contributions == Contributions("event", 1) and parameters.enforcement == "declared"
