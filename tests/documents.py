"""The documents, taken apart: pages, their headings, links and blocks. What stands in `sh` blocks runs as it is."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True)
class Document:
    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def words(self) -> str:
        """The text without its line breaks, so that a sentence is found wherever it is broken."""
        return " ".join(self.text.split())

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def headings(self) -> list[str]:
        return re.findall(r"^#+ (.*)$", _FENCED.sub("", self.text), re.MULTILINE)

    def anchors(self) -> set[str]:
        """As GitHub makes them."""
        return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in self.headings()}

    def links(self) -> list[str]:
        """Where links and pictures lead that stand outside of code."""
        return re.findall(r"\]\(([^)\s]+)\)", _INLINE.sub("", _FENCED.sub("", self.text)))


def document(name: str) -> Document:
    path = ROOT / name
    return Document(path, path.read_text())


README = document("README.md")
PAGES = [document(path.relative_to(ROOT).as_posix()) for path in sorted((ROOT / "docs").rglob("*.md"))]
ALL = [README, *(document(f"{name}.md") for name in ("CONTRIBUTING", "SECURITY", "CHANGELOG")), *PAGES]
NOTES = [
    document(path.relative_to(ROOT).as_posix())
    for folder in ("app", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.md"))
]


def demonstration() -> list[str]:
    """The lines of `make demo` that are the same each time. Private counts and the pages of the long tail are not."""
    varying = re.compile(r"\$|Sent|/[^ ]* .*\d$|…|├─┤")
    return [line for line in README.blocks("")[0].splitlines() if not varying.match(line)]


def run(
    commands: str, folder: Path, *, tools: tuple[Path, ...] = (), check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """In a shell that finds what `make setup` installed, as a stranger's does after the `export PATH` of a page."""
    path = os.pathsep.join(str(each) for each in (Path(sys.prefix) / "bin", *tools, os.environ["PATH"]))
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        env={**surroundings, "PATH": path, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=check,
        timeout=300,
    )
