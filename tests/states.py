"""Stored states, read as what a test knows them to be."""

from typing import TypeVar

from app.core.errors import BadState
from app.core.sketches.compact import CompactSketch
from app.core.sketches.state import decode
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch

Kind = TypeVar("Kind", StreamSketch, CompactSketch, SummedSketch)


def decode_as(kind: type[Kind], state: bytes) -> Kind:
    """The sketch, which must be of the given type."""
    sketch = decode(state)
    if not isinstance(sketch, kind):
        raise BadState(f"Expected a {kind.__name__}.")
    return sketch
