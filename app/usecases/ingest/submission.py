"""What a request submits to be counted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.core.kernel import Batch
from app.core.people import People, Rules
from app.store.claims import Claim

EVENTS_OF_ANYBODY = Rules("event", 1)

Outcome = Exception | None  # None: it is counted, now or before by the request that it repeats


class ChangedRules(Exception):
    """A submission was read by rules that the sketch no longer has. Nothing was counted: read the body again.

    No refusal, because it never reaches the caller: `Intake` reads the body again, and if that is in vain too, refuses
    it as `Unavailable`.
    """


@dataclass(frozen=True, slots=True)
class Submission:
    """One request's batch on its way to be counted, with all that decides whether it is."""

    batch: Batch
    claim: Claim | None = None  # makes a retry safe
    api_key_id: str | None = None  # of the sender; None for the one that the environment gives
    people: People | None = None  # who is behind the items, where the sketch enforces allowances
    rules: Rules = EVENTS_OF_ANYBODY  # of the sketch, by which the batch was read


class Queue(Protocol):
    """Where further submissions of the same sketch wait, in order."""

    def take(self) -> Sequence[Submission]:
        """Those that wait now; they are the caller's to count."""
        ...
