"""The type checker refuses a release that no proof covers."""

from pathlib import Path

from mypy import api

_HEAD = """
from collections.abc import Callable
from typing import TypeVar

from app.core.mechanism import Calibrated, Mechanism, Question
from app.core.mechanisms.gshm import Gshm
from app.core.mechanisms.laplace_compact import LaplaceCompact
from app.core.mechanisms.pmg import Pmg
from app.core.mechanisms.reduced_approx import ReducedApprox
from app.core.noise.samplers import Noise
from app.core.sketches.compact import CompactSketch
from app.core.sketches.standard import StandardSketch
from app.core.sketches.stream import StreamSketch
from app.core.sketches.state import Sketch
from app.core.sketches.summed import SummedSketch

Covered = TypeVar("Covered", bound=Sketch)

def pair(sketch: type[Covered], calibrate: Callable[[Question], Calibrated[Covered]]) -> None:
    Mechanism(
        name="", version=1, theorem="", description="", rank=0, sketches=(sketch,), needs_delta=True,
        needs_universe=False, is_pure=False, calibrate=calibrate,
    )

def tried(
    pmg: Pmg, gshm: Gshm, laplace: LaplaceCompact, reduced: ReducedApprox, noise: Noise,
    to_pmg: Callable[[Question], Pmg], to_gshm: Callable[[Question], Gshm],
    stream: StreamSketch, compact: CompactSketch, summed: SummedSketch, standard: StandardSketch,
) -> None:
"""
_ALLOWED = (
    "pmg.release(stream, noise)",
    "gshm.release(compact, noise)",
    "laplace.release(compact, noise)",
    "reduced.release(stream, noise)",
    "reduced.release(summed, noise)",
    "pair(StreamSketch, to_pmg)",
    "pair(CompactSketch, to_gshm)",
)
_REFUSED = (
    "pmg.release(compact, noise)",
    "pmg.release(summed, noise)",
    "pmg.release(standard, noise)",
    "gshm.release(stream, noise)",
    "gshm.release(summed, noise)",
    "laplace.release(stream, noise)",
    "reduced.release(compact, noise)",
    "reduced.release(standard, noise)",
    "pair(CompactSketch, to_pmg)",
    "pair(SummedSketch, to_pmg)",
    "pair(StreamSketch, to_gshm)",
)


def test_a_sketch_cannot_be_handed_to_a_mechanism_that_does_not_cover_it(tmp_path: Path) -> None:
    lines = _HEAD.splitlines()
    snippet = tmp_path / "snippet.py"
    snippet.write_text("\n".join([*lines, *(f"    {call}" for call in (*_ALLOWED, *_REFUSED))]))
    report, _, status = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(snippet)])
    assert status == 1
    errors = [line for line in report.splitlines() if "snippet.py" in line and "error:" in line]
    first = len(lines) + len(_ALLOWED) + 1
    assert [int(line.split(":")[1]) for line in errors] == list(range(first, first + len(_REFUSED)))
    assert all("incompatible type" in line for line in errors)
