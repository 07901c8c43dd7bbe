"""Everything that may be refused. Errors carry facts and know no HTTP; none depends on the counters of a sketch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

MAX_REPORTED = 100  # bad items that a refusal names


class Refusal(Exception):
    """A request that is answered with a reason instead of a result. All but `Unavailable` changed nothing for sure."""

    title: ClassVar[str]

    @property
    def detail(self) -> str:
        return str(self)

    @property
    def facts(self) -> dict[str, object]:
        """Machine-readable members that go out beside the sentence."""
        return {}


class Unauthenticated(Refusal):
    title = "No valid API key"


class Forbidden(Refusal):
    title = "The key does not allow this"


class InvalidNumber(Refusal):
    title = "A number is out of range"


class InvalidRequest(Refusal):
    title = "The request does not have the right form"


class NoMechanism(Refusal):
    title = "No mechanism fits these parameters"


class UnknownSketch(Refusal):
    title = "No such sketch"


class UnknownLedger(Refusal):
    title = "No such ledger"


class UnknownSnapshot(Refusal):
    title = "No such snapshot"


class UnknownKey(Refusal):
    title = "No such API key"


class NoSnapshot(Refusal):
    title = "Nothing has been released yet"


class Conflict(Refusal):
    title = "The name is taken by something different"


class Closed(Refusal):
    title = "The sketch is closed"


class WrongUserKey(Refusal):
    title = "The server has another user key"


class KeyReused(Refusal):
    title = "The idempotency key was used for another request"


class UnsupportedMediaType(Refusal):
    title = "The content type is not supported"


class NotAcceptable(Refusal):
    title = "None of the accepted representations exists"


class BodyTooLarge(Refusal):
    title = "The request body is too large"


class BodyTimeout(Refusal):
    title = "The request body did not arrive in time"


class BadState(Refusal):
    title = "The bytes are not a sketch state"


class TooManyRequests(Refusal):
    title = "Too many requests in a short time"

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(detail)
        self.seconds = seconds  # until the next is welcome


class Overloaded(Refusal):
    title = "Too much is going on at once"


class Unavailable(Refusal):
    title = "The database cannot answer now"


class ChangedRules(Unavailable):
    """A batch was read by rules that the sketch no longer has: read it again."""


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
        return {"errors": [{"position": position, "detail": detail} for position, detail in self.items]}


@dataclass(eq=False)
class IncompatibleSketches(Refusal):
    """A merge that no lemma covers, or that would count an event twice."""

    title = "The sketches cannot be merged"
    field: str
    reason: str

    def __str__(self) -> str:
        return self.reason

    @property
    def facts(self) -> dict[str, object]:
        return {"field": self.field}


@dataclass(eq=False)
class BudgetExhausted(Refusal):
    """A release that some ledger cannot pay. Computed from the ledgers alone."""

    title = "The privacy budget does not cover this release"
    requested: dict[str, str]
    remaining: Sequence[dict[str, str]]
    largest_epsilon: str
    blocking: Sequence[str]

    def __str__(self) -> str:
        fits = (
            f"At this delta an epsilon of at most {self.largest_epsilon} fits now."
            if self.largest_epsilon != "0"
            else "No release at this delta fits any more."
        )
        return f"Nothing was charged. The release is not covered by: {', '.join(self.blocking)}. {fits}"

    @property
    def facts(self) -> dict[str, object]:
        return {
            "requested": self.requested,
            "remaining": list(self.remaining),
            "largest_epsilon": self.largest_epsilon,
            "blocking": list(self.blocking),
        }
