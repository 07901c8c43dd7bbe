"""The ingest benchmark: `python -m benchmarks.ingest [--quick] [part …]`.

Each part prints its tables as it goes. A run of all parts also writes RESULTS.md and ingest.svg. A part that fails is
reported and the others go on.
"""

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from benchmarks import commits, folds, memory, people, requests, scaling
from benchmarks.lines import Panel, picture
from benchmarks.report import Part, claims_table, machine, results, versions

PARTS: dict[str, tuple[str, Callable[..., None]]] = {
    "fold": ("Folding, beside the peers", folds.run),
    "scaling": ("Cost per event against n and k", scaling.run),
    "http": ("HTTP, one worker", requests.run),
    "commits": ("Commits", commits.run),
    "memory": ("Memory", memory.run),
    "people": ("Counting people", people.run),
}

_HERE = Path(__file__).parent


def main() -> None:
    """Run the parts that the command names, or all of them."""
    parser = _parser()
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that servers and folders go with us
    start = time.perf_counter()
    print(f"{machine()}\n{versions()}\n", flush=True)
    names = options.parts or list(PARTS)
    parts = [_run(name, quick=options.quick) for name in names]
    print(claims_table(parts))
    if set(names) == set(PARTS):
        (_HERE / "RESULTS.md").write_text(results(parts, time.perf_counter() - start, quick=options.quick))
        (_HERE / "ingest.svg").write_text(_picture(parts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description="Ingest, beside its peers.")
    parser.add_argument("--quick", action="store_true", help="shorter streams and windows")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all if none is named")
    return parser


def _run(name: str, *, quick: bool) -> Part:
    title, run = PARTS[name]
    part = Part(title)
    try:
        run(part, quick=quick)
    except Exception as error:  # what was measured stays, and the parts that follow are worth having
        traceback.print_exc()
        part.say(f"**Broke off**: {type(error).__name__}: {error}")
    return part


def _picture(parts: list[Part]) -> str:
    panels: dict[str, Panel] = {}
    for part in parts:
        for curve in part.curves:
            panels.setdefault(curve.panel, Panel(curve.panel, {})).curves[curve.name] = curve.points
    return picture("Cost of an event", "time per event; both axes logarithmic, less is better", panels.values())


if __name__ == "__main__":
    main()
