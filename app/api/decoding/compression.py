"""Content-Encoding: the body as it was sent -> the body as it was meant, and never more of it than the limit.

The decompressor gets its input in slices so small that what one of them can become is small too: a bomb costs the limit
and one slice's output, then it is refused. Members of gzip and frames of zstd may follow each other.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import zstandard

from app.api.decoding.items import BatchLimits
from app.core.errors import BadBatch
from app.refusals import BodyTooLarge, UnsupportedMediaType

MAX_WINDOW_BYTES = 8 * 1024 * 1024  # of zstd; RFC 9659 asks no more of a receiver, and levels up to 19 keep to it
MAX_FRAMES = 1024  # an empty one takes 9 bytes to send, and far more work to set up
_GZIP_SLICE = 4096  # bytes; deflate makes at most 1032 of one, so 4 MiB of a slice
_ZSTD_SLICE = 128  # bytes; a block of 4 may stand for 128 KiB, so 4 MiB of a slice
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS  # tells zlib to expect a gzip header and trailer, nothing else


class _Decompressor(Protocol):
    """Decompresses one member of gzip or one frame of zstd."""

    def decompress(self, data: bytes, /) -> bytes: ...

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


def decompressed(encoding: str, body: bytes, limits: BatchLimits) -> bytes:
    """The body without its encoding; refused if that is unknown, or the body is damaged or becomes too large."""
    name = encoding.strip().lower()
    if name not in _ENCODINGS:
        raise UnsupportedMediaType("Send Content-Encoding gzip, zstd or identity, and only one of them.")
    chunks: list[bytes] = []
    size = 0
    for chunk in _ENCODINGS[name](body):
        chunks.append(chunk)
        size += len(chunk)
        if size > limits.bytes:
            raise too_large(limits.bytes)
        if chunk is not body:
            limits.admit(2 * len(chunk))  # for the chunk itself, and for its copy when all are joined
    return b"".join(chunks)


def too_large(max_bytes: int) -> BodyTooLarge:
    """The refusal of a body that would pass this limit."""
    return BodyTooLarge(f"A batch may have at most {max_bytes} bytes when decompressed; send several.")


def _unencoded(body: bytes) -> Iterator[bytes]:
    yield body


def _gunzipped(body: bytes) -> Iterator[bytes]:
    try:
        yield from _frames(body, lambda: zlib.decompressobj(wbits=_GZIP_WRAPPER), _GZIP_SLICE)
    except (zlib.error, EOFError):
        raise BadBatch("The body is not whole and valid gzip, or something follows it.") from None


def _unzstd(body: bytes) -> Iterator[bytes]:
    context = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    try:
        yield from _frames(body, context.decompressobj, _ZSTD_SLICE)
    except (zstandard.ZstdError, EOFError):
        raise BadBatch(
            f"The body is not whole and valid zstd with a window of at most {MAX_WINDOW_BYTES // 2**20} MiB, "
            "or something follows it."
        ) from None


_ENCODINGS: dict[str, Callable[[bytes], Iterator[bytes]]] = {
    "": _unencoded,
    "identity": _unencoded,
    "gzip": _gunzipped,
    "x-gzip": _gunzipped,
    "zstd": _unzstd,
}


def _frames(body: bytes, decompressor: Callable[[], _Decompressor], slice_bytes: int) -> Iterator[bytes]:
    """The content of one member or frame after the other, in pieces. EOFError if the last is cut off."""
    at = 0
    for _ in range(MAX_FRAMES):
        frame = decompressor()
        while not frame.eof:
            piece = body[at : at + slice_bytes]
            if not piece:
                raise EOFError
            at += len(piece)
            yield frame.decompress(piece)
        at -= len(frame.unused_data)
        if at == len(body):
            return
    raise BadBatch(f"The body has more than {MAX_FRAMES} compressed parts; compress it as one.")
