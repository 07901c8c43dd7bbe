"""Several streams released together: true counts lie in the error bars as often as is claimed."""

from collections import Counter
from random import Random

import pytest

from app.core.histogram import Bar, ErrorBound, bars
from app.core.ledger.budget import Cost
from app.core.noise.samplers import SYSTEM_NOISE
from app.core.planner import Question, choose_among, run
from app.core.sketches.stream import StreamSketch
from app.usecases.together import Mode, taken_together

_K, _SOURCES, _RUNS, _BETA = 8, 4, 400, 0.2
_MOST_FAILURES = 115  # Pr[Binomial(400, 0.2) > 115] < 1e-5


def _streams() -> tuple[list[StreamSketch], Counter[str]]:
    """Keys that all of them have, keys of their own, and small ones that push others down."""
    rng, sketches, true = Random(1), [], Counter[str]()
    for source in range(_SOURCES):
        events = [(key, rng.randint(100, 400)) for key in ("a", "b", f"own {source}")]
        events += [(f"rare {rng.randrange(40)}", 1) for _ in range(200)]
        rng.shuffle(events)
        sketches.append(StreamSketch.empty(_K).extended(events))
        for key, count in events:
            true[key] += count
    return sketches, true


def _holds(listed: list[Bar], bound: ErrorBound, true: Counter[str]) -> bool:
    ends = {bar.key: (bar.low, bar.high) for bar in listed}
    return all(low <= true[key] <= (high or 0) for key, (low, high) in ends.items()) and all(
        count <= (bound.unlisted or 0) for key, count in true.items() if key not in ends
    )


@pytest.mark.parametrize("mode", ["summed", "compact"])
def test_all_true_counts_lie_in_their_bars(mode: Mode) -> None:
    sketches, true = _streams()
    question = Question(
        family=mode,
        k=_K,
        max_contributions=1,
        sources=_SOURCES if mode == "summed" else 1,
        universe_size=None,
        cost=Cost.charged(epsilon="1", delta="1e-6"),
        beta=_BETA,
    )
    offer, sketch = choose_among([question], "auto"), taken_together(sketches, mode)
    failures = narrow = 0
    for _ in range(_RUNS):
        released = run(offer, sketch, None, SYSTEM_NOISE).histogram
        bound = offer.noise_bound.with_sketch(released.sketch_error, reduction=released.reduction)
        failures += not _holds(bars(released.counts, bound, 1), bound, true)
        steps = _K + 1 if mode == "summed" else 1
        missed = [count - sketch.counters.get(key, 0) / steps for key, count in released.counts.items()]
        failures += max(missed, default=0) > bound.below
        narrow += max(missed, default=0) > bound.below / 4
    assert failures <= _MOST_FAILURES
    assert narrow > _MOST_FAILURES, "noise of a quarter would be enough, so nothing was checked"
