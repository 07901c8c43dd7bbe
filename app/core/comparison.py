"""The same question by two units of privacy: up to m events of a person, or one set of m keys for each person."""

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
        m = self.max_contributions
        turn = (
            f"It turns at m = {self.turns_at}."
            if self.turns_at
            else f"It does not turn before m = {MOST_CONTRIBUTIONS}."
        )
        return (
            f"For people with at most {m} contributions: unit 'event' cuts at {_threshold(self.by_events)} "
            f"({self.by_events.mechanism}), unit 'user' at {_threshold(self.by_users)} ({self.by_users.mechanism}), "
            f"whatever m is. {turn} An event sketch counts each of a person's events, a sketch of users each key of a "
            "person once."
        )


def compare(question: Question, max_contributions: int) -> Comparison | None:
    """None where one of the units has no mechanism for the question."""
    try:
        by_users = _best(replace(question, family="compact", max_contributions=1))
        by_events = _by_events(question, max_contributions)
    except NoMechanism:
        return None
    return Comparison(max_contributions, by_events, by_users, _turn(question, by_users))


def _by_events(question: Question, max_contributions: int) -> Offer:
    return _best(replace(question, family="stream", max_contributions=max_contributions))


def _best(question: Question) -> Offer:
    return offers(question)[0]


def _threshold(offer: Offer) -> int:
    return offer.calibrated.threshold


def _turn(question: Question, by_users: Offer) -> int | None:
    """The smallest m from which on a threshold by events is above the one by users; thresholds grow with m."""

    def is_above(m: int) -> bool:
        try:
            return _threshold(_by_events(question, m)) > _threshold(by_users)
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
