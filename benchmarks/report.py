"""What a part of the benchmark found, and RESULTS.md, which sets every claim beside what was measured."""

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.markdown import number, table

NOT_INSTALLED = "not installed"

_PACKAGES = ("numpy", "datasketches", "duckdb", "chdb", "orjson", "msgspec", "uvicorn", "uvloop", "psycopg")


@dataclass(frozen=True, slots=True)
class Claim:
    """A ratio, or a number of `unit`, and its bound. `measured` is None if a peer is missing or was left out."""

    words: str
    measured: float | None
    at_least: float | None = None
    at_most: float | None = None
    unit: str = "×"

    @property
    def needed(self) -> str:
        """The bound in words."""
        if self.at_least is not None:
            return f"at least {self.at_least:g} {self.unit}"
        return f"at most {self.at_most:g} {self.unit}" if self.at_most is not None else "–"

    @property
    def holds(self) -> str:
        """Whether the bound is kept, in words."""
        if self.measured is None:
            return "not measured"
        if self.at_least is None and self.at_most is None:
            return "no bound"
        low, high = self.at_least or 0, self.at_most or float("inf")
        return "yes" if low <= self.measured <= high else "NO"

    def row(self) -> list[str]:
        """The cells of the claim in a table."""
        measured = "–" if self.measured is None else f"{number(self.measured)} {self.unit}"
        return [self.words, measured, self.needed, self.holds]


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of the plot."""

    panel: str
    name: str
    points: list[tuple[float, float]]


@dataclass(slots=True)
class Part:
    """The findings of one part, printed as they come, so that a run that breaks off has shown what it found."""

    title: str
    blocks: list[str] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    picture: str = ""  # a plot of its own, as SVG

    def __post_init__(self) -> None:
        print(f"## {self.title}\n", flush=True)

    def say(self, words: str) -> None:
        """Add a paragraph."""
        self.blocks.append(words)
        print(f"{words}\n", flush=True)

    def show(self, head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> None:
        """Add a table."""
        self.say(table(head, rows, words=words) if rows else "Nothing was measured.")

    def claim(self, claim: Claim) -> None:
        """Add a claim."""
        self.claims.append(claim)
        print(" | ".join(claim.row()), flush=True)


def claims_table(parts: Iterable[Part]) -> str:
    """All claims of the parts in one table."""
    rows = [claim.row() for part in parts for claim in part.claims]
    return table(["claim", "measured", "needed", "holds"], rows, words=1) if rows else "No claim was measured."


def results(parts: Sequence[Part], seconds: float, *, quick: bool) -> str:
    """The text of RESULTS.md."""
    blocks = [
        "# Results",
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, by `make bench`{' with `--quick`' if quick else ''} in "
        f"{seconds / 60:.0f} minutes. {machine()} {versions()}",
        "Medians of five rounds; in each round every contender runs once. A ratio of two contenders is the median of "
        "their ratios within the rounds. The streams are seeded and have keys of 16 bytes.",
        "![Cost per event](ingest.svg)",
        "## What must show",
        claims_table(parts),
    ]
    for part in parts:
        blocks += [f"## {part.title}", *part.blocks]
    return "\n\n".join(blocks) + "\n"


def machine() -> str:
    """The machine in a sentence."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {_processor()}, {memory:.0f} GiB, {platform.system()} {platform.release()}."


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{named[0]} ({platform.machine()})" if named else platform.machine()


def versions(packages: Sequence[str] = _PACKAGES) -> str:
    """The versions of Python and of the packages that take part, in a sentence."""
    found = [f"{name} {_version(name)}" for name in packages]
    return f"Python {platform.python_version()}; {', '.join(found)}."


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return NOT_INSTALLED
