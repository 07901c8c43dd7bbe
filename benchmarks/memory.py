"""Part `memory`: how many bytes a counter of an open sketch takes, in a process that does nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import ours
from benchmarks.markdown import number
from benchmarks.report import Claim, Part
from benchmarks.servers import POSTGRESQL, SQLITE
from benchmarks.streams import BATCH, DISTINCT, KEY_BYTES

_K = 1024
_SKETCHES = 1_000
_WARM_UP = 10  # sketches made before the first look, so that buffers of the allocator are not counted


def run(part: Part, *, quick: bool) -> None:
    """Measure for both databases, each in a process of its own."""
    part.say(
        f"A process of its own keeps {_SKETCHES:,} hot sketches of k = {_K:,}, each filled by {BATCH:,} distinct keys "
        f"of {KEY_BYTES} bytes; for PostgreSQL also what is stored of them, to tell what changes."
    )
    for kind in (SQLITE, POSTGRESQL):
        command = [sys.executable, "-m", "benchmarks.memory", kind]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        part.say(
            f"{kind}: its resident memory grew from {found['before'] / 2**20:.0f} to {found['after'] / 2**20:.0f} MiB, "
            f"that is {number(found['per_counter'])} bytes a counter."
        )
        claim = f"memory of a hot counter with a 16-byte key, {kind}"
        part.claim(Claim(claim, found["per_counter"], at_most=150, unit="bytes"))


def main(kind: str) -> None:
    """Open many sketches in this process, and print how much its memory grew."""
    kept = [_hot(seed, kind) for seed in range(_WARM_UP)]
    before = _resident()
    kept += [_hot(seed, kind) for seed in range(_WARM_UP, _WARM_UP + _SKETCHES)]
    after = _resident()
    print(json.dumps({"before": before, "after": after, "per_counter": (after - before) / (_SKETCHES * _K)}))


def _hot(seed: int, kind: str) -> object:
    fold = ours.fold(DISTINCT.bodies(BATCH, seed=seed), _K)
    return fold, fold.stored() if kind == POSTGRESQL else None


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(sys.argv[1])
