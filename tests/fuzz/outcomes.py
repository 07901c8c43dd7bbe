"""What became of a case: how many executions of each kind, or the claim that does not hold."""

from collections import Counter

Outcomes = Counter[str]


class Mismatch(Exception):
    """The kernel and what it is compared with disagree."""


def require(holds: bool, claim: str) -> None:
    if not holds:
        raise Mismatch(claim)
