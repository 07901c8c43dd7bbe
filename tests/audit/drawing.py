"""Releases by the tens of thousands: the service's own code path, fed with the service's own noise.

A call of OpenDP's sampler costs a hundred times as much as one draw. So noise is drawn from `SYSTEM_NOISE` in blocks
and handed out piece by piece. Draws are independent and of one law for one scale, so a release gets exactly what it
would get by calling the sampler itself. The mechanism does not notice, and nothing of it is written again here.

Within a case each draw is used once. The next case gets the same draws again (`Reserve.rewind`): its releases are as
independent of each other as those of the first, and bounds that hold one by one hold together by adding up their risks,
whether cases depend on each other or not.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.core.histogram import Released
from app.core.noise.samplers import SYSTEM_NOISE, Noise, Sampler

# A row for each release, a column for each key, ABSENT where the key is not reported, and last one for the sketch error
Outputs = NDArray[np.int64]

ABSENT = 0  # no mechanism reports a count below 1
UNKNOWN = 0  # the sketch error, where neither neighbour knows its own

_BLOCK = 1 << 14


@dataclass(slots=True)
class Reserve:
    """A sampler that draws blocks and serves from them, in order."""

    sampler: Sampler
    _drawn: dict[float, list[int]] = field(default_factory=lambda: defaultdict(list))
    _served: dict[float, int] = field(default_factory=lambda: defaultdict(int))

    def __call__(self, scale: float, size: int) -> list[int]:
        drawn, start = self._drawn[scale], self._served[scale]
        end = self._served[scale] = start + size
        if end > len(drawn):
            drawn.extend(self.sampler(scale, max(_BLOCK, size)))
        return drawn[start:end]

    def rewind(self) -> None:
        """For the next case, never within one."""
        self._served.clear()


class Source:
    """All noise of an audit, by default that of the service."""

    def __init__(self, noise: Noise = SYSTEM_NOISE) -> None:
        self._reserves = Reserve(noise.laplace), Reserve(noise.gaussian)
        self._noise = Noise(*self._reserves, noise.below)

    def for_a_case(self) -> Noise:
        for reserve in self._reserves:
            reserve.rewind()
        return self._noise


def outputs(release: Callable[[Noise], Released], keys: Sequence[str], draws: int, noise: Noise) -> Outputs:
    """So many independent releases."""
    rows = np.empty((draws, len(keys) + 1), dtype=np.int64)
    unknown = 0
    for row in range(draws):
        released = release(noise)
        error = released.sketch_error
        unknown += error is None
        rows[row] = [*(released.counts.get(key, ABSENT) for key in keys), UNKNOWN if error is None else error]
        if not released.counts.keys() <= set(keys):
            raise ValueError("a key was reported that neither neighbour nor the universe has")
    if (rows[:, :-1] < ABSENT).any():
        raise ValueError("a count below 1 was reported, which this audit takes for an absent key")
    if unknown not in (0, draws):
        raise ValueError("a sketch error was reported by some releases and not by others")
    return rows
