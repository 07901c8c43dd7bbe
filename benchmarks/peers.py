"""Other libraries on the same bytes, in this process. One that is not installed is left out, and is no error.

- Apache DataSketches `frequent_strings_sketch` is the closest peer: an incremental sketch of the same guarantee, fed
  key by key from Python after the fastest JSON decoder at hand. Its map holds 0.75·2^lg keys, so no size is exactly k;
  the sizes just below and just above both run, and claims are made against the faster.
- DuckDB `approx_top_k` and chdb (ClickHouse) `topK` answer one query over a file of the same bodies, one per line, on
  one thread. They keep no sketch between queries, so they show the cost of a scan, not of an update.
"""

import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Decode = Callable[[bytes], Any]

DATASKETCHES = "DataSketches"
DUCKDB = "DuckDB approx_top_k"
CHDB = "chdb topK"


def installed(package: str) -> bool:
    """Whether a package can be imported."""
    return find_spec(package) is not None


def decoders() -> Iterator[tuple[str, Decode]]:
    """The JSON decoders that are installed, by name."""
    yield "json", json.loads
    if installed("orjson"):
        yield "orjson", import_module("orjson").loads
    if installed("msgspec"):
        yield "msgspec", import_module("msgspec").json.Decoder(type=dict[str, list[str]]).decode


def sizes_near(k: int) -> tuple[int, int]:
    """The binary logarithms of the maps that hold just fewer and just more than k keys."""
    below = math.floor(math.log2(k / 0.75))
    return below, below + 1


def datasketches(bodies: Iterable[bytes], size: int, decode: Decode) -> Any:
    """A sketch of DataSketches after these bodies; its map has 2^size slots."""
    sketch = import_module("datasketches").frequent_strings_sketch(size)
    for body in bodies:
        deque(map(sketch.update, decode(body)["events"]), maxlen=0)  # the cheapest loop that Python has
    return sketch


def duckdb(path: Path, k: int) -> object:
    """The k most frequent keys of a file of bodies, by DuckDB."""
    with import_module("duckdb").connect() as connection:
        connection.execute("SET threads = 1")
        read = f"read_json('{path}', format = 'newline_delimited', columns = {{events: 'VARCHAR[]'}})"
        query = f"SELECT approx_top_k(key, {k}) FROM (SELECT unnest(events) AS key FROM {read})"
        return connection.execute(query).fetchall()


def chdb(path: Path, k: int) -> object:
    """The k most frequent keys of a file of bodies, by ClickHouse."""
    read = f"file('{path}', 'JSONEachRow', 'events Array(String)')"
    return import_module("chdb").query(f"SELECT topK({k})(arrayJoin(events)) FROM {read} SETTINGS max_threads = 1")
