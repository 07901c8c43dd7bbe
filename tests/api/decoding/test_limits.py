"""What a small body could become in memory: it is refused before it does, also inside Parquet and Arrow."""

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pyarrow as pa
import pytest

from app.core.errors import BadBatch, Refusal
from app.refusals import BodyTooLarge
from tests.api.decoding.bodies import (
    ARROW,
    CSV,
    JSON,
    NDJSON,
    PARQUET,
    SET_WRITERS,
    arrow,
    decoded,
    decoded_sets,
    parquet,
)

_ROOT = Path(__file__).parents[3]
_LONG = "x" * 900_000
_NUMBERED = pa.dictionary(pa.int8(), pa.string())


def _views(rows: int, text: str = _LONG) -> Any:
    """As many views of one long text."""
    view = len(text).to_bytes(4, "little") + b"xxxx" + bytes(8)
    buffers = [None, pa.py_buffer(view * rows), pa.py_buffer(text.encode())]
    return pa.Array.from_buffers(pa.string_view(), rows, buffers)


def _repeated(rows: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([_LONG]))


def _keys(keys: Any) -> Any:
    return pa.table({"key": keys})


def _users(users: Any, keys: Any = None) -> Any:
    return pa.table({"user": users, "key": keys or ["a"] * len(users)})


def _sets(keys: list[list[str]], kind: Any = None) -> Any:
    return pa.table({"keys": pa.array(keys, pa.list_(kind or pa.string()))})


def _listed(keys: Any, each: int) -> Any:
    """Sets of so many of the keys."""
    return pa.table({"keys": pa.ListArray.from_arrays(pa.array(range(0, len(keys) + 1, each), pa.int32()), keys)})


def _forged(declared: int) -> bytes:
    """An Arrow stream whose compressed text says that it is of another length than it is."""
    body = arrow(_keys([_LONG]), compression="zstd")
    before, _, after = body.rpartition(len(_LONG).to_bytes(8, "little"))
    return before + declared.to_bytes(8, "little", signed=True) + after


@pytest.fixture(scope="module")
def bombs() -> dict[str, tuple[str, bytes]]:
    huge = _keys(["x" * 40_000_000])
    return {
        "parquet-page": (PARQUET, parquet(huge, compression="zstd", use_dictionary=False, write_statistics=False)),
        "parquet-dictionary-page": (PARQUET, parquet(huge, compression="zstd", write_statistics=False)),
        "parquet-one-value-again-and-again": (PARQUET, parquet(_keys(_repeated(1000)))),
        "arrow-batch": (ARROW, arrow(huge, compression="zstd")),
        "arrow-forged": (ARROW, _forged(2**33)),
        "arrow-forged-further": (ARROW, _forged(2**62)),
        "arrow-forged-below-zero": (ARROW, _forged(-(2**40))),
        "arrow-dictionary": (ARROW, arrow(_keys(pa.array(["x" * 40_000_000]).dictionary_encode()), compression="zstd")),
        "arrow-one-value-again-and-again": (ARROW, arrow(_keys(_repeated(1000)))),
        "arrow-views-of-one-text": (ARROW, arrow(_keys(_views(1000)))),
        "arrow-views-in-many-batches": (ARROW, arrow(_keys(pa.chunked_array([_views(31, "x" * 30_000)] * 32)))),
        "arrow-users-again-and-again": (ARROW, arrow(_users(_repeated(1000)))),
        "arrow-views-of-keys-and-users": (ARROW, arrow(_users(_views(18, "x" * 30_000), _views(18, "x" * 30_000)))),
        "parquet-users-again-and-again": (PARQUET, parquet(_users(_repeated(1000)))),
        "parquet-page-of-users": (PARQUET, parquet(_users(pa.array(["x" * 2_000_000])), compression="zstd")),
        "parquet-sets-page": (PARQUET, parquet(_listed(pa.array(["x" * 40_000_000]), 1), compression="zstd")),
        "parquet-sets-of-one-value": (PARQUET, parquet(_listed(_repeated(1000), 10))),
        "arrow-sets-batch": (ARROW, arrow(_listed(pa.array(["x" * 40_000_000]), 1), compression="zstd")),
        "arrow-sets-of-one-value": (ARROW, arrow(_listed(_repeated(1000), 10))),
        "arrow-sets-of-views": (ARROW, arrow(_listed(_views(1000), 10))),
        "arrow-sets-of-views-in-many-batches": (ARROW, arrow(_listed(_views(992, "x" * 30_000), 31), rows_each=1)),
        "arrow-metadata": (ARROW, arrow(_keys(["a"]).replace_schema_metadata({"m": "x" * 100_000}))),
    }


