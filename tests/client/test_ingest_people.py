"""A sketch of users is sent whole people: what is sent of one person follows from that person's rows alone."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from app.api.decoding.items import MAX_KEY_BYTES
from app.client.connection import Answer, Api
from app.client.ingest import people
from app.client.ingest.batches import MOST_ITEMS
from app.core.comparison import MOST_CONTRIBUTIONS
from app.settings import Settings
from tests.client.conftest import Counts, Discreet, Rows, Sent, as_csv, everybody, ingesting
from tests.server import Server

SORTED: Rows = [("ann", "/a"), ("ann", "/b"), ("ann", "/a"), ("bob", "/b"), ("cid", "/c"), ("cid", "/a")]
PEOPLE = [
    {"user": "ann", "keys": ["/a", "/b"]},
    {"user": "bob", "keys": ["/b"]},
    {"user": "cid", "keys": ["/c", "/a"]},
]


def _ndjson(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(json.dumps({"user": user, "key": key}) + "\n" for user, key in rows)


def _parquet(path: Path, rows: Rows) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"user": [user for user, _ in rows], "key": [key for _, key in rows]}), path)


# What is sent


@pytest.mark.parametrize("name", ["people.csv", "people.ndjson", "people.parquet"])
def test_rows_become_people_and_the_receipt_counts_people(
    discreet: Discreet, sketch_of_users: str, counters: Counts, sent: Sent, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    if name.endswith("parquet"):
        _parquet(file, SORTED)
    else:
        file.write_text((as_csv if name.endswith("csv") else _ndjson)(SORTED))
    command = ("ingest", str(file), "--sketch", sketch_of_users, "--batch", "2")
    told = discreet(*command)
    assert (told.status, told.err) == (0, "")
    assert told.out == f"3 people in 2 batches are in {sketch_of_users}.\n"
    assert sent == [{"users": PEOPLE[:2]}, {"users": PEOPLE[2:]}]
    assert discreet(*command, "--json").document == {"accepted": 3}
    assert counters(sketch_of_users) == {"/a": 2, "/b": 2, "/c": 1}


def test_lines_that_are_whole_people_are_sent_as_they_are(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path
) -> None:
    lines = [{"user": "bob", "keys": ["/b", "/b"]}, {"user": "ann", "keys": ["/a"]}]
    file = tmp_path / "people.ndjson"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert discreet("ingest", str(file), "--sketch", sketch_of_users).out.startswith("2 people in 1 batches")
    assert sent == [{"users": lines}]


def test_a_sketch_of_events_gets_rows_in_the_order_of_the_file(
    discreet: Discreet, sketch: str, counters: Counts, sent: Sent, tmp_path: Path
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(as_csv(reversed(SORTED)))
    assert discreet("ingest", str(file), "--sketch", sketch, "--batch", "4").out.startswith("6 events in 2 batches")
    items = [{"key": key, "user": user} for user, key in reversed(SORTED)]
    assert sent == [{"events": items[:4]}, {"events": items[4:]}]
    assert counters(sketch) == {"/a": 3, "/b": 2, "/c": 1}


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
def test_no_person_is_split_over_two_requests(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path, batch: int
) -> None:
    rows = [(f"u{n:02}", f"/{key}") for n in range(10) for key in range(1 + 7 * (n % 3))]
    file = tmp_path / "people.csv"
    file.write_text(as_csv(rows))
    assert discreet("ingest", str(file), "--sketch", sketch_of_users, "--batch", str(batch)).status == 0
    assert [len(document["users"]) for document in sent[:-1]] == [batch] * (len(sent) - 1)
    assert everybody(sent) == [
        {"user": f"u{n:02}", "keys": [f"/{key}" for key in range(1 + 7 * (n % 3))]} for n in range(10)
    ]


def test_a_person_with_very_many_rows_stays_one_item_of_bounded_size(
    discreet: Discreet, sketch_of_users: str, counters: Counts, sent: Sent, tmp_path: Path
) -> None:
    many = [("bob", f"/{n % 2_000}") for n in range(100_001)]
    file = tmp_path / "people.csv"
    file.write_text(as_csv([("ann", "/0"), *many, ("cid", "/1")]))
    told = discreet("ingest", str(file), "--sketch", sketch_of_users)
    assert (told.status, told.err) == (0, "")
    ann, bob, cid = everybody(sent)
    assert (ann["user"], bob["user"], cid["user"]) == ("ann", "bob", "cid")
    assert bob["keys"] == [f"/{n}" for n in range(MOST_CONTRIBUTIONS)]
    assert counters(sketch_of_users) == {"/0": 2, "/1": 2}


def test_a_request_ends_before_its_keys_are_more_than_a_server_takes(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path
) -> None:
    rows = [(f"u{n:03}", f"/{key}") for n in range(150) for key in range(900)]
    file = tmp_path / "people.csv"
    file.write_text(as_csv(rows))
    assert discreet("ingest", str(file), "--sketch", sketch_of_users).out.startswith("150 people in 2 batches")
    assert [len(document["users"]) for document in sent] == [111, 39]  # 112 would have 100,800 keys


def test_a_request_ends_before_its_bytes_are_more_than_a_server_takes(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path
) -> None:
    """The longest people that there are: JSON writes a control character with six letters."""
    rows = [(f"u{n}", f"{key:04}" + "\x01" * (MAX_KEY_BYTES - 4)) for n in range(6) for key in range(1_000)]
    file = tmp_path / "people.ndjson"
    file.write_text(_ndjson(rows))
    told = discreet("ingest", str(file), "--sketch", sketch_of_users)
    assert (told.status, told.err) == (0, "")
    assert [len(document["users"]) for document in sent] == [2, 2, 2]


def test_the_limits_are_those_of_the_service() -> None:
    assert people.MOST_KEYS == MOST_CONTRIBUTIONS
    assert people.MOST_BYTES == MAX_KEY_BYTES
    assert Settings().max_batch_items == MOST_ITEMS


# In order


@pytest.mark.parametrize(
    ("users", "line"), [(["9", "10", "9"], 4), (["9", "10", "b"], 4), (["9", "10", "011"], 4), (["1", "2", "-3"], 4)]
)
def test_an_order_by_number_is_kept_to_by_numbers_alone(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path, users: list[str], line: int
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(as_csv((user, "/a") for user in users))
    told = discreet("ingest", str(file), "--sketch", sketch_of_users, "--user-order", "number")
    assert told.status == 1
    assert f"line {line}" in told.err
    assert "as a number" in told.err
    assert everybody(sent) == []


def test_a_whole_person_with_very_many_keys_is_cut_as_those_from_rows_are(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path
) -> None:
    """So that one person never makes a request too large for the others."""
    file = tmp_path / "people.ndjson"
    keys = [f"/{number}" for number in range(MOST_ITEMS + 1)]
    people_of_file = [{"user": "z", "keys": [*keys[:5], *keys]}, {"user": "a", "keys": ["/a", "/a"]}]
    file.write_text("".join(json.dumps(person) + "\n" for person in people_of_file))
    assert discreet("ingest", str(file), "--sketch", sketch_of_users).status == 0
    assert [(person["user"], person["keys"]) for person in everybody(sent)] == [
        ("z", keys[: people.MOST_KEYS]),
        ("a", ["/a", "/a"]),
    ]


@pytest.mark.parametrize(
    ("order", "users"),
    [
        ("text", ["ann", "bob"]),
        ("number", ["9", "10", "100"]),
        ("number", ["-12", "-3", "0", "4"]),
        ("text", ["10", "100", "9"]),
        ("text", ["1", "10", "2", "b"]),
        ("text", ["007", "07", "7"]),
        ("text", ["Z", "a", "é", "Ā", "￿", "𐀀"]),  # as LC_ALL=C has it
    ],
)
def test_a_file_is_sorted_as_text_or_as_numbers(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path, order: str, users: list[str]
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(as_csv((user, key) for user in users for key in ("/a", "/b")))
    told = discreet("ingest", str(file), "--sketch", sketch_of_users, "--user-order", order)
    assert (told.status, told.err) == (0, "")
    assert [person["user"] for person in everybody(sent)] == users


@pytest.mark.parametrize(
    ("users", "line"),
    [
        (["ann", "bob", "ann"], 4),
        (["b", "a"], 3),
        (["9", "10", "100"], 3),  # as numbers, which nobody said
        (["10", "9", "11"], 4),
        (["1", "10", "2", "11"], 5),
        (["1", "2", "-3"], 4),
    ],
)
@pytest.mark.parametrize("name", ["people.csv", "people.ndjson", "people.parquet"])
def test_nothing_is_sent_of_a_file_that_is_not_sorted(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path, users: list[str], line: int, name: str
) -> None:
    good, bad = tmp_path / "good.csv", tmp_path / name
    good.write_text(as_csv(SORTED))
    rows = [(user, "/a") for user in users]
    if name.endswith("parquet"):
        _parquet(bad, rows)
    else:
        bad.write_text((as_csv if name.endswith("csv") else _ndjson)(rows))
    refused = discreet("ingest", str(good), str(bad), "--sketch", sketch_of_users, "--batch", "1")
    assert (refused.status, sent) == (1, [])
    place = line if name.endswith("csv") else line - 1  # after a header, or without
    assert f"{bad}, line {place}: the rows are not sorted by user" in refused.err
    assert "LC_ALL=C sort" in refused.err
    assert "ORDER BY" in refused.err
    assert refused.err.endswith("Nothing was sent.\n")


def test_of_standard_input_the_order_is_checked_on_the_way(
    discreet: Discreet, server: Server, sketch_of_users: str, counters: Counts
) -> None:
    whole = ingesting(server, "-", "--sketch", sketch_of_users, "--batch", "1")
    out, err = whole.communicate(as_csv(SORTED).encode(), timeout=30)
    assert (out, err) == (f"3 people in 3 batches are in {sketch_of_users}.\n".encode(), b"")
    broken = ingesting(server, "-", "--sketch", sketch_of_users, "--batch", "1")
    rows = [("dan", "/d"), ("eve", "/d"), ("fay", "/d"), ("dan", "/e"), ("gil", "/d")]
    out, err = broken.communicate(as_csv(rows).encode(), timeout=30)
    assert broken.returncode == 1
    assert b"standard input, line 5: the rows are not sorted by user" in err
    assert b"3 people in 3 batches before it are counted" in err
    assert b"--resume-key" not in err  # sorted rows make other batches
    assert counters(sketch_of_users) == {"/a": 2, "/b": 2, "/c": 1, "/d": 3}
    at_once = ingesting(server, "-", "--sketch", sketch_of_users)
    out, err = at_once.communicate(as_csv(rows).encode(), timeout=30)
    assert (at_once.returncode, out) == (1, b"")
    assert err.endswith(b"Nothing was sent.\n")


# What cannot be sent


def test_counts_have_no_meaning_for_sets(discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("user,key,count\nann,/a,2\n")
    command = ("ingest", str(file), "--sketch", sketch_of_users)
    unnamed = discreet(*command)
    assert unnamed.status == 1
    assert f"{file}, line 2: a sketch of users counts each key of a person once" in unnamed.err
    assert "--column" in unnamed.err
    named = discreet(*command, "--user-column", "user", "--count-column", "count")
    assert named.status == 1
    assert "leave out --count-column" in named.err
    assert sent == []
    assert discreet(*command, "--user-column", "user").status == 0
    assert sent == [{"users": [{"user": "ann", "keys": ["/a"]}]}]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"user": "bob", "key": "x" * 513}, "a key has 1 to 512 bytes"),
        ({"user": "bob", "key": "ü" * 257}, "a key has 1 to 512 bytes"),
        ({"user": "bob", "key": ""}, "a key has 1 to 512 bytes"),
        ({"user": "b" * 513, "key": "/a"}, "a user has 1 to 512 bytes"),
        ({"key": "/a"}, "the row names no user"),
        ({"user": None, "key": "/a"}, "the row names no user"),
        ({"user": "bob", "keys": ["/a"]}, "the line is a whole person"),
    ],
)
def test_a_bad_row_is_named_before_anything_is_sent(
    discreet: Discreet, sketch_of_users: str, sent: Sent, tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    good = [{"user": "ann", "key": "/a"}, {"user": "bob", "key": "/a"}]
    file = tmp_path / "people.ndjson"
    file.write_text("".join(json.dumps(each) + "\n" for each in [*good, row]))
    refused = discreet("ingest", str(file), "--sketch", sketch_of_users, "--batch", "1")
    assert (refused.status, sent) == (1, [])
    assert f"{file}, line 3: {reason}" in refused.err
    assert refused.err.endswith("Nothing was sent.\n")


def test_of_a_person_that_the_service_refuses_the_first_line_is_named(
    discreet: Discreet, sketch: str, tmp_path: Path
) -> None:
    name, keys = f"{sketch}-known", tmp_path / "keys.txt"
    keys.write_text("/a\n/b\n")
    parameters = ("--k", "64", "--ledger", sketch, "--unit", "user", "--universe-file", str(keys))
    assert discreet("sketches", "create", name, *parameters).status == 0
    file = tmp_path / "people.csv"
    file.write_text(as_csv([("ann", "/a"), ("ann", "/b"), ("bob", "/a"), ("bob", "/x"), ("cid", "/a")]))
    refused = discreet("ingest", str(file), "--sketch", name, "--batch", "1")
    assert f"{file}, line 4: of the person whose rows begin here, the key is not in the" in refused.err
    assert "1 people in 1 batches before it are counted" in refused.err


# Who sends, and breaks


def test_a_key_that_may_only_ingest_is_enough(
    discreet: Discreet, sketch_of_users: str, counters: Counts, tmp_path: Path
) -> None:
    made = discreet("keys", "create", "sender", "--scope", "ingest", "--sketches", sketch_of_users, "--json").document
    file = tmp_path / "people.csv"
    file.write_text(as_csv(SORTED))
    told = discreet("ingest", str(file), "--sketch", sketch_of_users, "--key", made["secret"])
    assert (told.status, told.err) == (0, "")
    assert counters(sketch_of_users) == {"/a": 2, "/b": 2, "/c": 1}
    unknown = discreet("ingest", str(file), "--sketch", f"{sketch_of_users}-not", "--key", made["secret"])
    assert unknown.status == 1


def test_only_rows_that_name_people_ask_for_the_unit(
    discreet: Discreet, sketch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[bytes | None] = []
    ask: Callable[..., Answer] = Api.ask

    def recorded(api: Api, method: str, path: str, body: bytes | None = None, **options: Any) -> Answer:
        bodies.append(body)
        return ask(api, method, path, body, **options)

    monkeypatch.setattr(Api, "ask", recorded)
    file = tmp_path / "keys.txt"
    file.write_text("/a\n/b\n")
    assert discreet("ingest", str(file), "--sketch", sketch).status == 0
    assert bodies == [b'{"events": ["/a", "/b"]}']


def test_killed_in_the_middle_and_run_again_each_person_is_sent_once(
    discreet: Discreet, server: Server, sketch: str, counters: Counts
) -> None:
    name = f"{sketch}-trusting"  # counts a person again who is sent again, so that it would be seen
    parameters = ("--k", "64", "--ledger", sketch, "--unit", "user", "--enforcement", "declared")
    assert discreet("sketches", "create", name, *parameters, "--max-contributions", "3").status == 0
    rows = as_csv((f"u{n:04}", f"/{key}") for n in range(1_000) for key in range(3)).encode()
    arguments = ("-", "--sketch", name, "--batch", "100", "--resume-key", "tuesday")
    broken = ingesting(server, *arguments)
    assert broken.stdin
    broken.stdin.write(rows[: len(rows) // 2 + 13])  # it waits for the rest in the middle of a person
    broken.stdin.flush()
    _wait_until(lambda: sum(counters(name).values()) >= 3 * 400)
    broken.kill()
    broken.communicate()
    assert sum(counters(name).values()) < 3 * 1_000
    whole = ingesting(server, *arguments)
    out, err = whole.communicate(rows, timeout=30)
    assert (whole.returncode, err) == (0, b"")
    assert out.startswith(b"1,000 people in 10 batches")
    assert counters(name) == {f"/{key}": 1_000 for key in range(3)}


def _wait_until(true: Callable[[], bool]) -> None:
    for _ in range(100):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen")
