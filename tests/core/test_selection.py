"""What a reader selects and in which order it comes, beside the plain way to say it, on both ways of storing bars."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.histogram import Bar
from app.core.selection import Figures, Selection, Sorting, ranked

_KEYS = st.text(min_size=1, max_size=4)
_COUNTS = st.dictionaries(_KEYS, st.integers(1, 6) | st.integers(2**63, 2**63 + 2), max_size=12)
_SELECTIONS = st.builds(
    Selection,
    top=st.none() | st.integers(1, 13),
    min_count=st.none() | st.integers(-1, 7) | st.just(2**70),
    order=st.sampled_from(["count", "key"]),
)


def _plainly(counts: Mapping[str, int], selection: Selection) -> list[str]:
    """Sort all of them, take the first, and sort these."""
    least, top = selection.min_count, selection.top
    kept = [key for key in counts if least is None or counts[key] >= least]
    taken = sorted(kept, key=lambda key: (-counts[key], key))[:top]
    return taken if selection.order == "count" else sorted(taken)


def _bars(counts: Mapping[str, int]) -> list[Bar]:
    return [Bar(key, counts[key], 0, None) for key in sorted(counts)]


def _stored(counts: Mapping[str, int], order: Sorting) -> tuple[list[Bar], Figures]:
    by_count = ranked(_bars(counts))
    listed = [bar for bar, _ in by_count] if order == "count" else _bars(counts)
    figures = Figures(
        counts=np.array([bar.count for bar in listed], object),
        key_lengths=np.array([len(bar.key.encode()) for bar in listed], np.uint16),
        ranks=np.array([rank for _, rank in by_count], np.uint32) if order == "count" else None,
    )
    return listed, figures


@pytest.mark.parametrize("stored", ["count", "key"])
@given(counts=_COUNTS, selection=_SELECTIONS)
def test_figures_alone_find_what_is_wanted_in_its_order(
    stored: Sorting, counts: dict[str, int], selection: Selection
) -> None:
    listed, figures = _stored(counts, stored)
    places = figures.arranged(figures.largest(selection), selection.order)
    assert [listed[place].key for place in places] == _plainly(counts, selection)


@given(counts=_COUNTS, selection=_SELECTIONS, size=st.integers(1, 4))
def test_the_beginning_of_a_histogram_by_count_is_that_of_the_whole(
    counts: dict[str, int], selection: Selection, size: int
) -> None:
    listed = [bar for bar, _ in ranked(_bars(counts))]
    pieces = iter([listed[at : at + size] for at in range(0, len(listed), size)])
    chosen = [bar for piece in selection.beginning(pieces) for bar in piece]
    by_count = Selection(top=selection.top, min_count=selection.min_count)
    assert [bar.key for bar in chosen] == _plainly(counts, by_count)
    unread = [bar for piece in pieces for bar in piece]
    if selection.min_count is None and selection.top is not None:
        assert len(unread) >= len(listed) - selection.top - size + 1  # no piece was taken for nothing


def test_equal_counts_come_by_key_and_keys_by_their_letters() -> None:
    counts = {"b": 5, "a": 5, "é": 9, "\U0001f642": 5, "\ue000": 5, "B": 5}
    by_count = ranked(_bars(counts))
    assert [bar.key for bar, _ in by_count] == ["é", "B", "a", "b", "\ue000", "\U0001f642"]
    assert [rank for _, rank in by_count] == [3, 0, 1, 2, 4, 5]


@given(st.lists(st.integers(1, 512), max_size=40), st.integers(1, 5000))
def test_portions_are_all_of_it_and_none_is_larger_than_it_may_be(lengths: list[int], most: int) -> None:
    figures = Figures(np.zeros(len(lengths)), np.array(lengths, np.uint16), None)
    places = np.arange(len(lengths), dtype=np.uint32)[::-1]
    portions = list(figures.portions(places, most))
    assert [place for portion in portions for place in portion] == list(places)
    sizes = [sum(lengths[place] + 200 for place in portion) for portion in portions]
    assert all(size <= most or len(portion) == 1 for size, portion in zip(sizes, portions, strict=True))
    for (size, _), (_, following) in pairwise(zip(sizes, portions, strict=True)):
        assert size + lengths[following[0]] + 200 > most  # or there would be more portions than need be
