"""What a distinguisher may look at: each view sorts outputs into finitely many cells.

An event is a set of cells of one view. The views are the sufficient statistics of the worst neighbours, exactly or in
coarse steps: which keys appear, the count of a key, two counts, their difference, the sum, the smallest, middle and
largest count (where all counters move together), how many counts are high, and the whole output.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tests.audit.drawing import ABSENT, Outputs

Cells = NDArray[np.int64]  # the cell of each row: 0, 1, …

_COARSE = (2, 3, 5, 8)  # steps for each key of a whole output
_MOST_CELLS = 20_000  # of a coarse view; beyond that, most would be seen too rarely to learn from


def views(rows: Outputs, known: int) -> Iterator[tuple[str, Cells]]:
    """Every view of these rows. Where coarse steps are chosen from the data, the first `known` rows decide."""
    yield "keys that appear", cells((rows != ABSENT).astype(np.int64))
    yield "whole output", cells(rows)
    for column in range(rows.shape[1]):
        yield f"count {column + 1}", cells(rows[:, [column]])
    for one, other in combinations(range(rows.shape[1]), 2):
        yield f"counts {one + 1} and {other + 1}", cells(rows[:, [one, other]])
        yield f"count {one + 1} minus {other + 1}", cells(rows[:, [one]] - rows[:, [other]])
    if rows.shape[1] > 1:
        yield from _together(rows, known)


def _together(rows: Outputs, known: int) -> Iterator[tuple[str, Cells]]:
    """Views of all keys at once."""
    yield "sum of counts", cells(rows.sum(axis=1, keepdims=True))
    ranked = np.sort(rows, axis=1)
    for rank in range(rows.shape[1]):
        yield f"count of rank {rank + 1}", cells(ranked[:, [rank]])
    middle = ranked[:, [(rows.shape[1] - 1) // 2]] + ranked[:, [rows.shape[1] // 2]]  # twice the median
    yield "middle of the counts", cells(middle)
    for column in range(rows.shape[1]):
        yield f"count {column + 1} minus the middle", cells(2 * rows[:, [column]] - middle)
    yield "how many are high", cells(coarse(rows, known, 2).sum(axis=1, keepdims=True))
    for steps in _COARSE:
        if steps ** rows.shape[1] <= _MOST_CELLS:
            yield f"whole output in {steps} steps", cells(coarse(rows, known, steps))
            yield f"ranked output in {steps} steps", cells(coarse(ranked, known, steps))


def coarse(rows: Outputs, known: int, steps: int) -> Outputs:
    """Each column cut at its own quantiles."""
    shares = np.arange(1, steps) / steps
    columns = []
    for column in rows.T:
        edges = np.unique(np.quantile(column[:known], shares, method="higher"))
        columns.append(np.searchsorted(edges, column, side="right"))
    return np.stack(columns, axis=1).astype(np.int64)


def cells(rows: Outputs) -> Cells:
    """Equal rows, equal cells."""
    found = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        _, values = np.unique(column, return_inverse=True)
        _, found = np.unique(found * (values.max() + 1) + values, return_inverse=True)
    return found
