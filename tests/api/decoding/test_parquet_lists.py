"""Attacks with list columns in Parquet files: odd footers, and pages that tell of other lists than were declared."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.decoding import footer, thrift
from app.api.decoding.footer import Chunk, Column, Footer, Group
from app.api.decoding.shapes import EVENTS, USERS
from app.api.decoding.thrift import BINARY, I32, I64, LIST, STRUCT, Fields
from app.core.errors import BadBatch
from tests.api.decoding.bodies import PARQUET, decoded, decoded_sets, parquet

_NOT_VALID = "The body is not a valid Parquet file."
_NO_STATISTICS = {
    "write_statistics": False,
    "store_schema": False,
}  # they have truth values, which are not written here

_TOO_MANY_KEYS = (
    "A batch may have at most 1000 keys in all its sets together; send several, and of each person no more than the "
    "first different keys that the sketch counts."
)


def _refusal(body: bytes) -> BadBatch:
    with pytest.raises(BadBatch) as refusal:
        decoded_sets(PARQUET, body)
    return refusal.value


# Pages. Of a list that may be null, of texts that may be null, a definition level is 0 for a null list, 1 for an empty
# one, 2 for a null text and 3 for a text; a repetition level is 0 where a list begins and 1 where it goes on.

_NULL, _EMPTY, _NULL_KEY, _KEY = range(4)


def _levels(levels: Sequence[int], bits: int) -> bytes:
    """One bit-packed run of eight, the last of them unused."""
    return b"\x03" + sum(level << (place * bits) for place, level in enumerate(levels)).to_bytes(bits, "little")


def _texts(count: int) -> bytes:
    return b"".join(b"\1\0\0\0" + bytes((ord("a") + number,)) for number in range(count))


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(4, "little") + part


def _file(page: bytes, *, slots: int, rows: int) -> bytes:
    chunk = Chunk(codec=0, values=slots, size=len(page), data_at=4, dictionary_at=None)
    column = Column(name="keys", type=6, converted_type=0, repetition=1, list_repetition=1)
    return footer.joined(memoryview(b"PAR1" + page), Footer([column], [Group(rows, [chunk])]))


def _page(starts: bytes, defined: bytes, texts: bytes, *, slots: int) -> bytes:
    data = _sized(starts) + _sized(defined) + texts
    described: Fields = {1: (I32, slots), 2: (I32, 0), 3: (I32, 3), 4: (I32, 3)}
    return thrift.written({1: (I32, 0), 2: (I32, len(data)), 3: (I32, len(data)), 5: (STRUCT, described)}) + data


def _page_v2(starts: bytes, defined: bytes, texts: bytes, *, slots: int, **said: int) -> bytes:
    data = starts + defined + texts
    described: Fields = {
        1: (I32, slots),
        2: (I32, said.get("nulls", 0)),
        3: (I32, said.get("rows", 1)),
        4: (I32, 0),
        5: (I32, said.get("size_of_defined", len(defined))),
        6: (I32, said.get("size_of_starts", len(starts))),
    }
    return thrift.written({1: (I32, 3), 2: (I32, len(data)), 3: (I32, len(data)), 8: (STRUCT, described)}) + data


def _meant(starts: Sequence[int], defined: Sequence[int], rows: int) -> list[list[str | None]] | None:
    """The lists that the levels tell of; none if they contradict themselves or the number of rows."""
    sets: list[list[str | None]] = []
    keys = iter("abcdefgh")
    for place, (goes_on, level) in enumerate(zip(starts, defined, strict=True)):
        if goes_on and (place == 0 or min(level, defined[place - 1]) < _NULL_KEY):
            return None
        if not goes_on:
            sets.append([])
        if level >= _NULL_KEY:
            sets[-1].append(next(keys) if level == _KEY else None)
    return sets if len(sets) == rows else None


def _level_streams(slots: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    return product(product(range(2), repeat=slots), product(range(4), repeat=slots))


@pytest.mark.parametrize("page", [_page, _page_v2])
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_levels_are_read_as_they_are_meant_or_refused(page: Callable[..., bytes], slots: int) -> None:
    """All there are, for every number of rows, and with a text too few."""
    for (starts, defined), rows in product(_level_streams(slots), range(1, slots + 1)):
        texts = defined.count(_KEY)
        meant = _meant(starts, defined, rows)
        parts = _levels(starts, 1), _levels(defined, 2)
        body = _file(page(*parts, _texts(texts), slots=slots), slots=slots, rows=rows)
        if meant is None:
            _refusal(body)
        elif bad := [place for place, keys in enumerate(meant) if not keys or None in keys]:
            assert [place for place, _ in _refusal(body).items] == bad
        else:
            assert decoded_sets(PARQUET, body) == [(None, keys) for keys in meant]
        if texts:
            _refusal(_file(page(*parts, _texts(texts - 1), slots=slots), slots=slots, rows=rows))


@settings(max_examples=300, deadline=None)
@given(
    page=st.sampled_from([_page, _page_v2]),
    starts=st.binary(max_size=6),
    defined=st.binary(max_size=6),
    slots=st.integers(1, 1000),
    rows=st.integers(1, 1000),
)
def test_any_levels_are_taken_or_refused(
    page: Callable[..., bytes], starts: bytes, defined: bytes, slots: int, rows: int
) -> None:
    body = _file(page(starts, defined, _texts(9), slots=slots), slots=slots, rows=min(rows, slots))
    try:
        sets = decoded_sets(PARQUET, body)
    except BadBatch:
        return
    assert len(sets) == min(rows, slots)
    assert sum(len(keys) for _, keys in sets) == slots


def test_levels_of_another_size_than_they_have_are_refused() -> None:
    starts, defined = _levels([0, 1], 1), _levels([_KEY, _KEY], 2)
    for said in product([0, 1, 2, 3, 5, 9, 100, 2**31 - 1, -1, -(2**31)], repeat=2):
        sizes = {"size_of_starts": said[0], "size_of_defined": said[1]}
        body = _file(_page_v2(starts, defined, _texts(2), slots=2, **sizes), slots=2, rows=1)
        if said == (len(starts), len(defined)):
            assert decoded_sets(PARQUET, body) == [(None, ["a", "b"])]
        else:
            assert _refusal(body).reason == _NOT_VALID


def test_a_run_of_levels_may_be_longer_than_its_page_and_gives_no_more_keys() -> None:
    run = b"\xfe\xff\xff\xff\x0f"  # two thousand million times what follows
    body = _file(_page(run + b"\0", run + bytes((_KEY,)), _texts(3), slots=3), slots=3, rows=3)
    assert decoded_sets(PARQUET, body) == [(None, ["a"]), (None, ["b"]), (None, ["c"])]
    nulls = _file(_page(run + b"\1", run + bytes((_NULL_KEY,)), b"", slots=1000), slots=1000, rows=1000)
    assert _refusal(nulls).reason == _NOT_VALID


@pytest.mark.parametrize("slots", [1002, 2000, 2**31, 2**40, 2**62])
def test_more_values_than_keys_and_rows_are_allowed_are_refused_for_what_the_footer_declares(slots: int) -> None:
    page = _page(_levels([0], 1), _levels([_KEY], 2), _texts(1), slots=1)
    reason = _refusal(_file(page, slots=slots, rows=1)).reason
    assert reason == _TOO_MANY_KEYS


def test_values_are_counted_over_all_row_groups() -> None:
    page = _page(b"\xd0\x0f\0", b"\xd0\x0f" + bytes((_KEY,)), _texts(1) * 1000, slots=1000)
    body = _file(page, slots=1000, rows=1000)
    assert len(decoded_sets(PARQUET, body)) == 1000
    pages, described = footer.split(body, USERS)
    one_each = [Group(1, group.chunks) for group in described.groups] * 3
    reason = _refusal(footer.joined(pages, Footer(described.columns, one_each))).reason
    assert reason == _TOO_MANY_KEYS


# Footers


def _file_with(change: Callable[[Fields], None], **columns: Any) -> bytes:
    """A file of two people, its footer changed."""
    rows = pa.table(columns or {"user": ["u", "v"], "keys": [["a", "b"], ["c"]]})
    body = parquet(rows, compression="none", use_dictionary=False, **_NO_STATISTICS)
    size = int.from_bytes(body[-8:-4], "little")
    fields = thrift.Decoder(memoryview(body)[-8 - size : -8]).read_struct()
    change(fields)
    changed = thrift.written(dict(sorted(fields.items())))
    return body[: -8 - size] + changed + len(changed).to_bytes(4, "little") + b"PAR1"


def _schema(fields: Fields) -> list[Fields]:
    """Its elements: root, user, keys, list and element."""
    elements: list[Fields] = fields[2][1][1]
    return elements


def _group(fields: Fields) -> Fields:
    """The only row group."""
    return thrift.structs(fields, 4)[0]


def _chunk(fields: Fields) -> Fields:
    """The metadata of its list column."""
    metadata: Fields = thrift.structs(_group(fields), 1)[1][3][1]
    return metadata


def _set(element: int, field: int, value: Any, kind: int = I32) -> Callable[[Fields], None]:
    def change(fields: Fields) -> None:
        target = _schema(fields)[element]
        target.update({field: (kind, value)}) if value is not None else target.pop(field, None)
        _schema(fields)[element] = dict(sorted(target.items()))

    return change


def _all_of(*changes: Callable[[Fields], None]) -> Callable[[Fields], None]:
    def change_all(fields: Fields) -> None:
        for change in changes:
            change(fields)

    return change_all


_SETS = [("u", ["a", "b"]), ("v", ["c"])]
_ROOT, _USER, _OUTER, _INNER, _ELEMENT = range(5)
_LOGICAL_LIST: Fields = {3: (STRUCT, {})}


def test_a_file_whose_footer_was_written_here_is_taken() -> None:
    """So that what follows is refused for what was changed."""
    assert decoded_sets(PARQUET, _file_with(lambda _: None)) == _SETS


@pytest.mark.parametrize("names", [("list", "element"), ("list", "item"), ("bag", "array_element"), ("array", "é")])
def test_the_elements_inside_a_list_may_have_any_name(names: tuple[str, str]) -> None:
    group, element = (name.encode() for name in names)
    body = _file_with(_all_of(_set(_INNER, 4, group, BINARY), _set(_ELEMENT, 4, element, BINARY)))
    assert decoded_sets(PARQUET, body) == _SETS


def test_a_list_may_be_known_by_either_of_its_annotations() -> None:
    for older, newer in ((3, None), (None, _LOGICAL_LIST), (3, _LOGICAL_LIST)):
        body = _file_with(_all_of(_set(_OUTER, 6, older), _set(_OUTER, 10, newer, STRUCT)))
        assert decoded_sets(PARQUET, body) == _SETS


@pytest.mark.parametrize(
    "change",
    [
        *(_set(_OUTER, 5, children) for children in (0, 2, 3, -1, 2**31 - 1, None)),
        *(_set(_INNER, 5, children) for children in (0, 2, -1, 2**31 - 1, None)),
        *(_set(_ELEMENT, 5, children) for children in (0, 1, 2)),
        *(_set(_USER, 5, children) for children in (0, 1, 3)),
        *(_set(_OUTER, 6, annotation) for annotation in (0, 1, 2, 99)),  # a text, a map, …
        _all_of(_set(_OUTER, 6, None), _set(_OUTER, 10, None)),
        *(_set(_INNER, 3, repetition) for repetition in (0, 1, 3, None)),
        *(_set(_INNER, 6, annotation) for annotation in (2, 3)),
        *(_set(_INNER, 1, kind) for kind in (1, 6)),
        *(_set(_OUTER, 3, repetition) for repetition in (2, 3)),
        *(_set(_ELEMENT, 3, repetition) for repetition in (2, 3)),
        *(_set(_ELEMENT, 1, kind) for kind in (0, 1, 2, 5)),
        *(_set(_ELEMENT, 6, annotation) for annotation in (1, 3, 5)),
        *(lambda fields, left=left: _schema(fields).__delitem__(slice(left, None)) for left in (3, 4)),
        lambda fields: _schema(fields).insert(_INNER, _schema(fields)[_INNER]),
        lambda fields: _schema(fields).__setitem__(slice(_OUTER, None), [_schema(fields)[_OUTER]] * 500),
    ],
)
def test_other_structures_than_a_list_of_texts_are_refused(change: Callable[[Fields], None]) -> None:
    assert _refusal(_file_with(change)).reason == USERS.types


@pytest.mark.parametrize(
    "change",
    [
        *(_set(_ROOT, 5, children) for children in (0, 1, 3, 5, -1, 2**31 - 1, None)),
        *(_set(_OUTER, 3, repetition) for repetition in (None, -1)),
        *(_set(_ELEMENT, field, None) for field in (1, 3)),
        *(lambda fields, left=left: _schema(fields).__delitem__(slice(left, None)) for left in (0, 1)),
        *(lambda fields, count=count: _chunk(fields).update({5: (I64, count)}) for count in (0, 1, 2, 4, 900, -1)),
        *(lambda fields, at=at: _chunk(fields).update({9: (I64, at)}) for at in (0, 1, 3, 10**6, -1)),
        *(lambda fields, size=size: _chunk(fields).update({7: (I64, size)}) for size in (0, 1, 10, -1)),
        *(lambda fields, rows=rows: _group(fields).update({3: (I64, rows)}) for rows in (0, 1, 3, -1)),
        lambda fields: _group(fields).update({1: (LIST, (STRUCT, thrift.structs(_group(fields), 1)[:1]))}),
        lambda fields: _group(fields).update({1: (LIST, (STRUCT, thrift.structs(_group(fields), 1)[::-1]))}),
    ],
)
def test_footers_that_contradict_themselves_or_the_pages_are_refused(change: Callable[[Fields], None]) -> None:
    assert _refusal(_file_with(change)).reason == _NOT_VALID


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_people_without_names_are_as_many_as_declared(rows: int) -> None:
    keys = [["a", "b"], ["c"]]
    assert decoded_sets(PARQUET, _file_with(lambda _: None, keys=keys)) == [(None, each) for each in keys]
    body = _file_with(lambda fields: _group(fields).update({3: (I64, rows)}), keys=keys)
    assert _refusal(body).reason == _NOT_VALID


@pytest.mark.parametrize("depth", [2, 3, 20, 100])
def test_lists_in_lists_are_refused(depth: int) -> None:
    kind: Any = pa.string()
    for _ in range(depth):
        kind = pa.list_(kind)
    rows = pa.table({"keys": pa.array([None], kind)})
    assert _refusal(parquet(rows, **_NO_STATISTICS)).reason == USERS.types
    with pytest.raises(BadBatch) as refusal:
        decoded(PARQUET, parquet(rows.rename_columns(["key"]), **_NO_STATISTICS))
    assert refusal.value.reason == EVENTS.types


def test_a_list_for_an_event_is_refused() -> None:
    with pytest.raises(BadBatch) as refusal:
        decoded(PARQUET, parquet(pa.table({"key": [["a"]]})))
    assert refusal.value.reason == EVENTS.types
