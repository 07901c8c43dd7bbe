"""How wrong a released histogram is, and how much of it a release says itself: `python -m benchmarks.accuracy`.

Ours, the version before, the published parameters, older mechanisms and no privacy, side by side. Each part prints its
tables as it goes. A run of all parts writes ACCURACY.md, with every claim beside what was measured, and accuracy.svg.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import bars, budgets, errors, thresholds, times
from benchmarks.report import Part, claims_table, machine, versions

PARTS: dict[str, tuple[str, Callable[..., None]]] = {
    "bars": ("Bars hold, and know the data", bars.run),
    "thresholds": ("Thresholds", thresholds.run),
    "budgets": ("Budgets", budgets.run),
    "errors": ("Errors", errors.run),
    "merged": ("Merged shards", errors.run_merged),
    "times": ("Times", times.run),
}

_HERE = Path(__file__).parent
_PACKAGES = ("numpy", "opendp")


def main() -> None:
    """Run the parts that the command names, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description="How wrong releases are.")
    parser.add_argument("--quick", action="store_true", help="fewer releases, and nothing is written")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all if none is named")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(unknown)}")
    start = time.perf_counter()
    parts = [_run(name, quick=options.quick) for name in options.parts or PARTS]
    print(claims_table(parts))
    if not options.parts and not options.quick:
        (_HERE / "ACCURACY.md").write_text(_report(parts, time.perf_counter() - start))
        (_HERE / "accuracy.svg").write_text("".join(part.picture for part in parts))


def _run(name: str, *, quick: bool) -> Part:
    title, run = PARTS[name]
    part = Part(title)
    run(part, quick=quick)
    return part


def _report(parts: Sequence[Part], seconds: float) -> str:
    blocks = [
        "# Accuracy",
        f"{datetime.now(UTC):%Y-%m-%d}, by `make bench-accuracy` in {seconds / 60:.0f} minutes. "
        f"{machine()} {versions(_PACKAGES)}",
        "*Before* is the version before: without a sketch's own error in a release, with noise that no two keys of a "
        "merged sketch share. *Published* are the parameters that the paper gives.",
        "![Largest error of each mechanism](accuracy.svg)",
        "## What must show",
        claims_table(parts),
    ]
    for part in parts:
        blocks += [f"## {part.title}", *part.blocks]
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    main()
