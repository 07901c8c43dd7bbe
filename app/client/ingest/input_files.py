"""Files to send: opened, decompressed, and read once from front to back, so that pipes will do."""

import gzip
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from app.client.failures import Misuse

STDIN = "-"
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_BUFFER, _CHUNK = 1 << 20, 1 << 16


@dataclass(frozen=True, slots=True)
class InputFile:
    """An open file, or standard input, with its content decompressed."""

    name: str
    bytes: io.BufferedReader  # decompressed
    is_compressed: bool
    size: int | None  # in bytes on the disk, compressed or not; None of a pipe
    _file: io.BufferedReader

    @property
    def share_read(self) -> float | None:
        """How much of the file has been read, from 0 to 1; None of a pipe."""
        return self._file.raw.tell() / self.size if self.size else None

    @property
    def suffix(self) -> str:
        """How the name ends, such as `.csv`, with `.gz` or `.zst` taken off first."""
        return Path(self.name.removesuffix(".gz").removesuffix(".zst")).suffix.lower()


@contextmanager
def open_input(name: str) -> Iterator[InputFile]:
    """Open a file, or standard input for `-`, and close it after the block."""
    try:
        file = _open(name)
    except OSError as error:
        raise Misuse(f"{name} cannot be read: {error.strerror}.") from None
    with file:
        status = os.fstat(file.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        with _decompressed(file) as content:
            yield InputFile(shown_name(name), content, content is not file, size, file)


def _open(name: str) -> io.BufferedReader:
    file = sys.stdin.fileno() if name == STDIN else name
    return cast(io.BufferedReader, open(file, "rb", _BUFFER, closefd=name != STDIN))


def shown_name(name: str) -> str:
    """What a file is called in messages."""
    return "standard input" if name == STDIN else name


@contextmanager
def _decompressed(file: io.BufferedReader) -> Iterator[io.BufferedReader]:
    """Decide by the first bytes, not by the name, since a pipe has no name."""
    first = file.peek(4)[:4]
    if first.startswith(_GZIP):
        with gzip.GzipFile(fileobj=file) as content:
            yield io.BufferedReader(cast(io.RawIOBase, content), _BUFFER)
    elif first == _ZSTD:
        yield io.BufferedReader(_Zstandard(file), _BUFFER)
    else:
        yield file


class _Zstandard(io.RawIOBase):
    """Decompresses frame by frame, because the library's own reader takes a file that was cut short for a whole one."""

    def __init__(self, compressed: io.BufferedReader) -> None:
        import zstandard  # here, so that other commands start without it

        self._compressed = compressed
        self._frames = zstandard.ZstdDecompressor()
        self._bad = zstandard.ZstdError
        self._frame: Any = None
        self._left = b""  # compressed bytes that were read but belong to the next frame
        self._ready = b""  # decompressed bytes that nobody has taken yet

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and self._fill():
            pass
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _fill(self) -> bool:
        chunk = self._left or self._compressed.read1(_CHUNK)
        if not chunk:
            if self._frame is not None:
                raise EOFError("the last frame is not whole")
            return False
        self._frame = self._frame or self._frames.decompressobj()
        try:
            self._ready = self._frame.decompress(chunk)
        except self._bad:
            raise EOFError("it is not Zstandard throughout") from None
        self._left = self._frame.unused_data
        if self._frame.eof:
            self._frame = None
        return True


def identity(name: str) -> str | None:
    """What tells this file, as it is now, from any other: path, size and time of change. None of a pipe."""
    if name == STDIN:
        return None
    try:
        status = os.stat(name)
    except OSError as error:
        raise Misuse(f"{name} cannot be read: {error.strerror}.") from None
    return f"{Path(name).resolve()}\0{status.st_size}\0{status.st_mtime_ns}" if stat.S_ISREG(status.st_mode) else None
