"""Which kernel runs: the compiled one where there is a compiler, its twin where not, and both do the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.core import kernel
from app.core.sketches.compact import CompactSketch
from app.core.sketches.order import Order
from app.core.sketches.state import decode, encode
from app.core.sketches.stream import StreamSketch

ROOT = Path(__file__).resolve().parents[3]
ORDER = Order(bytes(range(16)))
PEOPLE: list[tuple[str | None, list[str]]] = [("u", ["a", "b", "a", "c"]), (None, ["b"]), ("é", ["c", "d", "e"])]
EVENTS = [("a", 3), ("é\0", 2**31 - 1), ("x" * 512, 1), ("b", 2), ("c", 2), ("a", 1)]

WITHOUT_COMPILED_MODULES = f"""
import sys
sys.modules["app.core.kernel.scanning"] = sys.modules["app.core.kernel.folding"] = None
from app.core import kernel
from app.core.sketches.order import Order
from app.core.sketches.state import encode
from app.core.sketches.stream import StreamSketch

assert kernel.NATIVE is False
events = {EVENTS!r}
batch = kernel.batch_of(events)
assert (batch.pairs(), len(batch), batch.events) == (events, 6, {sum(count for _, count in EVENTS)})
people = {PEOPLE!r}
sets = kernel.sets_of(people, 2)
assert (list(zip(sets.users(), sets.keys())), len(sets), sets.events) == (people, 3, 3)
for scan in (kernel.scan_json, kernel.scan_ndjson, kernel.scan_lines):
    assert scan(b'"a"', 5) is None
for scan in (kernel.scan_json_sets, kernel.scan_ndjson_sets):
    assert scan(b'["a"]', 5, 2) is None
stream, compact = (kernel.Fold(bytes.fromhex(state)) for state in sys.argv[1:])
stream.add(batch)
stream.add(batch)
compact.add(batch, sets)
assert stream.nbytes > 0 and compact.nbytes > 0
sys.stdout.write(stream.state().hex() + " " + compact.state().hex())
"""


def test_continuous_integration_runs_the_compiled_kernel() -> None:
    """Its tests would otherwise be skipped in silence."""
    if not os.environ.get("CI"):
        pytest.skip("CI is not set; a machine without a compiler may run the twin")
    assert kernel.NATIVE


def test_the_twin_takes_over_where_nothing_was_compiled() -> None:
    empty, nobody = encode(StreamSketch.empty(3, ORDER)), encode(CompactSketch.empty(3))
    command = [sys.executable, "-c", WITHOUT_COMPILED_MODULES, empty.hex(), nobody.hex()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    stream, compact = (decode(bytes.fromhex(state)) for state in done.stdout.split())
    fold = kernel.Fold(empty)
    fold.add(kernel.batch_of(EVENTS))
    fold.add(kernel.batch_of(EVENTS))
    assert stream == decode(fold.state()) == StreamSketch.empty(3, ORDER).extended(EVENTS).extended(EVENTS)
    fold = kernel.Fold(nobody)
    fold.add(kernel.batch_of(EVENTS), kernel.sets_of(PEOPLE, 2))
    folded = CompactSketch.empty(3).extended(EVENTS).extended_by_people(["ab", "b", "cd"])
    assert compact == decode(fold.state()) == folded
