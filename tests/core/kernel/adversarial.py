"""Keys that are hard to tell apart, and hard counts."""

from hypothesis import strategies as st

LARGEST_COUNT = 2**31 - 1
PREFIXES = dict(zip("abcde", ("a", "a\0", "aa", "a\0\0", "a" * 9), strict=True))  # of each other, or of what follows

adversarial_keys = st.sampled_from(
    [
        *("\0", "\0\0", "a", "a\0", "a\0\0", "A", "\x7f", '"', "\\", "\n", '\\"', "\\u0041", "é", "e\u0301"),
        *("\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "x" * 512, "x" * 511, "x" * 511 + "y", "é" * 256),
        *("1234567", "12345678", "123456789", "12345678\0", "0123456789abcdef", "0123456789abcdefg", "\0" * 512),
    ]
)
prefixes_of_each_other = st.text("a\0", min_size=1, max_size=4) | st.integers(505, 512).map(lambda length: "x" * length)
adversarial_counts = st.sampled_from([1, 1, 1, 2, 3, LARGEST_COUNT]) | st.integers(1, LARGEST_COUNT)


@st.composite
def _pools(draw: st.DrawFn) -> list[str]:
    keys = draw(st.sampled_from([adversarial_keys, prefixes_of_each_other, st.text(min_size=1, max_size=8)]))
    return draw(st.lists(keys, min_size=1, max_size=12, unique=True))


key_pools = _pools()
"""A few different keys, of which a stream is made."""
