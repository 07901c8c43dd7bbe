"""A scanner takes plain bodies, reads in them what the careful decoder reads, and leaves everything else to it."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.decoding import decode_events
from app.core import kernel
from app.core.errors import BadBatch
from app.core.kernel import twin
from tests.core.kernel.native import EQUAL_HASHES, KEYED, Events, compiled_only
from tests.core.kernel.reading import Named, events_in, named_in
from tests.fuzz.bodies import BODIES, PIECES, variants

pytestmark = compiled_only

MANY = 1000
LARGEST_COUNT = 2**31 - 1
SCANNERS: dict[str, Callable[[bytes, int], kernel.Events | None]] = {
    "json": kernel.scan_json,
    "ndjson": kernel.scan_ndjson,
    "lines": kernel.scan_lines,
}
CONTENT_TYPES = {"json": "application/json", "ndjson": "application/x-ndjson", "lines": "text/plain"}
EACH_KIND = pytest.mark.parametrize("kind", SCANNERS)


def scanned(kind: str, body: bytes, max_items: int = MANY) -> Events | None:
    batch = SCANNERS[kind](body, max_items)
    if batch is None:
        return None
    assert len(batch) == len(batch.pairs())
    assert batch.events == sum(count for _, count in batch.pairs())
    assert named(batch) == named_in(kind, body, max_items)
    return batch.pairs()


def named(batch: kernel.Events) -> Named:
    return [(key, count, user) for (key, count), user in zip(batch.pairs(), batch.users(), strict=True)]


def carefully_read(kind: str, body: bytes, max_items: int = MANY) -> Events | None:
    """What the service makes of it when no scanner runs; None of what it refuses."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernel, "NATIVE", False)
        try:
            batch = decode_events(CONTENT_TYPES[kind], "", body, max_items=max_items, max_bytes=10**6)
        except BadBatch:
            return None
    assert named(batch) == named_in(kind, body, max_items)
    return batch.pairs()


# Plain bodies are taken

PLAIN: dict[tuple[str, bytes], Events] = {
    ("json", b'{"events":[]}'): [],
    ("json", b'{"events":["a"]}'): [("a", 1)],
    ("json", b'{"events": ["a", {"key": "b"}, {"key": "c", "count": 3}]}'): [("a", 1), ("b", 1), ("c", 3)],
    ("json", b'{"events":[{"count":3,"key":"c"}]}'): [("c", 3)],
    ("json", b' \t\r\n{ \n"events"\t:\r[ \n"a" \t,\r\n"b" ] \n} \r\n'): [("a", 1), ("b", 1)],
    ("json", b'{"events":[ { "key" : "a" , "count" : 7 } , { "count"\n:\t8 ,\r"key"\n: "b" } ]}'): [("a", 7), ("b", 8)],
    ("json", b'{"events":[ \n ]}'): [],
    ("json", b'{"events":[{"key":"a","count":2147483647}]}'): [("a", LARGEST_COUNT)],
    ("json", '{"events":["é","\U0010ffff","\x7f","\u2028","a{}[],:b"]}'.encode()): [
        *(("é", 1), ("\U0010ffff", 1), ("\x7f", 1), ("\u2028", 1), ("a{}[],:b", 1))
    ],
    ("json", b'{"events":["' + b"x" * 512 + b'"]}'): [("x" * 512, 1)],
    ("json", b'{"events":[{"key":"' + "é".encode() * 256 + b'"}]}'): [("é" * 256, 1)],
    ("json", b'{"events":["key","count","events"]}'): [("key", 1), ("count", 1), ("events", 1)],
    ("json", b'{"events":[{"user":"u","key":"a"},{"key":"b","user":"v","count":2},"c"]}'): [
        ("a", 1),
        ("b", 2),
        ("c", 1),
    ],
    ("json", b'{"events":[{ "count" : 3 ,\n"user"\t: "key" , "key":"user" }]}'): [("user", 3)],
    ("json", '{"events":[{"user":"é\u2028","key":"a"}]}'.encode()): [("a", 1)],
    ("json", b'{"events":[{"user":"' + b"u" * 512 + b'","key":"a"}]}'): [("a", 1)],
    ("ndjson", b""): [],
    ("ndjson", b'{"user":"u","key":"a"}\n"b"\n{"key":"a", "user":"v"}'): [("a", 1), ("b", 1), ("a", 1)],
    ("ndjson", b'"a"'): [("a", 1)],
    ("ndjson", b'"a"\n'): [("a", 1)],
    ("ndjson", b'"a"\n{"key":"b","count":2}\n'): [("a", 1), ("b", 2)],
    ("ndjson", b'"a"\r\n\t{ "key"\t: "b" , "count" :\r2 } \r\n'): [("a", 1), ("b", 2)],
    ("ndjson", '"é"\n{"key":"\u20ac"}'.encode()): [("é", 1), ("\u20ac", 1)],
    ("ndjson", b'"' + b"x" * 512 + b'"'): [("x" * 512, 1)],
    ("lines", b""): [],
    ("lines", b"a"): [("a", 1)],
    ("lines", b"a\nb\n"): [("a", 1), ("b", 1)],
    ("lines", b"a\r\nb\r\n"): [("a", 1), ("b", 1)],
    ("lines", b"a\r\nb\r"): [("a", 1), ("b", 1)],
    ("lines", b"a\r\r\n"): [("a\r", 1)],
    ("lines", b'"a"\n \n\\n\n\0\n'): [('"a"', 1), (" ", 1), ("\\n", 1), ("\0", 1)],
    ("lines", "\ufeffé\n".encode()): [("\ufeffé", 1)],  # a byte order mark is a character like any other
    ("lines", b"x" * 512 + b"\r\n"): [("x" * 512, 1)],
}


