"""The usual Misra-Gries sketch of one event stream, which forgets a key when its counter falls to zero.

Other programs build it. Its counts are those of a `StreamSketch`, but which keys it stores differs more between
neighbours: up to k keys of count 1 on one side (sec:MG-without-ordering). So `mechanisms/pmg.py` takes it too, at a
higher threshold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StandardSketch:
    """At most k positive counters of one stream. Estimates lie in [f(x) − n/(k+1), f(x)] (`fact:MG-error`)."""

    k: int
    counters: Mapping[str, int] = field(repr=False)  # private data: never in a log
