"""The public parameters of a sketch, spelled once: whoever makes, shows, plans, merges or audits one takes them whole.

They are fixed when the sketch is made and say nothing about its events.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from app.core.people import Enforcement, Unit
from app.core.sketches.universe import Universe

_COMPARED = ("k", "unit", "max_contributions", "universe")


@dataclass(frozen=True, slots=True)
class Contributions:
    """A bound on one person: at most so many events, or one set of at most so many keys."""

    unit: Unit
    most: int


class Difference(NamedTuple):
    """The first parameter in which two sketches differ, and what the other one has, in words."""

    field: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchParameters:
    """What a sketch is made from, besides its name, its description and the ledger that pays for it."""

    k: int  # counters
    unit: Unit
    max_contributions: int  # events of a person, or keys in a person's set
    enforcement: Enforcement = "declared"
    universe: Universe | None = None  # all possible keys, where they were declared

    @property
    def contributions(self) -> Contributions:
        """The bound on what one person contributes."""
        return Contributions(self.unit, self.max_contributions)

    @property
    def covered_events(self) -> int:
        """The events of one person that a mechanism must cover. The size of a set does not matter to PAMG."""
        return self.max_contributions if self.unit == "event" else 1

    @property
    def universe_size(self) -> int | None:
        """How many keys are possible, where that was declared."""
        return None if self.universe is None else self.universe.size

    @property
    def first_family(self) -> Literal["stream", "compact"]:
        """The family of a sketch of these parameters before any merge."""
        return "stream" if self.unit == "event" else "compact"

    def difference_from(self, other: "SketchParameters") -> Difference | None:
        """Why sketches of these parameters cannot be merged: the first that the lemmas or the guarantee need equal.

        The enforcement is not among them. Whether people's contributions to two sketches may be added up depends on
        the register where they are counted, which is not a parameter.
        """
        for name in _COMPARED:
            if getattr(self, name) != getattr(other, name):
                words = "another universe" if name == "universe" else f"{name} = {getattr(other, name)}"
                return Difference(name, words)
        return None