def _refusal(name: str, content_type: str, body: bytes) -> str:
    decode: Any = decoded_sets if "sets" in name else decoded
    with pytest.raises(Refusal) as refusal:
        decode(content_type, body)
    return str(refusal.value)


def test_tables_that_would_grow_are_refused_for_what_they_declare(bombs: dict[str, tuple[str, bytes]]) -> None:
    sentences = {name: _refusal(name, content_type, body) for name, (content_type, body) in bombs.items()}
    too_large = {name for name, sentence in sentences.items() if "bytes when decompressed" in sentence}
    assert too_large == {
        "parquet-page",
        "parquet-dictionary-page",
        "arrow-batch",
        "arrow-dictionary",
        "arrow-forged",
        "arrow-forged-further",
        "arrow-views-of-one-text",
        "arrow-views-in-many-batches",
        "arrow-views-of-keys-and-users",
        "parquet-page-of-users",
        "parquet-sets-page",
        "arrow-sets-batch",
        "arrow-sets-of-views",
        "arrow-sets-of-views-in-many-batches",
    }
    long_keys = {name for name, sentence in sentences.items() if "Item 0: a key has 1 to 512 bytes" in sentence}
    assert long_keys == {
        "parquet-one-value-again-and-again",
        "arrow-one-value-again-and-again",
        "parquet-sets-of-one-value",
        "arrow-sets-of-one-value",
    }
    long_users = {name for name, sentence in sentences.items() if "Item 0: a user has 1 to 512 bytes" in sentence}
    assert long_users == {"parquet-users-again-and-again", "arrow-users-again-and-again"}


