"""How many counters a sketch should have: which numbers are worth comparing, and where more of them are free.

The noise and the threshold of a stream hardly depend on k; those of a compact sketch grow with √k. What the sketch
itself may miss is n/(k+1) in either case. Memory, and the time of a release, grow with k.
"""

from dataclasses import replace

from app.core.errors import NoMechanism
from app.core.planner import Offer, choose

FEWEST = 64  # less saves nothing worth having


def sizes(max_k: int) -> list[int]:
    """Numbers of counters worth comparing: powers of two, up to what the server allows."""
    powers = [1 << bits for bits in range(max_k.bit_length())]
    return [k for k in powers if k >= FEWEST] or [max_k]


def larger_k(offer: Offer, max_k: int) -> str | None:
    """Says that twice as many counters would be free, if so: they raise no threshold. None where they do."""
    question = offer.question
    if 2 * question.k > max_k:
        return None
    try:
        doubled = choose(replace(question, k=2 * question.k), offer.mechanism)
    except NoMechanism:
        return None
    threshold, bound = offer.calibrated.threshold, (offer.noise_bound.below, doubled.noise_bound.below)
    if doubled.calibrated.threshold > threshold:
        return None
    grown = f"only grow from {bound[0]:,} to {bound[1]:,}" if bound[1] > bound[0] else f"stay at {bound[0]:,}"
    return (
        f"k = {2 * question.k:,} would be free but for memory and time: the threshold stays at "
        f"{doubled.calibrated.threshold:,}, the noise that a listed count may hold would {grown}, and what the sketch "
        "itself may miss is halved."
    )
