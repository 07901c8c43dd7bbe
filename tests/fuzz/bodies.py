"""Bodies of events in the three text types, and of people's sets in two of them.

Plain ones, ones that need the careful decoder, and ones that are a little wrong.
"""

import json
from collections.abc import Callable
from random import Random

from tests.fuzz.damage import damaged

LARGEST_COUNT = 2**31 - 1
PIECES = (
    *(b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b" ", b"\t", b"\r", b"\n", b"\r\n", b"\n\n", b"\0", b"\x1f"),
    *(b'"key"', b'"count"', b'"key":', b'"count":', b'"events"', b'{"key":"a"}', b'{"key":"a","count":1}', b'"a",'),
    *(b'"user"', b'"user":', b'"user":"u",', b',"user":"u"', b'{"user":"u","key":"a"}', b'"user":null', b'"user":""'),
    *(b"0", b"1", b"01", b"-1", b"1.0", b"1e3", b"2147483647", b"2147483648", b"99999999999", b"true", b"null", b"NaN"),
    *(b"\\u0041", b"\\ud800", b"\\n", "é".encode(), "\U0010ffff".encode(), b"\xed\xa0\x80", b"\xc3", b"\xff"),
    *(b"\xef\xbb\xbf", b"\x7f", b"\x80", b"\xe2\x80\xa8", b"x" * 8, b"y" * 512, b"z" * 513, b" " * 9),
)
SET_PIECES = (
    *PIECES,
    *(
        b'"keys"',
        b'"keys":',
        b'"keys":["a"]',
        b',"keys":["a"]',
        b'"users"',
        b'{"keys":["a"]}',
        b'{"user":"u","keys":["a"]}',
    ),
    *(b'["a"]', b'["a","a"]', b"[]", b'"a"]', b'["a",', b'[["a"]]', b"],[", b'"keys":[]', b'"keys":"a"'),
)
_ALPHABETS = ("ab", "abcdefghijklmnopqrstuvwxyz0123456789-_/ ", ",:{}[]'", "aé\u20ac\U0001f600", "\x7f ~\x80\xff")
_ODD = '"\\\n\r\t\0\x1f\u2028\ufeff'
_COUNTS = (1, 1, 1, 2, 3, 9, 10, 1000, LARGEST_COUNT)
_SET_SIZES = (1, 1, 2, 3, 3, 5, 12)
_LENGTHS = (*range(1, 10), 15, 16, 17, 24, 31, 33, 63, 64, 65)


def key(rng: Random) -> str:
    if rng.random() < 0.4:
        return f"{rng.choice('abc')}{rng.randrange(10)}"
    length = rng.choice(_LENGTHS) if rng.random() < 0.97 else rng.choice((127, 170, 256, 511, 512, 513))
    text = "".join(rng.choices(rng.choice(_ALPHABETS), k=length))
    return text + rng.choice(_ODD) if rng.random() < 0.02 else text


def user(rng: Random) -> str:
    """Often one of a few, so that people have several items."""
    return f"u{rng.randrange(4)}" if rng.random() < 0.7 else key(rng)


def count(rng: Random) -> int:
    return rng.choice(_COUNTS) if rng.random() < 0.8 else rng.randint(1, LARGEST_COUNT)


def spaces(rng: Random, kinds: str) -> str:
    return "" if rng.random() < 0.7 else "".join(rng.choices(kinds, k=rng.randint(1, 10)))


def item(rng: Random, blanks: str) -> str:
    """An item as JSON, with white space wherever it may be."""
    text = json.dumps(key(rng), ensure_ascii=rng.random() < 0.05)
    if rng.random() < 0.5:
        return text
    members = [f'"key"{spaces(rng, blanks)}:{spaces(rng, blanks)}{text}']
    if rng.random() < 0.7:
        members.append(f'"count"{spaces(rng, blanks)}:{spaces(rng, blanks)}{count(rng)}')
    if rng.random() < 0.5:
        name = json.dumps(user(rng), ensure_ascii=rng.random() < 0.05)
        members.append(f'"user"{spaces(rng, blanks)}:{spaces(rng, blanks)}{name}')
    if rng.random() < 0.3:
        rng.shuffle(members)
    if rng.random() < 0.02:
        members.append(rng.choice(members))
    return "{" + ",".join(f"{spaces(rng, blanks)}{member}{spaces(rng, blanks)}" for member in members) + "}"