@pytest.mark.parametrize(("kind", "body"), PLAIN, ids=[f"{kind} {body[:40]!r}" for kind, body in PLAIN])
def test_a_plain_body_is_taken_and_read_right(kind: str, body: bytes) -> None:
    """A scanner that always gives up would be correct and useless."""
    assert scanned(kind, body) == PLAIN[kind, body] == events_in(kind, body, MANY) == carefully_read(kind, body)


@EACH_KIND
def test_a_large_plain_body_is_taken(kind: str) -> None:
    keys = [f"user-{number % 997}" for number in range(20_000)]
    body = {
        "json": json.dumps({"events": keys}),
        "ndjson": "\n".join(json.dumps({"key": key, "count": 1}) for key in keys),
        "lines": "\n".join(keys),
    }[kind].encode()
    assert scanned(kind, body, 20_000) == [(key, 1) for key in keys]
    assert scanned(kind, body, 19_999) is None


@pytest.mark.parametrize("length", range(1, 70))
def test_keys_of_every_length_end_at_their_quote_wherever_the_body_ends(length: int) -> None:
    key = "x" * length
    for keys in range(1, 9):
        events = [("a", 1)] + [(key, 1)] * keys + [("b", 1), (key, 1)]
        items = [name for name, _ in events[:-1]] + [{"key": key}]
        for separators in ((",", ":"), (", ", ": ")):
            assert scanned("json", json.dumps({"events": items}, separators=separators).encode()) == events
        assert scanned("ndjson", "\n".join(map(json.dumps, items)).encode()) == events
        assert scanned("ndjson", "\n ".join(map(json.dumps, items)).encode()) == events


@pytest.mark.parametrize("mark", [b'"', b"\\", b"\x00", b"\x1f", b"\n"])
def test_a_mark_is_found_wherever_it_is_and_before_bytes_that_look_like_it(mark: bytes) -> None:
    """Many bytes are searched at once, but for the last ones of a body, and those of a first key one by one."""
    before, after = b'"a"\n"b"\n', b'\n"' + b"y" * 40 + b'"'
    for at in range(40):
        for neighbour in (b" ", b"!", b"#", b"[", b"]", b"\x7f", "\u00a2".encode(), "\u00dc".encode()):
            marked = b'"' + b"x" * at + mark + neighbour * 12 + b'"'
            fine = b'"' + b"x" * at + neighbour * 12 + b'"'
            key = (fine[1:-1].decode(), 1)
            assert scanned("ndjson", marked) is None  # a quote there ends the key too early
            assert scanned("ndjson", before + marked + after) is None
            assert scanned("ndjson", fine) == [key]
            assert scanned("ndjson", before + fine + after) == [("a", 1), ("b", 1), key, ("y" * 40, 1)]


# Everything else is left to the careful decoder

