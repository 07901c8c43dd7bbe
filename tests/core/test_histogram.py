"""What a release lists, beside the plain way to say it."""

from hypothesis import given
from hypothesis import strategies as st

from app.core.histogram import within_bytes

_KEYS = st.text(min_size=1, max_size=4)
_COUNTS = st.dictionaries(_KEYS, st.integers(1, 6) | st.integers(2**63, 2**63 + 2), max_size=12)


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
