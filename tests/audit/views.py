"""What a distinguisher may look at: each view sorts outputs into finitely many cells.

An event is a set of cells of one view. The views are the sufficient statistics of the worst neighbours, exactly or in
coarse steps: which keys appear, the count of a key, two counts, their difference, the sum, the smallest, middle and
largest count (where all counters move together), how many counts are high, and the whole output. The sketch error is
looked at alone, beside each count, and beside the sum of all counts, in steps so fine that any sum of the two is seen.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tests.audit.drawing import ABSENT, Outputs

Cells = NDArray[np.int64]  # the cell of each row: 0, 1, …

_COARSE = (2, 3, 5, 8)  # steps for each key of a whole output
_FINE = (12, 30)  # steps for the sum of counts and for the sketch error
_MOST_CELLS = 20_000  # of a coarse view; beyond that, most would be seen too rarely to learn from


def views(rows: Outputs, known: int) -> Iterator[tuple[str, Cells]]:
    """Every view of these rows. Where coarse steps are chosen from the data, the first `known` rows decide."""
    counts, error = rows[:, :-1], rows[:, -1:]
    yield from _of_counts(counts, known)
    if (error != error[0]).any():
        yield from _with_error(counts, error, known)


def _of_counts(rows: Outputs, known: int) -> Iterator[tuple[str, Cells]]:
    """Views that leave the sketch error out."""
    yield "keys that appear", cells((rows != ABSENT).astype(np.int64))
    yield "whole output", cells(rows)
    for column in range(rows.shape[1]):
        yield f"count {column + 1}", cells(rows[:, [column]])
    for one, other in combinations(range(rows.shape[1]), 2):
        yield f"counts {one + 1} and {other + 1}", cells(rows[:, [one, other]])
        yield f"count {one + 1} minus {other + 1}", cells(rows[:, [one]] - rows[:, [other]])
    if rows.shape[1] > 1:
        yield from _together(rows, known)


def _with_error(counts: Outputs, error: Outputs, known: int) -> Iterator[tuple[str, Cells]]:
    """Views of the sketch error, alone and beside counts."""
    yield "sketch error", cells(error)
    yield "keys that appear and sketch error", cells(np.hstack([counts != ABSENT, error]).astype(np.int64))
    yield "whole output and sketch error", cells(np.hstack([counts, error]))
    for column in range(counts.shape[1]):
        count = counts[:, [column]]
        yield f"count {column + 1} and sketch error", cells(np.hstack([count, error]))
        yield f"count {column + 1} plus sketch error", cells(count + error)
    total = counts.sum(axis=1, keepdims=True)
    for times in range(1, counts.shape[1] + 1):
        yield f"sum of counts plus {times} sketch error", cells(total + times * error)
        yield f"sum of counts minus {times} sketch error", cells(total - times * error)
    for steps in _FINE:
        both = cells(coarse(np.hstack([total, error]), known, steps))
        yield f"sum of counts and sketch error in {steps} steps", both
    for steps in _COARSE:
        if steps ** (counts.shape[1] + 1) <= _MOST_CELLS:
            yield f"everything in {steps} steps", cells(coarse(np.hstack([counts, error]), known, steps))


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
