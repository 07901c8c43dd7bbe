"""The README, taken apart: its sections, and the blocks in them. What stands in `sh` blocks runs as it is."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def section(title: str) -> str:
    """The text under a heading, up to the next."""
    return re.split(r"^## ", README.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def demonstration() -> list[str]:
    """The lines of `make demo` that are the same each time. Private counts and the pages of the long tail are not."""
    varying = re.compile(r"\$|Sent|/[^ ]* .*\d$|…|├─┤")
    return [line for line in blocks(README, "")[0].splitlines() if not varying.match(line)]


def run(
    commands: str, folder: Path, *, tools: tuple[Path, ...] = (), check: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """In a shell that finds what `make setup` installed, as a stranger's does after the README's `export PATH`."""
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
