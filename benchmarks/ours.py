"""Our fold, from JSON bytes to an updated sketch: the kernel, and the same in plain Python."""

from collections.abc import Iterable
from typing import Any

from app.api.decoding import items, texts
from app.api.decoding.shapes import EVENTS
from app.core import kernel
from app.core.kernel import twin
from app.core.sketches import state
from app.core.sketches.order import SECRET_BYTES, Order
from app.core.sketches.stream import StreamSketch
from benchmarks.streams import BATCH

NATIVE = kernel.NATIVE

_ORDER = Order(bytes(range(SECRET_BYTES)))  # a secret order, as every new sketch has; which one does not matter


def fold(bodies: Iterable[bytes], k: int, *, plain: bool = False) -> Any:
    """An open sketch into which these bodies were counted, beginning with an empty one."""
    hot = opened(k, plain=plain)
    for body in bodies:
        add(hot, body, plain=plain)
    return hot


def opened(k: int, *, plain: bool = False) -> Any:
    """An empty sketch, open to be counted into; in plain Python if asked for."""
    stored = state.encode(StreamSketch.empty(k, _ORDER))
    return twin.Fold(stored) if plain else kernel.Fold(stored)


def add(hot: Any, body: bytes, *, plain: bool = False) -> None:
    """Count the events of a request body."""
    hot.add(_read_plainly(body) if plain or not NATIVE else _scanned(body))


def _scanned(body: bytes) -> kernel.Batch:
    batch = kernel.scan_json(body, BATCH)
    if batch is None:
        raise ValueError("the scanner left a plain body to the careful decoder")
    return batch


def _read_plainly(body: bytes) -> kernel.Batch:
    return twin.Batch(*items.checked(texts.json_items(body, EVENTS)))
