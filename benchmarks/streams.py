"""Seeded event streams of 16-byte keys, as the request bodies that carry them.

NumPy draws numbers and writes them into fixed-width text, so a body of 10,000 events costs about a millisecond and a
stream of any length is made as it is read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

BATCH = 10_000
KEY_BYTES = 16

_SEED = 1
_AT_ONCE = 100_000  # events drawn together; the same for every length of stream, so that caches are met alike
_NUMBERS = 10**12  # "key-" and twelve digits
_HEAD, _TAIL = b'{"events": [', b"]}"

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stream:
    """A distribution of keys to draw events from."""

    name: str
    draw: Callable[[np.random.Generator, int], Numbers]

    def bodies(self, events: int, batch: int = BATCH, *, seed: int = _SEED) -> Iterator[bytes]:
        """JSON bodies of `batch` events each, made as they are read. `batch` must divide 100,000."""
        generator = np.random.default_rng(seed)
        for start in range(0, events, _AT_ONCE):
            text = _text(self.draw(generator, min(_AT_ONCE, events - start)))
            for at in range(0, len(text), batch):
                yield _HEAD + text[at : at + batch].tobytes()[: -len(b", ")] + _TAIL


def zipf(keys: int, exponent: float = 1.1) -> Stream:
    """Keys by Zipf's law, shuffled: their order should not tell how frequent they are."""

    def draw(generator: np.random.Generator, events: int) -> Numbers:
        cumulated, numbers = _zipf_law(keys, exponent)
        return numbers[np.searchsorted(cumulated, generator.random(events))]

    return Stream(f"Zipf {exponent:g}, {keys:,} keys", draw)


@cache
def _zipf_law(keys: int, exponent: float) -> tuple[NDArray[np.float64], Numbers]:
    cumulated = np.cumsum(1 / np.arange(1, keys + 1) ** exponent)
    return cumulated / cumulated[-1], np.random.default_rng(_SEED).permutation(keys)


def _distinct(generator: np.random.Generator, events: int) -> Numbers:
    return generator.integers(0, _NUMBERS, events)  # of so many numbers that hardly any comes twice


def _mostly_distinct(generator: np.random.Generator, events: int) -> Numbers:
    return np.where(generator.random(events) < 0.9, _distinct(generator, events), ZIPF.draw(generator, events))


ZIPF = zipf(100_000)
WIDE_ZIPF = zipf(1_000_000)  # fills the largest sketch
DISTINCT = Stream("all distinct", _distinct)
MOSTLY_DISTINCT = Stream("nine in ten distinct", _mostly_distinct)

_RECORD = np.dtype([("open", "S5"), ("high", "<u4"), ("middle", "<u4"), ("low", "<u4"), ("close", "S3")])
_FOUR_DIGITS = np.frombuffer("".join(f"{number:04}" for number in range(10_000)).encode(), "<u4")


def _text(numbers: Numbers) -> NDArray[np.void]:
    """Each number as `"key-000000000000", `."""
    text = np.empty(len(numbers), _RECORD)
    high, rest = np.divmod(numbers, 10**8)
    middle, low = np.divmod(rest, 10**4)
    text["open"], text["close"] = b'"key-', b'", '
    text["high"], text["middle"], text["low"] = _FOUR_DIGITS[high], _FOUR_DIGITS[middle], _FOUR_DIGITS[low]
    return text