READ_CAREFULLY: dict[tuple[str, bytes], Events] = {  # which it takes
    ("json", b'{"events":["a\\n"]}'): [("a\n", 1)],
    ("json", b'{"events":["\\u0041"]}'): [("A", 1)],
    ("json", b'{"events":["\\ud83d\\ude00"]}'): [("\U0001f600", 1)],
    ("json", b'{"ev\\u0065nts":["a"]}'): [("a", 1)],
    ("json", b'{"events":[{"k\\u0065y":"a"}]}'): [("a", 1)],
    ("json", b'{"events":[{"key":"a","key":"b"}]}'): [("b", 1)],
    ("json", b'{"events":[{"key":"a","count":1,"count":2}]}'): [("a", 2)],
    ("json", b'{"events":["a"],"events":["b"]}'): [("b", 1)],
    ("json", b'{"events":[{"key":"a","user":"u","user":"v"}]}'): [("a", 1)],
    ("json", b'{"events":[{"key":"a","us\\u0065r":"u"}]}'): [("a", 1)],
    ("json", b'{"events":[{"key":"a","user":"\\u0000"}]}'): [("a", 1)],
    ("ndjson", b'"\\""'): [('"', 1)],
}
REFUSED = [
    *(("json", body) for body in (b"", b" ", b"null", b"[]", b"{}", b'"events"', b'["a"]', b'{"events":{}}')),
    *(("json", body) for body in (b'{"events":["a"]} x', b'{"events":["a"]}}', b'{"events":["a"]}\0', b"\0")),
    *(("json", body) for body in (b'{"events":["a",]}', b'{"events":[,"a"]}', b'{"events":["a" "b"]}')),
    *(("json", body) for body in (b'{"events":["a"}', b'{"events":["a"', b'{"events":["a]}', b'{"events":[')),
    *(("json", body) for body in (b'{"events":["a"],"more":1}', b'{"more":1,"events":["a"]}', b'{"Events":["a"]}')),
    *(("json", body) for body in (b'\xef\xbb\xbf{"events":["a"]}', b"{'events':['a']}", b'{"events":["a"]/**/}')),
    *(("json", body) for body in (b'{"events":[""]}', b'{"events":["a\nb"]}', b'{"events":["a\0b"]}')),
    *(("json", body) for body in (b'{"events":["\\ud800"]}', b'{"events":["\xff"]}', b'{"events":["\xed\xa0\x80"]}')),
    *(
        ("json", body)
        for body in (b'{"events":["\xc3"]}', b'{"events":["\xc0\xaf"]}', b'{"events":["\xf4\x90\x80\x80"]}')
    ),
    *(("json", b'{"events":["' + b"x" * size + b'"]}') for size in (513, 520, 5000)),
    ("json", b'{"events":["' + "é".encode() * 257 + b'"]}'),
    *(
        ("json", b'{"events":[' + item + b"]}")
        for item in (b"1", b"null", b"true", b"[]", b"{}", b'{"count":1}', b'["a"]')
    ),
    *(
        ("json", b'{"events":[{"key":"a","count":' + count + b"}]}")
        for count in (
            *(b"0", b"00", b"01", b"-1", b"+1", b"1.0", b"1e3", b"1E0", b"0x1", b"1_0", b"2147483648", b"4294967297"),
            *(b"9999999999", b"10000000000", b"18446744073709551617", b'"1"', b"true", b"null", b"NaN", b"", b"1 2"),
            *(b"\xd9\xa1", b"{}", b"1,", b',"x":1'),
        )
    ),
    *(("json", b'{"events":[{"key":' + key + b"}]}") for key in (b"1", b"null", b'""', b"[]", b'{"key":"a"}', b"")),
    *(("json", b'{"events":[' + item + b"]}") for item in (b'{"key" "a"}', b'{"key":"a""count":1}', b'{,"key":"a"}')),
    *(("json", b'{"events":[' + item + b"]}") for item in (b'{"key":"a",}', b'{"key":"a","b":1}', b'{"keys":"a"}')),
    *(
        ("json", b'{"events":[{"key":"a","user":' + user + b"}]}")
        for user in (b'""', b"1", b"null", b"true", b"[]", b'{"user":"u"}', b"", b'"u', b'"' + b"u" * 513 + b'"')
    ),
    *(
        ("json", b'{"events":[' + item + b"]}")
        for item in (b'{"user":"u"}', b'{"user":"u","count":1}', b'{"users":"u"}')
    ),
    *(("json", b'{"events":[' + item + b"]}") for item in (b'{"user":"\xff","key":"a"}', b'{"User":"u","key":"a"}')),
    *(("ndjson", body) for body in (b'{"user":"u"}', b'{"key":"a","user":"u\n"}', b'{"key":"a","user":""}')),
    *(("ndjson", body) for body in (b"\n", b'"a"\n\n', b'\n"a"', b'"a"\n\n"b"', b'"a"\n \n', b'"a"\n\t', b" ")),
    *(
        ("ndjson", body)
        for body in (b'"a" "b"', b'"a","b"', b'"a"x\n', b'["a"]', b"a", b'{"key":\n"a"}', b'\xef\xbb\xbf"a"')
    ),
    *(("ndjson", body) for body in (b'"a\n"', b'{"key":"a"\n}', b'{"key":"a","count":01}', b'"\xff"', b'"a"\n"\xc3"')),
    *(("ndjson", body) for body in (b'"a', b'{"key":"a"', b'{"key"', b"{", b'"', b'{"key":', b'{"key":"a","count":')),
    ("ndjson", b'"' + b"x" * 513 + b'"'),
    *(("lines", body) for body in (b"\n", b"a\n\n", b"\na", b"a\n\nb", b"\r\n", b"\r", b"a\n\r\n", b"a\n\r")),
    *(("lines", body) for body in (b"\xff", b"a\n\xc3\n", b"\xc3\n\xa9", b"\xed\xa0\x80", b"x" * 513)),
]


