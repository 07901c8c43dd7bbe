"""Whatever a file is, its events count once: read twice, broken off, sent to a server that is busy or away."""

import gzip
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import zstandard

from tests.client.conftest import Counts, Discreet, ingesting
from tests.server import Server

TRUTH = {"/home": 60, "/pricing, old": 30, "/ünï": 10}
EVENTS = [key for key, count in TRUTH.items() for _ in range(count)]

LINES = "".join(f"{key}\n" for key in EVENTS).encode()
CSV = ("when,page\r\n" + "".join(f'{n},"{key}"\r\n' for n, key in enumerate(EVENTS))).encode()
COUNTED = ("key,count\n" + "".join(f'"{key}",{count}\n' for key, count in TRUTH.items())).encode()
OBJECTS = "".join(json.dumps({"at": {"page": 1}, "page": key}) + "\n" for key in EVENTS).encode()
STRINGS = "".join(json.dumps(key) + "\n" for key in EVENTS).encode()
OWN_FORM = "".join(json.dumps({"key": key, "count": count}) + "\n" for key, count in TRUTH.items()).encode()


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("views.txt", LINES, ()),
        ("views", LINES, ()),
        ("views.csv", CSV, ("--column", "page")),
        ("views", b"\xef\xbb\xbf" + CSV, ("--column", "page")),
        ("views.csv", COUNTED, ()),
        ("views.csv", COUNTED.replace(b"key,count", b"page,n"), ("--column", "page", "--count-column", "n")),
        ("views.jsonl", OBJECTS, ("--column", "page")),
        ("views", STRINGS, ()),
        ("views.ndjson", OWN_FORM, ()),
        ("views.csv.gz", gzip.compress(CSV), ("--column", "page")),
        ("views.txt.zst", zstandard.compress(LINES[:500]) + zstandard.compress(LINES[500:]), ("--format", "lines")),
    ],
)
def test_a_file_is_counted_once_however_often_it_is_sent(
    discreet: Discreet, sketch: str, counts: Counts, tmp_path: Path, name: str, content: bytes, options: tuple[str, ...]
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    command = ("ingest", str(file), "--sketch", sketch, "--batch", "7", *options)
    first = discreet(*command)
    assert (first.status, first.err) == (0, "")
    assert first.out.startswith("100 events in ")
    assert discreet(*command, "--json").document == {"accepted": 100}
    assert counts(sketch) == TRUTH


def test_parquet_is_read_where_pyarrow_is(discreet: Discreet, sketch: str, counts: Counts, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = tmp_path / "views.parquet"
    parquet.write_table(pa.table({"page": list(TRUTH), "n": list(TRUTH.values()), "other": [1.5, 2.5, 3.5]}), file)
    sent = discreet("ingest", str(file), "--sketch", sketch, "--column", "page", "--count-column", "n")
    assert (sent.status, sent.err) == (0, "")
    assert counts(sketch) == TRUTH
    piped = discreet("ingest", str(file), "--sketch", sketch)
    assert piped.status == 1
    assert "has no column 'key'; it has 'page', 'n', 'other'" in piped.err


def test_without_pyarrow_it_is_said_what_to_install(
    discreet: Discreet, sketch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "views.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused = discreet("ingest", str(tmp_path / "views.parquet"), "--sketch", sketch)
    assert (refused.status, refused.err) == (1, "discreet: Parquet needs pyarrow: pip install 'discreet[arrow]'.\n")


@pytest.mark.parametrize("unit", ["event", "user"])
def test_people_are_named_by_a_column(
    discreet: Discreet, sketch: str, counts: Counts, tmp_path: Path, unit: str
) -> None:
    name = f"{sketch}-people"
    discreet("sketches", "create", name, "--k", "64", "--ledger", sketch, "--unit", unit, "--max-contributions", "2")
    file = tmp_path / "people.csv"
    file.write_text("who,page\n" + "".join(f"u{n // 3:03},/{n % 3}\n" for n in range(1200)))
    sent = discreet("ingest", str(file), "--sketch", name, "--column", "page", "--user-column", "who", "--batch", "31")
    assert (sent.status, sent.err) == (0, "")
    assert _about(counts(name)) == {"/0": 4, "/1": 4}  # the third of each is beyond the allowance


def test_sets_of_keys_are_taken_as_the_service_takes_them(
    discreet: Discreet, sketch: str, counts: Counts, tmp_path: Path
) -> None:
    name = f"{sketch}-sets"
    discreet("sketches", "create", name, "--k", "64", "--ledger", sketch, "--unit", "user", "--max-contributions", "2")
    file = tmp_path / "sets.ndjson"
    file.write_text("".join(json.dumps({"user": f"u{n}", "keys": ["/a", "/b"]}) + "\n" for n in range(400)))
    assert discreet("ingest", str(file), "--sketch", name).status == 0
    assert _about(counts(name)) == {"/a": 4, "/b": 4}


def _about(counted: dict[str, int]) -> dict[str, int]:
    """In hundreds: sets of users get Gaussian noise, which at δ = 1e-6 is a few counts at any ε."""
    return {key: round(count / 100) for key, count in counted.items()}


def test_several_files_and_one_that_grew(discreet: Discreet, sketch: str, counts: Counts, tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_bytes(LINES)
    two.write_bytes(LINES)
    assert discreet("ingest", str(one), str(two), "--sketch", sketch).out.startswith("200 events")
    assert discreet("ingest", str(two), "--sketch", sketch).status == 0
    assert counts(sketch) == {key: 2 * count for key, count in TRUTH.items()}
    command = ("ingest", str(one), "--sketch", sketch, "--resume-key", "mine", "--batch", "60")
    discreet(*command)
    one.write_bytes(LINES + LINES)
    grown = discreet(*command)
    assert grown.status == 1
    assert "the input or the options are not those of the earlier run" in grown.err
    assert counts(sketch) == {key: 3 * count for key, count in TRUTH.items()}


@pytest.mark.parametrize(
    ("name", "bad", "reason"),
    [
        ("views.txt", b"x" * 600, "a key has 1 to 512 bytes"),
        ("views.ndjson", b'{"page": 1}', "the object has no member 'key'"),
        ("views.ndjson", b"{", "the line is not JSON"),
        ("views.ndjson", b'"\\ud800"', "text must be valid Unicode"),
        ("views.txt", b"\xff", "the line is not UTF-8"),
    ],
)
def test_a_bad_line_is_named_and_once_corrected_nothing_counts_twice(
    discreet: Discreet, sketch: str, counts: Counts, tmp_path: Path, name: str, bad: bytes, reason: str
) -> None:
    file = tmp_path / name
    lines = (STRINGS if name.endswith("ndjson") else LINES).splitlines()
    file.write_bytes(b"\n".join([*lines[:70], bad, *lines[71:]]) + b"\n")
    command = ("ingest", str(file), "--sketch", sketch, "--batch", "20")
    refused = discreet(*command)
    assert refused.status == 1
    assert f"{file}, line 71: {reason}" in refused.err
    assert "60 events in 3 batches before it are counted." in refused.err
    resume = refused.err.partition("--resume-key ")[2].partition(":")[0]
    file.write_bytes(b"\n".join(lines) + b"\n")
    assert discreet(*command, "--resume-key", resume).status == 0
    assert counts(sketch) == TRUTH


def test_a_bad_row_of_csv_is_named_by_its_line(discreet: Discreet, sketch: str, tmp_path: Path) -> None:
    file = tmp_path / "views.csv"
    for rows, words in (
        ('key,count\n"two\nlines",1\na,-1\n', "line 4: a count must be a whole number"),
        ("key,count\na\n", "line 2: the row has 1 cells, the header has 2"),
        ('key\n"a"b\n', "line 2: this is not CSV"),
        ('key\n"two\nlines"\n""\n', "line 4: a key has 1 to 512 bytes"),
        ("page\na\n", "has no column 'key'; it has 'page'"),
    ):
        file.write_text(rows)
        refused = discreet("ingest", str(file), "--sketch", sketch)
        assert refused.status == 1
        assert words in refused.err


def test_a_file_that_was_cut_short_is_noticed(discreet: Discreet, sketch: str, tmp_path: Path) -> None:
    many = "".join(f"/{n}\n" for n in range(20_000)).encode()
    for name, packed in (("a.gz", gzip.compress(many)), ("a.zst", zstandard.compress(many))):
        (tmp_path / name).write_bytes(packed[: len(packed) // 2])
        cut = discreet("ingest", str(tmp_path / name), "--sketch", sketch)
        assert cut.status == 1
        assert "ends early or is damaged" in cut.err


def test_what_is_not_there_is_said_before_anything_is_sent(discreet: Discreet, sketch: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(LINES)
    missing = discreet("ingest", str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "--sketch", sketch)
    assert missing.status == 2
    assert "b.txt cannot be read: No such file or directory." in missing.err
    nowhere = discreet("ingest", str(tmp_path / "a.txt"), "--sketch", "nowhere")
    assert (nowhere.status, nowhere.err) == (1, "discreet: There is no sketch named 'nowhere'.\n")


# Breaks


def _wait_for(events: int, discreet: Discreet, sketch: str) -> None:
    """Until about so many are counted, by small releases."""
    for _ in range(100):
        told = discreet("snapshot", sketch, "--epsilon", "5", "--delta", "1e-6", "--json").document
        if sum(bar["count"] for bar in told["histogram"]) > 0.9 * events:
            return
        time.sleep(0.1)
    raise AssertionError("nothing was sent")


def test_killed_in_the_middle_and_run_again_it_counts_once(
    discreet: Discreet, server: Server, sketch: str, counts: Counts
) -> None:
    many = b"".join(b"/%d\n" % (n % 10) for n in range(3000))
    arguments = ("-", "--sketch", sketch, "--batch", "100", "--resume-key", "tuesday")
    broken = ingesting(server, *arguments)
    assert broken.stdin
    broken.stdin.write(many[:6050])  # it waits for the rest in the middle of a batch
    broken.stdin.flush()
    _wait_for(1000, discreet, sketch)
    broken.kill()
    broken.communicate()
    whole = ingesting(server, *arguments)
    out, err = whole.communicate(many, timeout=30)
    assert (whole.returncode, err) == (0, b"")
    assert out.startswith(b"3,000 events in 30 batches")
    assert counts(sketch) == {f"/{n}": 300 for n in range(10)}


def test_an_interrupt_says_how_to_go_on(discreet: Discreet, server: Server, sketch: str) -> None:
    process = ingesting(server, "-", "--sketch", sketch, "--batch", "50")
    assert process.stdin
    process.stdin.write(b"/a\n" * 120)
    process.stdin.flush()
    _wait_for(100, discreet, sketch)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert b"standard input: Stopped. 100 events in 2 batches before it are counted." in err
    assert b"Traceback" not in err


@contextmanager
def _stub(*answers: int | None) -> Iterator[tuple[str, list[str | None]]]:
    """A server that gives these answers, one a request, then 200; None: it hangs up. And the keys that it saw."""
    left: list[int | None] = list(answers)
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.headers["Idempotency-Key"])
            status = left.pop(0) if left else 200
            if status is None:
                self.close_connection = True
                return
            slug = "wrong-user-key" if status == 599 else "overloaded"
            problem = json.dumps({"type": f"urn:discreet:problem:{slug}", "detail": "Not now."})
            body = b'{"accepted": 1}' if status == 200 else problem.encode()
            self.send_response(200 if status == 200 else 503)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    stub = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=stub.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{stub.server_address[1]}", seen
    finally:
        stub.shutdown()
        thread.join()
        stub.server_close()


def test_a_busy_server_and_a_lost_connection_are_tried_again(discreet: Discreet, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"/a\n/b\n")
    command = ("ingest", str(tmp_path / "a.txt"), "--sketch", "views", "--batch", "1")
    with _stub(503, None, 200, None) as (url, seen):
        sent = discreet(*command, "--url", url)
    assert (sent.status, sent.out) == (0, "2 events in 2 batches are in views.\n")
    assert len(seen) == 5
    assert len(set(seen)) == 2  # each batch again under its own key


def test_a_busy_server_is_asked_again_for_the_unit(discreet: Discreet, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"user,key\nann,/a\n")
    with _stub(503, None, 200) as (url, seen):
        sent = discreet("ingest", str(tmp_path / "a.csv"), "--sketch", "views", "--url", url)
    assert (sent.status, sent.out) == (0, "1 people in 1 batches are in views.\n")
    assert seen[:3] == [None] * 3  # an empty batch counts nothing, so it needs no idempotency key
    assert len(seen) == 4
    assert seen[3] is not None


def test_patience_ends_and_some_refusals_are_final(discreet: Discreet, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"/a\n/b\n")
    command = ("ingest", str(tmp_path / "a.txt"), "--sketch", "views", "--batch", "1")
    with _stub(200, *[503] * 9) as (url, seen):
        given_up = discreet(*command, "--url", url, "--patience", "0.5")
    assert given_up.status == 1
    assert "Not now. 1 events in 1 batches before it are counted. To go on, run the same command" in given_up.err
    assert 2 < len(seen) < 6
    with _stub(599) as (url, seen):
        assert discreet(*command, "--url", url).status == 1
    assert len(seen) == 1
