"""What the mathematics refuses. Errors carry facts and know no HTTP; none depends on the counters of a sketch.

What is refused for other reasons (a key, a name, the database, HTTP) is in `app/refusals.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

MAX_REPORTED = 100  # bad items that a refusal names


class Refusal(Exception):
    """A request that is answered with a reason instead of a result.

    Nothing was changed by it. `Unavailable` alone cannot promise that: a commit may have been under way.
    """

    title: ClassVar[str]

    @property
    def detail(self) -> str:
        """The reason in a sentence."""
        return str(self)

    @property
    def facts(self) -> dict[str, object]:
        """Machine-readable members that go out beside the sentence."""
        return {}


class InvalidNumber(Refusal):
    """A number that has the right form and a value that cannot be used."""

    title = "A number is out of range"


class InvalidRequest(Refusal):
    """A request whose parts do not fit together."""

    title = "The request does not have the right form"


class NoMechanism(Refusal):
    """A release for which there is no mechanism, or none with a proof that covers the sketch."""

    title = "No mechanism fits these parameters"


class BadState(Refusal):
    """Bytes that no sketch was stored as."""

    title = "The bytes are not a sketch state"


@dataclass(eq=False)
class BadBatch(Refusal):
    """A batch with at least one bad item; nothing of it was counted."""

    title = "The batch was refused whole"
    reason: str
    items: Sequence[tuple[int, str]] = field(default=())  # position in the batch, what to change

    def __str__(self) -> str:
        return f"{self.reason} Nothing of the batch was counted."

    @property
    def facts(self) -> dict[str, object]:
        """The bad items, by position."""
        return {"errors": [{"position": position, "detail": detail} for position, detail in self.items]}


@dataclass(eq=False)
class IncompatibleSketches(Refusal):
    """Sketches that no lemma lets be taken together, or that would count an event twice."""

    title = "The sketches do not fit together"
    field: str
    reason: str

    def __str__(self) -> str:
        return self.reason

    @property
    def facts(self) -> dict[str, object]:
        """What of the sketches does not match."""
        return {"field": self.field}


_WITH_ARTICLE = {"epsilon": "an epsilon", "rho": "a rho"}


@dataclass(eq=False)
class BudgetExhausted(Refusal):
    """A release that some ledger cannot pay. Computed from the ledgers alone."""

    title = "The privacy budget does not cover this release"
    requested: dict[str, str]
    remaining: Sequence[dict[str, str]]
    largest: dict[str, str]  # that fits now at the δ of the request: an epsilon, or a rho where that was asked for
    blocking: Sequence[str]

    def __str__(self) -> str:
        [(currency, most)] = self.largest.items()
        fits = (
            f"At this delta {_WITH_ARTICLE[currency]} of at most {most} fits now."
            if most != "0"
            else "No release at this delta fits any more."
        )
        return f"Nothing was charged. The release is not covered by: {', '.join(self.blocking)}. {fits}"

    @property
    def facts(self) -> dict[str, object]:
        """What was asked for, what is left, what would fit, and which ledgers refuse."""
        return {
            "requested": self.requested,
            "remaining": list(self.remaining),
            **{f"largest_{currency}": most for currency, most in self.largest.items()},
            "blocking": list(self.blocking),
        }