_MEASURE = """
import json, os, resource, sys
from functools import partial
from pathlib import Path
from app.api.decoding import decode_events, decode_users
from app.core.errors import Refusal

def answer(path):
    content_type, _, body = path.read_bytes().partition(b"\\n")
    decode = partial(decode_users, most_keys=9) if "sets" in path.name else decode_events
    try:
        return decode(content_type.decode(), "", body, max_items=1000, max_bytes=1_000_000)
    except Refusal:
        return None

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

paths = sorted(Path(sys.argv[1]).iterdir())
bombs = [path for path in paths if not path.name.startswith("good")]
for good in 2 * [path for path in paths if path.name.startswith("good")]:
    assert answer(good)
threads = len(os.listdir("/proc/self/task"))
grown = {}
for bomb in bombs:
    start = peak()
    assert answer(bomb) is None
    grown[bomb.name] = (peak() - start) / 1024
print(json.dumps([grown, threads, len(os.listdir("/proc/self/task"))]))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux shows them")
def test_refused_tables_cost_little_memory_and_no_thread(bombs: dict[str, tuple[str, bytes]], tmp_path: Path) -> None:
    good = {"good": (PARQUET, parquet(_keys(["a"] * 1000))), "good-sets": (ARROW, arrow(_sets([["a"]] * 1000)))}
    bodies = bombs | good
    for name, (content_type, body) in bodies.items():
        (tmp_path / name).write_bytes(content_type.encode() + b"\n" + body)
    run = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(tmp_path)], capture_output=True, check=True, cwd=_ROOT, text=True
    )
    grown, threads_before, threads_after = json.loads(run.stdout)
    assert {name: megabytes for name, megabytes in grown.items() if megabytes > 24} == {}
    assert threads_before == threads_after
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (JSON, b'{"events": [' + b"{}," * 300_000 + b"{}]}"),
        (JSON, b'{"events": ' + (b"[" * 500 + b"]" * 500 + b",") * 900),
        (JSON, b'{"events": [' + b'",\\"[{",' * 100_000),
        (JSON, b'{"events": ["' + b'\\",' * 300_000),
        (NDJSON, b"[" + b"{}," * 300_000 + b"{}]"),
        (NDJSON, b'"a"\n' * 240_000),
        ("text/plain", b"\n" * 900_000),
        ("text/csv", b"key\n" + b"a\n" * 400_000),
        ("text/csv", b"key\n" + b"," * 900_000),
    ],
)
def test_a_swarm_of_items_is_refused_before_it_is_parsed(content_type: str, body: bytes) -> None:
    _require_cheap(decoded, content_type, body)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (JSON, b'{"users": [' + b"[]," * 300_000 + b"[]]}"),
        (JSON, b'{"users": [[' + b'"a",' * 240_000 + b'"a"]]}'),
        (JSON, b'{"users": [' + b'["a"],' * 160_000 + b'["a"]]}'),
        (JSON, b'{"users": [{"user": "u", "keys": [' + b"[]," * 300_000 + b"[]]}]}"),
        (NDJSON, b"[" + b'"a",' * 240_000 + b'"a"]'),
        (NDJSON, b'["a"]\n' * 160_000),
        (NDJSON, b"\n" * 900_000),
        (CSV, b"user,key\n" + b"u,a\n" * 240_000),
        (CSV, b"user,key\n" + b"," * 900_000),
        (PARQUET, parquet(_sets([["a"] * 75_000] * 2), use_dictionary=False, compression="none")),
        (PARQUET, parquet(_sets([["a" * 9] * 900] * 60), row_group_size=1, use_dictionary=False, compression="none")),
        (ARROW, arrow(_sets([["a"] * 100_000]))),
        (ARROW, arrow(_sets([["a"] * 900] * 900, _NUMBERED), rows_each=1)),
        ("text/plain", b"\n" * 900_000),
    ],
)
def test_a_swarm_of_sets_or_of_keys_in_them_is_refused_before_it_is_parsed(content_type: str, body: bytes) -> None:
    _require_cheap(decoded_sets, content_type, body)


def _require_cheap(decode: Callable[[str, bytes], Any], content_type: str, body: bytes) -> None:
    started = process_time()
    tracemalloc.start()
    try:
        with pytest.raises(BadBatch):
            decode(content_type, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(body)
    assert process_time() - started < 1


@pytest.mark.parametrize("content_type", SET_WRITERS)
@pytest.mark.parametrize("keys_each", [1, 10])
def test_sets_of_just_as_many_keys_as_allowed_are_taken_and_one_more_is_not(content_type: str, keys_each: int) -> None:
    body = SET_WRITERS[content_type]([(f"u{number}", ["a"] * keys_each) for number in range(30 // keys_each)])
    sets = decoded_sets(content_type, body, max_items=30)
    assert sum(len(keys) for _, keys in sets) == 30
    with pytest.raises(BadBatch, match=r"at most 29 (items|keys in all its sets together); send several"):
        decoded_sets(content_type, body, max_items=29)


@pytest.mark.parametrize("content_type", SET_WRITERS)
def test_the_limit_of_bytes_holds_for_sets(content_type: str) -> None:
    body = SET_WRITERS[content_type]([("u", ["x" * 500] * 20)])
    with pytest.raises(BodyTooLarge):
        decoded_sets(content_type, body, max_bytes=400)


def test_the_most_items_that_are_allowed_have_few_enough_marks() -> None:
    sets = [{"user": f"u{number}", "keys": ["a"]} for number in range(1000)]
    body = json.dumps({"users": sets}).encode()
    assert len(decoded_sets(JSON, body)) == 1000
    events = [{"key": "é", "count": 1, "user": "u"}] * 1000  # escaped, so that the careful decoder reads them
    assert len(decoded(JSON, json.dumps({"events": events}).encode())) == 1000


def test_commas_and_braces_inside_keys_are_not_taken_for_items() -> None:
    key = '[{,"' * 40 + "\\"
    body = json.dumps({"events": [key] * 1000}).encode()
    assert decoded(JSON, body) == [(key, 1)] * 1000
    lines = b"".join(json.dumps(key).encode() + b"\n" for _ in range(1000))
    assert decoded(NDJSON, lines) == [(key, 1)] * 1000


def test_a_parquet_file_is_judged_by_its_pages_whatever_its_footer_says() -> None:
    body = parquet(_keys(["x" * 2_000_000]), compression="zstd", use_dictionary=False)
    with pytest.raises(BodyTooLarge):
        decoded(PARQUET, body, max_bytes=1_999_999)
    footer_size = int.from_bytes(body[-8:-4], "little")
    pages, footer = body[: -8 - footer_size], body[-8 - footer_size :]
    for changed in (bytes(footer_size) + footer[-8:], footer[:-9] + b"\xff" * 9 + footer[-8:], b"PAR1"):
        with pytest.raises(BadBatch):
            decoded(PARQUET, pages + changed)
