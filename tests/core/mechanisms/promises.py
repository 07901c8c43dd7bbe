"""Whether releases of streams are as near the truth as a mechanism's noise bound says, with real noise.

A release breaks its promise with probability at most `BETA`, independently of the others; more than `TOLERATED` then do
so with the probability `law.FALSE_ALARM`.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from app.core.histogram import NoiseBound, Released
from app.core.mechanism import Calibrated
from app.core.noise.samplers import SYSTEM_NOISE
from app.core.sketches.stream import StreamSketch
from tests.laws.law import most_failures
from tests.streams import Stream, in_runs, zipf

BETA = 0.1
RELEASES = 600
TOLERATED = most_failures(RELEASES, BETA)
K = 8


@cache
def streams() -> list[tuple[Stream, StreamSketch]]:
    """Short and long ones, of fewer and of many more keys than the sketch holds."""
    shapes = random.Random(5)
    made = [zipf(shapes.randrange(1500), keys=shapes.randrange(5, 60), seed=seed) for seed in range(RELEASES)]
    return [(stream, StreamSketch.empty(K).extended(in_runs(stream))) for stream in made]


Promise = Callable[[Released, Stream, StreamSketch, NoiseBound], bool]


def listed_keys_are_not_too_high(released: Released, _: Stream, sketch: StreamSketch, bound: NoiseBound) -> bool:
    return all(sketch.counters[key] >= count - bound.below for key, count in released.counts.items())


def listed_keys_are_not_too_low(released: Released, stream: Stream, _: StreamSketch, bound: NoiseBound) -> bool:
    true, most = Counter(stream), bound.above + (released.sketch_error or 0)
    return all(true[key] <= count + most for key, count in released.counts.items())


def unlisted_keys_are_small(released: Released, stream: Stream, _: StreamSketch, bound: NoiseBound) -> bool:
    most = bound.unlisted + (released.sketch_error or 0)
    return all(count <= most for key, count in Counter(stream).items() if key not in released.counts)


def everything_at_once(*of: Any) -> bool:
    return all(promise(*of) for promise in PROMISES)


PROMISES: list[Promise] = [listed_keys_are_not_too_high, listed_keys_are_not_too_low, unlisted_keys_are_small]


def failures(calibrated: Calibrated[StreamSketch], promise: Promise, part: float = 1) -> int:
    """How many releases break a promise of which noise and threshold are understated: this part of them is claimed."""
    exact = calibrated.noise_bound(BETA)
    bound = NoiseBound(*(int(part * value) for value in (exact.below, exact.above, exact.unlisted)))
    return sum(not promise(released, stream, sketch, bound) for released, stream, sketch in _releases(calibrated))


def _releases(calibrated: Calibrated[StreamSketch]) -> Iterator[tuple[Released, Stream, StreamSketch]]:
    for stream, sketch in streams():
        released = calibrated.release(sketch, SYSTEM_NOISE)
        assert released.counts.keys() <= set(stream)  # f(x) = 0 is never listed, without exception
        assert released.sketch_error is not None
        yield released, stream, sketch
