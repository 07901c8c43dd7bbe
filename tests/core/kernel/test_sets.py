"""A scanner of sets takes plain bodies, reads in them what the careful decoder reads, and leaves the rest to it."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.decoding import read_sets_carefully
from app.api.decoding.items import BatchLimits
from app.core import kernel
from app.core.errors import BadBatch
from app.core.kernel import twin
from tests.core.kernel.native import KEYED, compiled_only
from tests.core.kernel.reading import People, people_in
from tests.fuzz.bodies import SET_PIECES, SETS, variants_of_sets

pytestmark = compiled_only

MANY = 1000
SCANNERS: dict[str, Callable[[bytes, int, int], kernel.Sets | None]] = {
    "json": kernel.scan_json_sets,
    "ndjson": kernel.scan_ndjson_sets,
}
CONTENT_TYPES = {"json": "application/json", "ndjson": "application/x-ndjson"}
EACH_KIND = pytest.mark.parametrize("kind", SCANNERS)


def scanned(kind: str, body: bytes, max_items: int = MANY, most_keys: int = 2) -> People | None:
    """What a scanner takes, compared in every respect with a batch of its twin; None where it gives up."""
    sets = SCANNERS[kind](body, max_items, most_keys)
    if sets is None:
        return None
    found = list(zip(sets.users(), sets.keys(), strict=True))
    made = twin.Sets(found, most_keys)
    assert len(sets) == sets.events == len(found)
    assert sets.most_keys == most_keys
    assert sets.kept() == made.kept()
    assert sets.counts() == made.counts()
    assert sets.unnamed(3) == made.unnamed(3)
    assert sets.people(KEYED.multipliers) == made.people(b"")
    assert sets.nbytes >= len(body)
    return found


def carefully_read(kind: str, body: bytes, max_items: int = MANY) -> People | None:
    """What the service makes of it when no scanner runs; None of what it refuses."""
    try:
        return read_sets_carefully(CONTENT_TYPES[kind], body, BatchLimits(items=max_items, bytes=10**6))
    except BadBatch:
        return None


# Plain bodies are taken

AB: People = [(None, ["a", "b"])]
PLAIN: dict[tuple[str, bytes], People] = {
    ("json", b'{"users":[]}'): [],
    ("json", b'{"users":[ \n ]}'): [],
    ("json", b'{"users":[["a"]]}'): [(None, ["a"])],
    ("json", b'{"users":[["a","b"]]}'): AB,
    ("json", b'{"users":[{"keys":["a","b"]}]}'): AB,
    ("json", b'{"users":[["a","a"],["a"]]}'): [(None, ["a", "a"]), (None, ["a"])],  # twice, which counts once
    ("json", b'{"users": [["a", "b"], {"user": "u", "keys": ["c"]}]}'): [*AB, ("u", ["c"])],
    ("json", b'{"users":[{"keys":["a","b"],"user":"u"},{"user":"u","keys":["a"]}]}'): [("u", ["a", "b"]), ("u", ["a"])],
    ("json", b' \t\r\n{ \n"users"\t:\r[ \n[ "a" \t,\r\n"b" ] \n, [\n"c"\t]\r] } \r\n'): [*AB, (None, ["c"])],
    ("json", b'{"users":[ { "user"\n:\t"u" ,\r"keys"\n: [ "a" ] } ]}'): [("u", ["a"])],
    ("json", b'{"users":[["user","keys","users"],{"user":"keys","keys":["user"]}]}'): [
        *((None, ["user", "keys", "users"]), ("keys", ["user"]))
    ],
    ("json", '{"users":[["é","\U0010ffff","\x7f","\u2028","a{}[],:b"],{"user":"é\u2028","keys":["ü"]}]}'.encode()): [
        *((None, ["é", "\U0010ffff", "\x7f", "\u2028", "a{}[],:b"]), ("é\u2028", ["ü"]))
    ],
    ("json", b'{"users":[{"user":"' + b"u" * 512 + b'","keys":["' + b"x" * 512 + b'"]}]}'): [("u" * 512, ["x" * 512])],
    ("json", b'{"users":[["' + "é".encode() * 256 + b'"]]}'): [(None, ["é" * 256])],
    ("ndjson", b""): [],
    ("ndjson", b'["a","b"]'): AB,
    ("ndjson", b'["a","b"]\n'): AB,
    ("ndjson", b'["a","b"]\n{"user":"u","keys":["c"]}'): [*AB, ("u", ["c"])],
    ("ndjson", b'\t[ "a"\r,\t"b" ] \r\n { "keys"\t:\r[ "c" ] , "user" : "u" }\r\n'): [*AB, ("u", ["c"])],
    ("ndjson", '["é"]\n{"keys":["\u20ac"]}'.encode()): [(None, ["é"]), (None, ["\u20ac"])],
}


@pytest.mark.parametrize(("kind", "body"), PLAIN, ids=[f"{kind} {body[:40]!r}" for kind, body in PLAIN])
def test_a_plain_body_is_taken_and_read_right(kind: str, body: bytes) -> None:
    """A scanner that always gives up would be correct and useless."""
    assert scanned(kind, body) == PLAIN[kind, body] == people_in(kind, body, MANY) == carefully_read(kind, body)


@EACH_KIND
def test_a_large_plain_body_is_taken(kind: str) -> None:
    people = [(f"user-{number % 997}", [f"key-{number * step % 811}" for step in (1, 2, 3)]) for number in range(5000)]
    items = [json.dumps({"user": user, "keys": keys}) for user, keys in people]
    body = ('{"users":[' + ",".join(items) + "]}" if kind == "json" else "\n".join(items)).encode()
    assert scanned(kind, body, 15_000) == people
    assert scanned(kind, body, 14_999) is None


@pytest.mark.parametrize("length", range(1, 70))
def test_keys_of_every_length_end_at_their_quote_wherever_the_body_ends(length: int) -> None:
    key = "x" * length
    for number in range(1, 9):
        people: People = [(None, ["a", *[key] * number]), (key, ["b"]), (None, [key])]
        items = [{"user": user, "keys": keys} if user else keys for user, keys in people]
        for separators in ((",", ":"), (", ", ": ")):
            assert scanned("json", json.dumps({"users": items}, separators=separators).encode()) == people
            lines = "\n".join(json.dumps(item, separators=separators) for item in items)
            assert scanned("ndjson", lines.encode()) == people


# Everything else is left to the careful decoder

READ_CAREFULLY: dict[tuple[str, bytes], People] = {  # which it takes
    ("json", b'{"users":[["a\\n"]]}'): [(None, ["a\n"])],
    ("json", b'{"users":[["\\u0041","b"]]}'): [(None, ["A", "b"])],
    ("json", b'{"us\\u0065rs":[["a"]]}'): [(None, ["a"])],
    ("json", b'{"users":[{"k\\u0065ys":["a"]}]}'): [(None, ["a"])],
    ("json", b'{"users":[{"keys":["a"],"keys":["b"]}]}'): [(None, ["b"])],
    ("json", b'{"users":[{"keys":["a"],"user":"u","user":"v"}]}'): [("v", ["a"])],
    ("json", b'{"users":[{"keys":[],"keys":["b"]}]}'): [(None, ["b"])],
    ("json", b'{"users":[{"keys":1,"keys":["b"]}]}'): [(None, ["b"])],
    ("json", b'{"users":[["a"]],"users":[["b"]]}'): [(None, ["b"])],
    ("json", b'{"users":[{"keys":["a"],"user":"\\u0000"}]}'): [("\0", ["a"])],
    ("ndjson", b'["\\""]'): [(None, ['"'])],
}
_ITEMS = (  # none of which is a person
    *(b"1", b"null", b"true", b'"a"', b"[]", b"{}", b"[1]", b"[null]", b'["a",1]', b'["a",null]', b'[["a"]]', b'[""]'),
    *(b'["a",""]', b'["a",]', b'[,"a"]', b'["a" "b"]', b'["a"', b'"a"]', b'["a"]]', b'["a"}', b'["a', b"[", b"{", b"]"),
    *(b'{"keys":[]}', b'{"keys":["a"],}', b'{,"keys":["a"]}', b'{"keys":["a"]"user":"u"}', b'{"keys" ["a"]}'),
    *(b'{"keys":"a"}', b'{"keys":null}', b'{"keys":{"a":1}}', b'{"keys":[["a"]]}', b'{"keys":["a",""]}', b'{"keys":}'),
    *(b'{"key":["a"]}', b'{"key":"a"}', b'{"Keys":["a"]}', b'{"keys":["a"],"count":1}', b'{"keys":["a"],"x":1}'),
    *(b'{"user":"u"}', b'{"user":"u","keys":[]}', b'{"user":"","keys":["a"]}', b'{"user":null,"keys":["a"]}'),
    *(b'{"user":1,"keys":["a"]}', b'{"user":["u"],"keys":["a"]}', b'{"user":"u" "keys":["a"]}', b'{"keys":["a"]'),
    *(b'{"keys":["a"],"keys":[]}', b'{"user":"u","user":"","keys":["a"]}', b'{"user":"u","keys":["a"],"user":1}'),
    *(b'["\xff"]', b'["\xc3"]', b'["\xed\xa0\x80"]', b'["\\ud800"]', b'{"user":"\xff","keys":["a"]}', b'["a\0"]'),
    *(b'["' + b"x" * 513 + b'"]', b'["' + "é".encode() * 257 + b'"]', b'{"user":"' + b"u" * 513 + b'","keys":["a"]}'),
    *(
        b'["a"] x',
        b'["a"],',
        b'["a"] ["b"]',
        b"['a']",
        b'["a\x1f"]',
        b"[" * 5000,
        b'["a\n"]',
        b'\xef\xbb\xbf["a"]',
        b"",
    ),
)
REFUSED = [
    *(("json", b'{"users":[' + item + b"]}") for item in _ITEMS if item),
    *(("json", b'{"users":[["b"],' + item + b"]}") for item in _ITEMS),
    *(("ndjson", b'["b"]\n' + item + b"\n") for item in _ITEMS),
    *(("json", body) for body in (b"", b" ", b"null", b"[]", b"{}", b'"users"', b'[["a"]]', b'{"users":{}}', b"\0")),
    *(("json", body) for body in (b'{"users":[["a"]]} x', b'{"users":[["a"]]}}', b'{"users":[["a"]]}\0')),
    *(
        ("json", body)
        for body in (b'{"events":[["a"]]}', b'{"users":["a"]}', b'{"Users":[["a"]]}', b'{"users":[["a"]]')
    ),
    *(("json", body) for body in (b'{"users":[["a"]],"more":1}', b'{"more":1,"users":[["a"]]}', b'{"users" [["a"]]}')),
    *(("ndjson", body) for body in (b"\n", b'["a"]\n\n', b'\n["a"]', b'["a"]\n\n["b"]', b'["a"]\n \n', b'["a"]\n\t')),
    *(("ndjson", body) for body in (b'[\n"a"]', b'["a",\n"b"]', b'{"keys":\n["a"]}', b'{"users":[["a"]]}', b" ")),
]


@pytest.mark.parametrize(("kind", "body"), READ_CAREFULLY, ids=[f"{kind} {body!r}" for kind, body in READ_CAREFULLY])
def test_what_only_the_careful_reader_can_read_is_left_to_it(kind: str, body: bytes) -> None:
    assert scanned(kind, body) is None
    assert READ_CAREFULLY[kind, body] == people_in(kind, body, MANY) == carefully_read(kind, body)


def test_what_is_wrong_is_left_to_the_careful_reader_which_refuses_it() -> None:
    for kind, body in REFUSED:
        assert scanned(kind, body) is None, (kind, body)
        assert people_in(kind, body, MANY) is None, (kind, body)
        assert carefully_read(kind, body) is None, (kind, body)


@EACH_KIND
def test_as_many_people_and_keys_as_are_allowed_are_taken_and_not_one_more(kind: str) -> None:
    for items in ([["a"]] * 7, [["a"] * 7], [["a", "b"], {"keys": ["a", "a"]}, ["c", "d", "e"]]):
        lines = [json.dumps(item) for item in items]
        body = ('{"users":[' + ",".join(lines) + "]}" if kind == "json" else "\n".join(lines)).encode()
        for most in (7, 8, 100):
            assert scanned(kind, body, most) == carefully_read(kind, body, most) == people_in(kind, body, most) != []
        for fewer in range(7):
            assert scanned(kind, body, fewer) is None
            assert carefully_read(kind, body, fewer) is None


@EACH_KIND
def test_a_body_cut_anywhere_is_read_as_the_careful_reader_reads_what_is_left(kind: str) -> None:
    body = {
        "json": ' {"users" : [["a", "é"] , {"keys": ["b"], "user": "ü"},{"keys":["longer than one word"]}]} '.encode(),
        "ndjson": '["a", "é"]\r\n {"keys": ["b"], "user": "ü"}\n{"keys":["longer than one word"]}\n'.encode(),
    }[kind]
    assert scanned(kind, body) is not None
    for end in range(len(body)):
        found = scanned(kind, body[:end])
        assert found is None or found == people_in(kind, body[:end], MANY) == carefully_read(kind, body[:end])


@EACH_KIND
def test_one_byte_set_to_any_value_is_read_as_the_careful_reader_reads_it(kind: str) -> None:
    body = {
        "json": b'{"users":[["ab", "c"],{"user":"u","keys":["d"]} , {"keys" : ["e"]}]}',
        "ndjson": b'["ab", "c"]\n{"user":"u","keys":["d"]}\n {"keys" : ["e"]}\n',
    }[kind]
    taken = 0
    for at in range(len(body)):
        for value in range(256):
            changed = body[:at] + bytes([value]) + body[at + 1 :]
            found = scanned(kind, changed)
            taken += found is not None
            assert found is None or found == people_in(kind, changed, MANY), changed
    assert taken > 300  # letters of keys may change


# Bodies by the thousand


@EACH_KIND
def test_whatever_is_taken_of_made_and_damaged_bodies_means_what_it_says(kind: str) -> None:
    taken = made = 0
    for seed in range(250):
        rng = Random(seed)
        most = rng.choice((1, 8, 200))
        for number, body in enumerate(variants_of_sets(rng, kind, 20)):
            found, right = scanned(kind, body, most), people_in(kind, body, most)
            assert found is None or found == right, body
            taken += found is not None
            made += number == 0 and found is not None
            if number < 4:
                assert carefully_read(kind, body, most) == right, body  # so the two references agree
    assert made > 60  # of 250, some of which have too many keys, or odd ones
    assert taken > 300


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10) | st.sampled_from(
    ["x" * 512, "x" * 513, "é" * 256]
)
key_lists = st.lists(texts, max_size=5)
odd_lists = st.lists(texts | st.integers() | st.none() | key_lists, max_size=3)
json_people = (
    key_lists
    | st.fixed_dictionaries({"keys": key_lists}, optional={"user": texts})
    | odd_lists
    | st.fixed_dictionaries(
        {}, optional={"keys": odd_lists | texts, "user": texts | st.none(), "key": texts, "count": st.integers()}
    )
)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(json_people, max_size=6), st.booleans(), st.sampled_from([None, 0, 2]), st.randoms(use_true_random=False)
)
def test_whatever_is_taken_of_any_json_means_what_it_says(
    items: list[Any], escaped: bool, indent: int | None, rng: Random
) -> None:
    whole = json.dumps({"users": items}, ensure_ascii=escaped, indent=indent).encode()
    lines = "\n".join(json.dumps(item, ensure_ascii=escaped) for item in items).encode()
    for kind, body in (("json", whole), ("ndjson", lines)):
        damaged = body[: rng.randint(0, len(body))] + rng.choice(SET_PIECES) + body[rng.randint(0, len(body)) :]
        for given_body in (body, damaged):
            right = carefully_read(kind, given_body)
            assert people_in(kind, given_body, MANY) == right
            assert scanned(kind, given_body) in (None, right)


@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(list(SETS)),
    st.binary(max_size=40) | st.lists(st.sampled_from(SET_PIECES), max_size=12).map(b"".join),
)
def test_any_bytes_are_left_or_read_as_the_careful_reader_reads_them(kind: str, body: bytes) -> None:
    right = carefully_read(kind, body)
    assert people_in(kind, body, MANY) == right
    assert scanned(kind, body) in (None, right)


def test_what_is_no_bytes_is_refused_by_its_type() -> None:
    for scan in SCANNERS.values():
        for wrong in (None, "text", bytearray(b"a"), memoryview(b"a")):
            with pytest.raises(TypeError):
                scan(wrong, 1, 1)  # type: ignore[arg-type]