def json_body(rng: Random) -> bytes:
    blanks = " \t\r\n"
    items = [f"{spaces(rng, blanks)}{item(rng, blanks)}{spaces(rng, blanks)}" for _ in range(_items(rng))]
    before, between, after = (spaces(rng, blanks) for _ in range(3))
    return f'{before}{{{between}"events"{between}:{after}[{",".join(items)}{before}]{after}}}{between}'.encode()


def ndjson_body(rng: Random) -> bytes:
    blanks = " \t\r"
    lines = [f"{spaces(rng, blanks)}{item(rng, blanks)}{spaces(rng, blanks)}" for _ in range(_items(rng))]
    return ("\n".join(lines) + rng.choice(("", "\n"))).encode()


def person(rng: Random, blanks: str) -> str:
    """A person's set as JSON, with white space wherever it may be; now and then an empty one, or a key twice."""

    def spaced(text: str) -> str:
        return f"{spaces(rng, blanks)}{text}{spaces(rng, blanks)}"

    texts = [json.dumps(key(rng), ensure_ascii=rng.random() < 0.02) for _ in range(_set_size(rng))]
    keys = "[" + ",".join(map(spaced, texts)) + "]"
    if rng.random() < 0.5:
        return keys
    members = [f'"keys"{spaces(rng, blanks)}:{spaces(rng, blanks)}{keys}']
    if rng.random() < 0.8:
        name = json.dumps(user(rng), ensure_ascii=rng.random() < 0.05)
        members.append(f'"user"{spaces(rng, blanks)}:{spaces(rng, blanks)}{name}')
    if rng.random() < 0.5:
        rng.shuffle(members)
    if rng.random() < 0.02:
        members.append(rng.choice(members))
    return "{" + ",".join(map(spaced, members)) + "}"


def _set_size(rng: Random) -> int:
    return rng.choice(_SET_SIZES) if rng.random() < 0.99 else 0


def json_sets(rng: Random) -> bytes:
    blanks = " \t\r\n"
    people = [f"{spaces(rng, blanks)}{person(rng, blanks)}{spaces(rng, blanks)}" for _ in range(_items(rng))]
    before, between, after = (spaces(rng, blanks) for _ in range(3))
    return f'{before}{{{between}"users"{between}:{after}[{",".join(people)}{before}]{after}}}{between}'.encode()


def ndjson_sets(rng: Random) -> bytes:
    blanks = " \t\r"
    lines = [f"{spaces(rng, blanks)}{person(rng, blanks)}{spaces(rng, blanks)}" for _ in range(_items(rng))]
    return ("\n".join(lines) + rng.choice(("", "\n"))).encode()


def lines_body(rng: Random) -> bytes:
    return (rng.choice(("\n", "\r\n")).join(key(rng) for _ in range(_items(rng))) + rng.choice(("", "\n"))).encode()


def _items(rng: Random) -> int:
    return rng.choice((0, 1, 2, 3, rng.randint(1, 30)))


BODIES: dict[str, Callable[[Random], bytes]] = {"json": json_body, "ndjson": ndjson_body, "lines": lines_body}
SETS: dict[str, Callable[[Random], bytes]] = {"json": json_sets, "ndjson": ndjson_sets}


def variants(rng: Random, kind: str, number: int) -> list[bytes]:
    """One body of events as it is made, and so many damaged ones."""
    made = BODIES[kind](rng)
    return [made, *(damaged(rng, made, PIECES) for _ in range(number))]


def variants_of_sets(rng: Random, kind: str, number: int) -> list[bytes]:
    """The same of people's sets."""
    made = SETS[kind](rng)
    return [made, *(damaged(rng, made, SET_PIECES) for _ in range(number))]
