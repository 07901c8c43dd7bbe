"""The same question by two units of privacy: up to m events of a person, or one set of m keys of a person.

By events the threshold grows with m; by sets it does not depend on m, but is high from the start. So from some m on,
the sets are better: there it turns.
"""

from dataclasses import dataclass, replace

from app.core.errors import NoMechanism
from app.core.planner import Offer, Question, offers

MOST_CONTRIBUTIONS = 1000


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where each unit cuts, and from how many contributions on the sets are better."""

    max_contributions: int
    by_events: Offer
    by_users: Offer
    turns_at: int | None  # None where it does not turn before MOST_CONTRIBUTIONS

    @property
    def words(self) -> str:
        """The comparison for people, in a few sentences."""
        m = self.max_contributions
        turn = (
            f"It turns at m = {self.turns_at}."
            if self.turns_at
            else f"It does not turn before m = {MOST_CONTRIBUTIONS}."
        )
        return (
            f"For people with at most {m} contributions: unit 'event' cuts at {self.by_events.calibrated.threshold} "
            f"({self.by_events.mechanism}), unit 'user' at {self.by_users.calibrated.threshold} "
            f"({self.by_users.mechanism}), "
            f"whatever m is. {turn} An event sketch counts each of a person's events, a sketch of users each key of a "
            "person once."
        )


def compare(question: Question, max_contributions: int) -> Comparison | None:
    """The comparison at m contributions; None where one of the units has no mechanism for the question."""
    try:
        by_users = offers(replace(question, family="compact", max_contributions=1))[0]
        by_events = _by_events(question, max_contributions)
    except NoMechanism:
        return None
    return Comparison(max_contributions, by_events, by_users, _turn(question, by_users))


def _by_events(question: Question, max_contributions: int) -> Offer:
    """The best offer for a stream in which a person has at most so many events."""
    return offers(replace(question, family="stream", max_contributions=max_contributions))[0]


def _turn(question: Question, by_users: Offer) -> int | None:
    """The smallest m from which on a threshold by events is above the one by users; thresholds grow with m."""

    def is_above(m: int) -> bool:
        try:
            return _by_events(question, m).calibrated.threshold > by_users.calibrated.threshold
        except NoMechanism:
            return True

    low, high = 1, 1
    while not is_above(high):
        if high == MOST_CONTRIBUTIONS:
            return None
        low, high = high + 1, min(2 * high, MOST_CONTRIBUTIONS)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_above(middle) else (middle + 1, high)
    return low
