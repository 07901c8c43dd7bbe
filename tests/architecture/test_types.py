"""The type checker refuses a release that no proof covers."""

from pathlib import Path

from mypy import api

_HEAD = """
from app.core.mechanisms.gshm import Gshm
from app.core.mechanisms.pmg import Pmg
from app.core.noise.samplers import Noise
from app.core.sketches.compact import CompactSketch
from app.core.sketches.standard import StandardSketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.summed import SummedSketch

def tried(
    pmg: Pmg, gshm: Gshm, noise: Noise,
    stream: StreamSketch, compact: CompactSketch, summed: SummedSketch, standard: StandardSketch,
) -> None:
"""
_ALLOWED = ("pmg.release(stream, noise)", "gshm.release(compact, noise)")
_REFUSED = (
    "pmg.release(compact, noise)",
    "pmg.release(summed, noise)",
    "pmg.release(standard, noise)",
    "gshm.release(stream, noise)",
    "gshm.release(summed, noise)",
)


def test_a_merged_sketch_cannot_be_handed_to_pmg(tmp_path: Path) -> None:
    lines = _HEAD.splitlines()
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join([*lines, *(f"    {call}" for call in (*_ALLOWED, *_REFUSED))]))
    report, _, status = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(snippet)])
    assert status == 1
    errors = [line for line in report.splitlines() if "snippet.py" in line and "error:" in line]
    first = len(lines) + len(_ALLOWED) + 1
    assert [int(line.split(":")[1]) for line in errors] == list(range(first, first + len(_REFUSED)))
    assert all("incompatible type" in line for line in errors)
