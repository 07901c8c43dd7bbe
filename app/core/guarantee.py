"""The guarantee of a snapshot in a sentence: what is protected, against what, under which assumption."""

from app.core.budget import Cost
from app.core.people import Enforcement, Unit


def sentence(*, unit: Unit, max_contributions: int, enforcement: Enforcement, cost: Cost) -> str:
    amounts = cost.as_strings()
    likely = f"at most e^{amounts['epsilon']} times as likely" + (f", plus {amounts['delta']}," if cost.delta else "")
    return (
        f"Protects {_what(unit, max_contributions, enforcement)} from whoever sees this snapshot, whatever else they "
        f"know: any answer is {likely} with it as without it. {_assumption(unit, max_contributions, enforcement)}"
    )


def _what(unit: Unit, most: int, enforcement: Enforcement) -> str:
    if unit == "user":
        return "all that any one person contributed, a set of keys,"
    if most == 1 and enforcement == "declared":
        return "any one event"
    return "all events of any one person"


def _assumption(unit: Unit, most: int, enforcement: Enforcement) -> str:
    if unit == "event" and most == 1 and enforcement == "declared":
        return "One event is one event: a person who sent several is protected less."
    if enforcement == "enforced":
        counted = f"{most} events" if unit == "event" else f"one set of {most} keys"
        return (
            f"The service counted at most {counted} of each user that senders named; whoever has several names counts "
            "as several people."
        )
    sent = f"sent more than {most} events" if unit == "event" else f"is in two sets, or in one of more than {most} keys"
    return f"Assumes that nobody {sent}: the senders declared it, and the service did not check."
