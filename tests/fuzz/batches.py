"""Requests that post events: of every content type and encoding, as they should be, and wrong in every way we know of.

Each is made from one number, so that one that goes wrong can be made again.
"""

import gzip
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa
import zstandard

from tests.api.decoding.bodies import (
    ARROW,
    CSV,
    JSON,
    LINES,
    NDJSON,
    PARQUET,
    WRITERS,
    Events,
    arrow,
    parquet,
    table,
)
from tests.fuzz import bodies
from tests.fuzz.damage import damaged

MAX_ITEMS = 1000
MAX_BYTES = 2**20

_BOMB_BYTES = 4 * MAX_BYTES
_DICTIONARY = pa.dictionary(pa.int16(), pa.string())
_Writer = Callable[[Events, Sequence[str]], bytes]
_WRITERS: dict[str, list[_Writer]] = {
    content_type: [lambda events, users, write=write: write(events, users)]  # type: ignore[misc]  # binds each
    for content_type, write in WRITERS.items()
}
_WRITERS[PARQUET] += [
    lambda events, users: parquet(table(events, users=users), compression="zstd", data_page_version="2.0"),
    lambda events, users: parquet(table(events, users=users), use_dictionary=False, compression="none"),
    lambda events, users: parquet(table(events, users=users), compression="gzip", row_group_size=3),
]
_WRITERS[ARROW] += [
    lambda events, users: arrow(table(events, pa.string_view(), users), rows_each=3),
    lambda events, users: arrow(table(events, pa.large_string(), users)),
    lambda events, users: arrow(table(events, _DICTIONARY, users), compression="zstd", rows_each=7),
]
_TEXTS = {JSON: bodies.json_body, NDJSON: bodies.ndjson_body, LINES: bodies.lines_body}
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": lambda body: gzip.compress(body, 1, mtime=0),
    "x-gzip": lambda body: gzip.compress(body[:40], 1, mtime=0) + gzip.compress(body[40:], 1, mtime=0),
    "zstd": zstandard.compress,
}
_PIECES = (
    *bodies.PIECES,
    *(bytes(4), bytes(8), b"\xff" * 4, b"\xff" * 8, b"PAR1", b"ARROW1", b"\xff\xff\xff\xff\x00\x00\x00\x00"),
    *(b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b'"a","1"\r\n', b"key,count\n", struct.pack("<q", -1), b"\x15\x00"),
)


@dataclass(frozen=True)
class Request:
    content_type: str
    encoding: str
    body: bytes
    kind: str  # how it was made, for the figures
    is_valid: bool = False  # as it should be, so it must be counted


def request_of(number: int) -> Request:
    rng = Random(number)
    make = rng.choices([how for how, _ in _KINDS], [weight for _, weight in _KINDS])[0]
    return make(rng)


# As they should be


def _valid(rng: Random) -> Request:
    content_type = rng.choice(list(_WRITERS))
    events = _events(rng, content_type)
    users = [f"u{rng.randrange(9)}" for _ in events] if rng.random() < 0.2 and content_type != LINES else []
    encoding = rng.choice(list(ENCODERS))
    body = ENCODERS[encoding](rng.choice(_WRITERS[content_type])(events, users))
    return Request(content_type, encoding, body, "as it should be", is_valid=True)


def _events(rng: Random, content_type: str) -> Events:
    """With keys that every form can hold, at most `MAX_ITEMS` of them."""
    most = rng.choice((0, 1, 2, 3, 10, 30, 30, 100 if rng.random() < 0.1 else 5))
    texts = [bodies.key(rng) for _ in range(most)]
    good = [text for text in texts if len(text.encode()) <= 512]
    if content_type == LINES:
        return [(text, 1) for text in good if "\n" not in text and not text.endswith("\r")]
    return [(text, bodies.count(rng)) for text in good]


def _text(rng: Random) -> Request:
    """With white space, escapes and whatever else JSON allows; now and then a key that is none."""
    content_type = rng.choice(list(_TEXTS))
    return Request(content_type, "", _TEXTS[content_type](rng), "as a strange client writes it")


# Wrong


def _damaged_inside(rng: Random) -> Request:
    content_type, encoding = rng.choice(list(_WRITERS)), rng.choice(list(ENCODERS))
    plain = rng.choice(_WRITERS[content_type])(_events(rng, content_type), [])
    within = rng.choice((0, 0, 64))
    return Request(content_type, encoding, ENCODERS[encoding](damaged(rng, plain, _PIECES, within)), "damaged inside")


def _damaged_outside(rng: Random) -> Request:
    made = _valid(rng)
    return _wrong(made, damaged(rng, made.body, _PIECES, rng.choice((0, 0, 32))), "damaged outside")


def _cut(rng: Random) -> Request:
    made = _valid(rng)
    return _wrong(made, made.body[: rng.randrange(len(made.body) + 1)], "cut off")


