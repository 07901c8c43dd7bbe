"""A folder that is gone afterwards, on the disk of the project: what is measured there is that disk."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def same_disk() -> Path:
    """The usual place for temporary files where it is on the disk of the project, else the project itself."""
    usual = Path(tempfile.gettempdir())
    return usual if usual.stat().st_dev == PROJECT.stat().st_dev else PROJECT


@contextmanager
def scratch_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="discreet-bench-", dir=same_disk()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
