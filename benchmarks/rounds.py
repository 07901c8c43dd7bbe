"""Measure in five rounds, in each of which every contender runs once, so that a slow moment of the machine hits all.

A ratio is the median of the ratios within the rounds, not a ratio of two medians that may stem from different moments.
"""

import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 5

Costs = dict[str, list[float]]  # of each contender, in every round


def in_rounds(works: Mapping[str, Callable[[], float]]) -> Costs:
    """What each work returns as its cost, in every round. Every other round goes backwards, to be fair."""
    costs: Costs = {name: [] for name in works}
    for number in range(ROUNDS):
        for name in list(works)[:: -1 if number % 2 else 1]:
            costs[name].append(works[name]())
    return costs


def median(values: list[float]) -> float:
    """The median."""
    return statistics.median(values)


def ratio(above: list[float], below: list[float]) -> float:
    """The median of the ratios within the rounds."""
    return statistics.median(one / other for one, other in zip(above, below, strict=True))


def seconds(work: Callable[[], object]) -> float:
    """How long the work takes."""
    return _passed(time.perf_counter, work)


def busy_seconds(work: Callable[[], object]) -> float:
    """Processor time of this process: waiting for a neighbour on a shared machine does not count."""
    return _passed(time.process_time, work)


def _passed(clock: Callable[[], float], work: Callable[[], object]) -> float:
    start = clock()
    work()
    return clock() - start