@pytest.mark.parametrize(("kind", "body"), READ_CAREFULLY, ids=[f"{kind} {body!r}" for kind, body in READ_CAREFULLY])
def test_what_only_the_careful_reader_can_read_is_left_to_it(kind: str, body: bytes) -> None:
    assert scanned(kind, body) is None
    assert READ_CAREFULLY[kind, body] == events_in(kind, body, MANY) == carefully_read(kind, body)


def test_what_is_wrong_is_left_to_the_careful_reader_which_refuses_it() -> None:
    for kind, body in REFUSED:
        assert scanned(kind, body) is None, (kind, body)
        assert events_in(kind, body, MANY) is None, (kind, body)
        assert carefully_read(kind, body) is None, (kind, body)


@EACH_KIND
def test_as_many_items_as_are_allowed_are_taken_and_not_one_more(kind: str) -> None:
    for number in (1, 2, 7):
        body = {
            "json": b'{"events":[' + b",".join([b'"a"', b'{"key":"a"}'] * number) + b"]}",
            "ndjson": b'"a"\n{"key":"a"}\n' * number,
            "lines": b"a\nb\n" * number,
        }[kind]
        assert len(scanned(kind, body, 2 * number) or []) == 2 * number
        assert len(carefully_read(kind, body, 2 * number) or []) == 2 * number
        for fewer in range(2 * number):
            assert scanned(kind, body, fewer) is None
            assert carefully_read(kind, body, fewer) is None


@EACH_KIND
def test_a_body_cut_anywhere_is_read_as_the_careful_reader_reads_what_is_left(kind: str) -> None:
    body = {
        "json": (
            ' {"events" : ["a", {"key": "é", "count": 12} , {"count":3,"user": "ü","key":"longer than one word"}]} '
        ).encode(),
        "ndjson": '"a"\r\n {"key": "é", "count": 12}\n{"count":3,"user": "ü","key":"longer than a word"}\n'.encode(),
        "lines": "a\r\né\nlonger than one word\n".encode(),
    }[kind]
    assert scanned(kind, body) is not None
    for end in range(len(body)):
        found = scanned(kind, body[:end])
        assert found is None or found == events_in(kind, body[:end], MANY) == carefully_read(kind, body[:end])


@EACH_KIND
def test_one_byte_set_to_any_value_is_read_as_the_careful_reader_reads_it(kind: str) -> None:
    body = {
        "json": b'{"events":["ab","cd", "e",{"key":"c","count":12,"user":"u"},"f" , "gh","end"]}',
        "ndjson": b'"ab"\n"cd"\n "e"\n{"user":"u","key":"c","count":12}\n"f" \n"gh"\n',
        "lines": "ab\r\né\n".encode(),
    }[kind]
    taken = 0
    for at in range(len(body)):
        for value in range(256):
            changed = body[:at] + bytes([value]) + body[at + 1 :]
            found = scanned(kind, changed)
            taken += found is not None
            assert found is None or found == events_in(kind, changed, MANY), changed
    assert taken > 300  # letters of keys and digits of counts may change


# Bodies by the thousand


