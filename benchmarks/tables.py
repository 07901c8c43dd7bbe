"""Parquet and Arrow read in this process, or by a child: the figures of docs/decisions/parquet-and-arrow.md.

`python -m benchmarks.tables`, on Linux. The child is the least that could do: it has no environment, limits on memory
and processor time, and answers with the different texts of a table and for each cell which of them it has. It knows no
refusals, and its answers are believed.
"""

import io
import json
import os
import subprocess
import sys
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq

ROWS, KEYS, ROUNDS = 10_000, 5_000, 25
PARQUET, ARROW = "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"
_EMPTY = pa.array([], pa.large_string())


# The child


def serve(requests: Any, answers: Any) -> None:
    import resource

    space = int(Path("/proc/self/statm").read_text().split()[0]) * 4096 + 2**28
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CPU, (600, 600))
    while line := requests.readline():
        asked = json.loads(line)
        columns, texts = columns_of(asked["type"], requests.read(asked["size"]))
        offsets = np.frombuffer(texts.buffers()[1], "<i8")[: len(texts) + 1]
        buffers = [cells.astype("<i4").tobytes() for cells in columns.values()]
        buffers += [offsets.tobytes(), bytes(texts.buffers()[2])[: int(offsets[-1])]]
        answers.write(json.dumps({"names": list(columns), "sizes": list(map(len, buffers))}).encode() + b"\n")
        answers.writelines(buffers)
        answers.flush()


def columns_of(content_type: str, body: bytes) -> tuple[dict[str, Any], Any]:
    """For each cell which of the texts it has, or its count; `sizes` are those of lists. And the texts."""
    if content_type == ARROW:
        table = pa.ipc.open_stream(pa.BufferReader(body)).read_all()
    else:
        texts = [name for name in pq.read_schema(pa.BufferReader(body)).names if name not in ("count", "keys")]
        table = pq.read_table(pa.BufferReader(body), use_threads=False, read_dictionary=texts)
    table.validate(full=True)
    columns, dictionaries = {}, [_EMPTY]
    for name in table.column_names:
        cells = table[name].combine_chunks()
        if name == "count":
            columns[name] = cells.to_numpy()
            continue
        if name == "keys":
            columns["sizes"], cells = np.diff(cells.offsets.to_numpy()), cells.flatten()
        encoded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
        columns[name] = encoded.indices.to_numpy() + sum(map(len, dictionaries))
        dictionaries.append(encoded.dictionary.cast(pa.large_string()))
    return columns, pa.concat_arrays(dictionaries)


# This process


class Child:
    def __init__(self) -> None:
        command = [sys.executable, "-I", __file__, "child"]
        self.process: Any = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})

    def read(self, content_type: str, body: bytes, of_people: bool) -> Any:
        from app.core import kernel

        self.process.stdin.write(json.dumps({"type": content_type, "size": len(body)}).encode() + b"\n" + body)
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        *columns, offsets, data = [self.process.stdout.read(size) for size in said["sizes"]]
        texts = [data[at:end].decode() for at, end in pairwise(np.frombuffer(offsets, "<i8").tolist())]
        numbers = {
            name: np.frombuffer(cells, "<i4").tolist() for name, cells in zip(said["names"], columns, strict=True)
        }
        cells = {name: [texts[place] for place in numbers.get(name, ())] for name in ("key", "keys", "user")}
        if of_people:
            keys = [cells["keys"][at:end] for at, end in pairwise(accumulate(numbers["sizes"], initial=0))]
            return kernel.sets_of(list(zip(cells["user"], keys, strict=True)), 8)
        counts = numbers.get("count") or [1] * len(cells["key"])
        return kernel.batch_of(list(zip(cells["key"], counts, strict=True)), cells["user"] or None)

    def busy_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def most_mebibytes(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def read_here(content_type: str, body: bytes, of_people: bool) -> Any:
    from app.api.decoding import decode_events, decode_users

    if of_people:
        return decode_users(content_type, "", body, max_items=100_000, max_bytes=2**24, most_keys=8)
    return decode_events(content_type, "", body, max_items=100_000, max_bytes=2**24)


def main() -> None:
    """Print a table. All figures are medians of this process, but the last, which is the child's mean."""
    child = Child()
    print("| body | here: elapsed | here: busy | child: elapsed | child: busy here | child: busy there |")
    print("|---|---|---|---|---|---|")
    for name, (content_type, body) in bodies().items():
        asked = content_type, body, "people" in name
        here, there = read_here(*asked), child.read(*asked)
        assert (here.keys(), here.users(), here.counts()) == (there.keys(), there.users(), there.counts())
        before = child.busy_seconds()
        times = [[*_timed(read_here, asked), *_timed(child.read, asked)] for _ in range(ROUNDS)]
        figures = [*map(median, zip(*times, strict=True)), (child.busy_seconds() - before) / ROUNDS]
        print(f"| {name} | {' | '.join(f'{1000 * figure:.1f} ms' for figure in figures)} |")
    print(f"\nThe child had at most {child.most_mebibytes()} MiB.")
    child.process.communicate()


def _timed(read: Any, asked: Any) -> tuple[float, float]:
    """Seconds that passed, and those that this thread was busy."""
    started, busy = perf_counter(), thread_time()
    read(*asked)
    return perf_counter() - started, thread_time() - busy


def bodies() -> dict[str, tuple[str, bytes]]:
    rng = np.random.default_rng(1)
    shares = 1 / np.arange(1, KEYS + 1)
    keys = [f"/products/item-{key:05d}" for key in rng.choice(KEYS, 4 * ROWS, p=shares / shares.sum())]
    users = [f"user-{user:08d}" for user in rng.integers(0, 2 * ROWS, ROWS)]
    counts = rng.integers(1, 100, ROWS).astype("int32")
    tables = {
        "key": pa.table({"key": keys[:ROWS]}),
        "key, count": pa.table({"key": keys[:ROWS], "count": counts}),
        "key, count, user": pa.table({"key": keys[:ROWS], "count": counts, "user": users}),
        "people, 4 keys each": pa.table({"user": users, "keys": [keys[at : at + 4] for at in range(0, 4 * ROWS, 4)]}),
    }
    made = {}
    for name, table in tables.items():
        file, stream = io.BytesIO(), io.BytesIO()
        pq.write_table(table, file)
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        made[f"Parquet: {name}"] = PARQUET, file.getvalue()
        made[f"Arrow: {name}"] = ARROW, stream.getvalue()
    return made


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer) if sys.argv[1:] == ["child"] else main()
