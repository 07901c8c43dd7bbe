"""Content-Encoding: what is taken, what is not whole, and what would burst."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from time import process_time

import pytest
import zstandard

from app.api.decoding.compression import MAX_FRAMES
from app.core.errors import BadBatch
from app.refusals import BodyTooLarge, UnsupportedMediaType
from tests.api.decoding.bodies import ENCODERS, LINES, decoded

_PACKED = ["gzip", "zstd"]


@pytest.mark.parametrize(
    ("name", "encoder"), [("GZip", "gzip"), ("x-gzip", "gzip"), (" ZSTD ", "zstd"), ("Identity", "")]
)
def test_names_of_encodings_are_read_as_http_has_them(name: str, encoder: str) -> None:
    assert decoded(LINES, ENCODERS[encoder](b"a\nb"), name) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("name", ["br", "deflate", "gzip, zstd", "gzip,gzip", "identity, gzip", "gzip,", "*"])
def test_other_encodings_are_refused_with_those_that_are_taken(name: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="gzip, zstd or identity"):
        decoded(LINES, b"a", name)


@pytest.mark.parametrize("encoding", _PACKED)
def test_compressed_parts_may_follow_each_other(encoding: str) -> None:
    parts = [ENCODERS[encoding](part) for part in (b"a\nb", b"", b"c\n", b"x" * 5000 + b"\nd")]
    with pytest.raises(BadBatch, match="Item 2: a key has 1 to 512 bytes"):
        decoded(LINES, b"".join(parts), encoding)
    assert decoded(LINES, b"".join(parts[:3]), encoding) == [("a", 1), ("bc", 1)]


@pytest.mark.parametrize("encoding", _PACKED)
def test_very_many_parts_are_refused(encoding: str) -> None:
    part = ENCODERS[encoding](b"")
    assert decoded(LINES, part * MAX_FRAMES, encoding) == []
    with pytest.raises(BadBatch, match="compress it as one"):
        decoded(LINES, part * (MAX_FRAMES + 1), encoding)


@pytest.mark.parametrize("encoding", _PACKED)
def test_what_is_cut_off_or_followed_by_something_is_refused(encoding: str) -> None:
    packed = ENCODERS[encoding](b"a\n" * 100 + b"end")
    broken = [packed[:length] for length in range(len(packed))]
    broken += [packed + b"\0", packed + b"garbage", packed + packed[:-1], b"\0" + packed, packed[::-1]]
    for body in broken:
        with pytest.raises(BadBatch, match=f"not whole and valid {encoding}"):
            decoded(LINES, body, encoding)


def test_a_wrong_checksum_is_refused() -> None:
    packed = bytearray(gzip.compress(b"a\nb\n"))
    packed[-8] ^= 1
    with pytest.raises(BadBatch, match="not whole and valid gzip"):
        decoded(LINES, bytes(packed), "gzip")
    packed = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(b"a\nb\n"))
    packed[-1] ^= 1
    with pytest.raises(BadBatch, match="not whole and valid zstd"):
        decoded(LINES, bytes(packed), "zstd")


def test_a_zstd_window_over_8_mib_is_refused_and_the_answer_says_so() -> None:
    for log, is_fine in ((23, True), (24, False)):
        parameters = zstandard.ZstdCompressionParameters(window_log=log)
        stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()  # of unknown length
        body = stream.compress(b"a\nb\n") + stream.flush()
        if is_fine:
            assert decoded(LINES, body, "zstd") == [("a", 1), ("b", 1)]
        else:
            with pytest.raises(BadBatch, match="a window of at most 8 MiB"):
                decoded(LINES, body, "zstd")


@pytest.mark.parametrize("encoding", ENCODERS)
def test_the_limit_holds_for_the_decompressed_body_to_the_byte(encoding: str) -> None:
    body = ENCODERS[encoding](b"a" * 499 + b"\n" + b"b" * 500)
    assert len(decoded(LINES, body, encoding, max_bytes=1000)) == 2
    with pytest.raises(BodyTooLarge, match="at most 999 bytes"):
        decoded(LINES, body, encoding, max_bytes=999)


def _gzip_bomb() -> bytes:
    """10 GB of zeros in 10 MB: each part was flushed, so that it can be repeated."""
    stream = zlib.compressobj(9, wbits=31)
    head = stream.compress(b"") + stream.flush(zlib.Z_FULL_FLUSH)
    part = stream.compress(bytes(2**24)) + stream.flush(zlib.Z_FULL_FLUSH)
    return head + part * 640


def _zstd_bomb(blocks: int) -> bytes:
    """Blocks of 4 bytes, each of which says: 128 KiB of one byte."""
    block = ((2**17 << 3) | 1 << 1).to_bytes(3, "little") + b"a"
    return b"\x28\xb5\x2f\xfd\x00\x58" + block * blocks


@pytest.mark.parametrize(
    ("encoding", "bomb"),
    [
        ("gzip", _gzip_bomb),
        ("gzip", lambda: _gzip_bomb()[:16_384]),
        ("zstd", lambda: _zstd_bomb(80_000)),
        ("zstd", lambda: _zstd_bomb(4_000)),
        ("zstd", lambda: zstandard.compress(bytes(2**27))),
    ],
    ids=["gzip-10GB", "gzip-16KiB", "zstd-10GB", "zstd-16KiB", "zstd-real"],
)
def test_a_bomb_costs_the_limit_and_one_slice(encoding: str, bomb: Callable[[], bytes]) -> None:
    body, limit = bomb(), 2_000_000
    started = process_time()
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge, match="when decompressed"):
            decoded(LINES, body, encoding, max_bytes=limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit + 10 * 2**20
    assert process_time() - started < 2