@EACH_KIND
def test_whatever_is_taken_of_made_and_damaged_bodies_means_what_it_says(kind: str) -> None:
    taken = made = 0
    for seed in range(250):
        rng = Random(seed)
        most = rng.choice((1, 5, 40))
        for number, body in enumerate(variants(rng, kind, 20)):
            found, right = scanned(kind, body, most), events_in(kind, body, most)
            assert found is None or found == right, body
            taken += found is not None
            made += number == 0 and found is not None
            if number < 4:
                assert carefully_read(kind, body, most) == right, body  # so the two references agree
    assert made > 80  # of 250, some of which have too many items, or odd keys
    assert taken > 500


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10) | st.sampled_from(
    ["x" * 512, "x" * 513, "é" * 256]
)
json_items = (
    texts
    | st.fixed_dictionaries(
        {"key": texts}, optional={"count": st.integers(-1, 20) | st.integers(0, 2**32), "user": texts}
    )
    | st.fixed_dictionaries(
        {},
        optional={"key": texts, "count": st.floats(1, 9) | st.none(), "user": texts | st.none(), "other": st.none()},
    )
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(json_items, max_size=6), st.booleans(), st.sampled_from([None, 0, 2]), st.randoms(use_true_random=False)
)
def test_whatever_is_taken_of_any_json_means_what_it_says(
    items: list[Any], escaped: bool, indent: int | None, rng: Random
) -> None:
    whole = json.dumps({"events": items}, ensure_ascii=escaped, indent=indent).encode()
    lines = "\n".join(json.dumps(item, ensure_ascii=escaped) for item in items).encode()
    for kind, body in (("json", whole), ("ndjson", lines), ("lines", lines)):
        damaged = body[: rng.randint(0, len(body))] + rng.choice(PIECES) + body[rng.randint(0, len(body)) :]
        for given_body in (body, damaged):
            right = carefully_read(kind, given_body)
            assert events_in(kind, given_body, MANY) == right
            assert scanned(kind, given_body) in (None, right)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(list(BODIES)), st.binary(max_size=40) | st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
)
def test_any_bytes_are_left_or_read_as_the_careful_reader_reads_them(kind: str, body: bytes) -> None:
    right = carefully_read(kind, body)
    assert events_in(kind, body, MANY) == right
    assert scanned(kind, body) in (None, right)


def test_what_is_no_bytes_is_refused_by_its_type() -> None:
    for scan in SCANNERS.values():
        for wrong in (None, "text", bytearray(b"a"), memoryview(b"a")):
            with pytest.raises(TypeError):
                scan(wrong, 1)  # type: ignore[arg-type]


def test_a_batch_outlives_the_body_that_it_was_read_from() -> None:
    batches = [kernel.scan_lines(b"key-%d\n" % number * 50, 50) for number in range(200)]
    assert all(batch and batch.pairs() == [(f"key-{number}", 1)] * 50 for number, batch in enumerate(batches))


def test_people_of_a_scanned_body_are_those_of_a_batch_that_was_made() -> None:
    items = [(f"key-{number}", 1 + number % 3, f"user-{number * number % 11}") for number in range(300)]
    body = json.dumps({"events": [{"key": key, "count": count, "user": user} for key, count, user in items]}).encode()
    batch = kernel.scan_json(body, MANY)
    made = twin.Batch([(key, count) for key, count, _ in items], [user for _, _, user in items])
    assert batch is not None
    assert batch.people(KEYED.multipliers) == batch.people(EQUAL_HASHES.multipliers) == made.people(b"")
    assert batch.counts() == made.counts()
    granted = b"".join(number.to_bytes(4, "little") for number in [0, 1, 2] * 100)
    limited = batch.limited(granted)
    del batch, body
    assert (limited.pairs(), limited.users()) == (made.limited(granted).pairs(), made.limited(granted).users())
    assert limited.events == 300


def test_people_are_not_asked_for_with_numbers_that_do_not_fit() -> None:
    batch = kernel.batch_of([("a", 1)], ["u"])
    for wrong in (b"", bytes(3), bytes(8)):
        with pytest.raises(ValueError, match="one count for each item"):
            batch.limited(wrong)
    with pytest.raises(ValueError, match="multipliers"):
        batch.people(bytes(16))


def test_items_that_name_nobody_are_found_up_to_so_many() -> None:
    batch = kernel.scan_ndjson(b'"a"\n{"key":"a","user":"u"}\n{"key":"a"}\n"a"\n', MANY)
    assert batch is not None
    assert [batch.unnamed(most) for most in (1, 2, 3, 9)] == [[0], [0, 2], [0, 2, 3], [0, 2, 3]]