def _spliced(rng: Random) -> Request:
    made, other = _valid(rng), _valid(rng)
    head, tail = rng.randrange(len(made.body) + 1), rng.randrange(len(other.body) + 1)
    return _wrong(made, made.body[:head] + other.body[tail:], "spliced of two")


def _doubled(rng: Random) -> Request:
    made = _valid(rng)
    return _wrong(made, made.body + made.body, "sent twice in one")


def _wrong_type(rng: Random) -> Request:
    strange = ("", "application/octet-stream", "text/html", "application/json; charset=latin-1", "*/*", "é", "a" * 3000)
    other = rng.choice((*_WRITERS, *strange))
    return replace(_valid(rng), content_type=other, kind="of another type than it says", is_valid=False)


def _wrong_encoding(rng: Random) -> Request:
    strange = ("br", "deflate", "gzip, zstd", "gzip, gzip", "compress", "\xff", "utf-8", "zstd;q=1")
    other = rng.choice((*ENCODERS, *strange))
    return replace(_valid(rng), encoding=other, kind="of another encoding than it says", is_valid=False)


def _wrong(made: Request, body: bytes, kind: str) -> Request:
    return replace(made, body=body, kind=kind, is_valid=False)


def _random(rng: Random) -> Request:
    length = rng.choice((0, 1, 2, 9, 100, 5000))
    return Request(rng.choice(list(_WRITERS)), rng.choice(list(ENCODERS)), rng.randbytes(length), "random bytes")


def _strange(rng: Random) -> Request:
    deep = rng.choice((10, 500, 5000, 100_000))
    huge = rng.choice((0, -1, 2**31 - 1, 2**31, 2**63, 2**64, 10**30, 10**5000, 1.5, 1e308, True, None, "1"))
    written = json.dumps({"key": "a", "count": huge}) if huge != 10**5000 else '{"key":"a","count":1' + "0" * 5000 + "}"
    many = MAX_ITEMS + rng.choice((-1, 0, 1, 5000))
    content_type, text = rng.choice(
        [
            (JSON, "[" * deep),
            (JSON, '{"events":' + "[" * deep + "]" * deep + "}"),
            (JSON, '{"events":[' + '{"key":' * deep + '"a"' + "}" * deep + "]}"),
            (JSON, '{"events":[' + written + "]}"),
            (NDJSON, written + "\n" + written),
            (NDJSON, '{"key":' * deep + "\n"),
            (CSV, f'"key","count"\r\n"a","{huge}"\r\n' if huge != 10**5000 else "key\n" + "a," * deep),
            (CSV, "key\n" + '"' * deep),
            (CSV, "key\n" + "a\n" * many),
            (LINES, "a\n" * many),
            (LINES, "\n" * many),
            (LINES, "\0\n\ufeff\n\u2028\n"),
            (JSON, '{"events":[' + ",".join(['"a"'] * many) + "]}"),
            (JSON, '{"events":[' + ",".join(["{}"] * many * 9) + "]}"),
            (JSON, '{"events":[],"events":["a"]}'),
            (JSON, '{"users":[["a"]]}'),
            (JSON, '{"events":["\\ud800"]}'),
        ]
    )
    encoding = rng.choice(list(ENCODERS))
    return Request(content_type, encoding, ENCODERS[encoding](text.encode()), "strange")


def _bomb(rng: Random) -> Request:
    """Little that becomes much."""
    unit = rng.choice((b"\0", b"a\n", b'"a",', b"{},", b"[", b"\n"))
    swollen = unit * (_BOMB_BYTES // len(unit))
    content_type = rng.choice(list(_WRITERS))
    match rng.randrange(4):
        case 0:
            return Request(content_type, "gzip", gzip.compress(swollen, 6, mtime=0), "bomb")
        case 1:
            return Request(content_type, "zstd", zstandard.compress(swollen), "bomb")
        case 2:
            return Request(content_type, "gzip", gzip.compress(b"", 1, mtime=0) * 1100, "bomb")
        case _:
            rows: Any = pa.table({"key": pa.array(["a" * 500] * (_BOMB_BYTES // 500))})
            return (
                Request(PARQUET, "", parquet(rows, compression="zstd", use_dictionary=rng.random() < 0.5), "bomb")
                if rng.random() < 0.5
                else Request(ARROW, "", arrow(rows, compression="zstd"), "bomb")
            )


_KINDS: list[tuple[Callable[[Random], Request], float]] = [
    (_valid, 25),
    (_text, 8),
    (_damaged_inside, 26),
    (_damaged_outside, 13),
    (_cut, 5),
    (_spliced, 5),
    (_doubled, 3),
    (_wrong_type, 4),
    (_wrong_encoding, 4),
    (_random, 2),
    (_strange, 4),
    (_bomb, 1),
]
