"""Files to be read once, from front to back: opened, decompressed, with how far we are."""

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
class Source:
    name: str
    bytes: io.BufferedReader  # decompressed
    packed: bool
    size: int | None  # of the file as it lies there
    _file: io.BufferedReader

    @property
    def share(self) -> float | None:
        """How much of the file has been read; unknown of a pipe."""
        return self._file.raw.tell() / self.size if self.size else None

    @property
    def suffix(self) -> str:
        """Of the name, without that of the compression."""
        return Path(self.name.removesuffix(".gz").removesuffix(".zst")).suffix.lower()


@contextmanager
def opened(name: str) -> Iterator[Source]:
    try:
        plain = _file(name)
    except OSError as error:
        raise Misuse(f"{name} cannot be read: {error.strerror}.") from None
    with plain:
        status = os.fstat(plain.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        with _unpacked(plain) as unpacked:
            yield Source("standard input" if name == STDIN else name, unpacked, unpacked is not plain, size, plain)


def _file(name: str) -> io.BufferedReader:
    file = sys.stdin.fileno() if name == STDIN else name
    return cast(io.BufferedReader, open(file, "rb", _BUFFER, closefd=name != STDIN))


@contextmanager
def _unpacked(plain: io.BufferedReader) -> Iterator[io.BufferedReader]:
    """By the first bytes, not by the name: a pipe has none."""
    first = plain.peek(4)[:4]
    if first.startswith(_GZIP):
        with gzip.GzipFile(fileobj=plain) as unpacked:
            yield io.BufferedReader(cast(io.RawIOBase, unpacked), _BUFFER)
    elif first == _ZSTD:
        yield io.BufferedReader(_Zstandard(plain), _BUFFER)
    else:
        yield plain


class _Zstandard(io.RawIOBase):
    """One frame after the other. The library's own reader takes a file that was cut short for a whole one."""

    def __init__(self, packed: io.BufferedReader) -> None:
        import zstandard  # here, so that other commands start without it

        self._packed = packed
        self._frames = zstandard.ZstdDecompressor()
        self._bad = zstandard.ZstdError
        self._frame: Any = None
        self._left = b""  # packed bytes after the frame
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and self._fill():
            pass
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _fill(self) -> bool:
        chunk = self._left or self._packed.read1(_CHUNK)
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
    """What tells this file, as it is now, from others; None where there is no such thing."""
    if name == STDIN:
        return None
    try:
        status = os.stat(name)
    except OSError as error:
        raise Misuse(f"{name} cannot be read: {error.strerror}.") from None
    return f"{Path(name).resolve()}\0{status.st_size}\0{status.st_mtime_ns}" if stat.S_ISREG(status.st_mode) else None
