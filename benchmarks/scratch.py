"""A temporary folder on the disk of the project, since it is that disk which is measured."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def same_disk() -> Path:
    """The usual place for temporary files if it is on the disk of the project, else the project's own folder."""
    usual = Path(tempfile.gettempdir())
    return usual if usual.stat().st_dev == PROJECT.stat().st_dev else PROJECT


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder, removed after the block."""
    folder = Path(tempfile.mkdtemp(prefix="discreet-bench-", dir=same_disk()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
