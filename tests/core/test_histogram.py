"""What a reader selects, and what a release lists, beside the plain way to say it."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.core.histogram import Bar, Selection, within_bytes

_KEYS = st.text(min_size=1, max_size=4)
_COUNTS = st.dictionaries(_KEYS, st.integers(1, 6) | st.integers(2**63, 2**63 + 2), max_size=12)


def _plainly(counts: Mapping[str, int], selection: Selection) -> list[str]:
    """Sort all of them, take the first, and put these in key order."""
    least, top = selection.min_count, selection.top
    kept = [key for key in counts if least is None or counts[key] >= least]
    ranked = sorted(kept, key=lambda key: (-counts[key], key))
    return sorted(ranked if top is None else ranked[:top])


def _pieces(bars: Sequence[Bar], size: int) -> list[Sequence[Bar]]:
    return [bars[at : at + size] for at in range(0, len(bars), size)]


@given(_COUNTS, st.none() | st.integers(1, 13), st.none() | st.integers(-1, 7), st.integers(1, 4))
def test_a_selection_piece_by_piece_is_that_of_the_whole(
    counts: dict[str, int], top: int | None, min_count: int | None, size: int
) -> None:
    selection = Selection(top=top, min_count=min_count)
    bars = [Bar(key, counts[key], 0, None) for key in sorted(counts)]
    cut = selection.cut(counts.values())
    pieces = _pieces(bars, size)
    places = cut.places({at: [bar.count for bar in piece] for at, piece in enumerate(pieces)}) if cut else []
    chosen = list(cut.applied(pieces[at] for at in places)) if cut else []
    assert [bar.key for piece in chosen for bar in piece] == _plainly(counts, selection)
    assert all(chosen)  # no piece is read for nothing


@given(_COUNTS, st.integers(0, 40))
def test_what_is_listed_has_so_many_bytes_and_leaves_out_no_count_larger_than_one_it_has(
    counts: dict[str, int], most: int
) -> None:
    counts = {key: counts[key] for key in sorted(counts)}
    listed, left_out = within_bytes(counts, most)
    sizes = {key: len(key.encode()) for key in counts}
    missing = counts.keys() - listed.keys()
    assert list(listed.items()) == [(key, counts[key]) for key in counts if key in listed]
    assert sum(sizes[key] for key in listed) <= most
    assert left_out == max((counts[key] for key in missing), default=None)
    if left_out is not None:
        first = min(missing, key=lambda key: (-counts[key], key))
        assert sum(sizes[key] for key in listed) + sizes[first] > most  # the next one would not have fitted
        assert all((-counts[key], key) < (-left_out, first) for key in listed)
