"""What a release rests on cannot be changed unseen: snapshots, parameters, lineage, ledgers."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from app.core.ledger import basis
from app.usecases.audit_ledger import export_ledgers, verify_ledgers
from app.usecases.context import Context
from tests.api.calls import create_sketch, merge, post_events, release
from tests.tampering import tamper

_FIRST = "snapshot_id = (SELECT id FROM snapshots WHERE number = 1)"
_AB = "(SELECT id FROM sketches WHERE name = 'ab')"
_B = "(SELECT id FROM ledgers WHERE name = 'b')"


@pytest.fixture(autouse=True)
def _history(client: TestClient) -> None:
    """A merged sketch with releases, a merged one without, one over a universe, and a ledger that bounds people."""
    for name in ("a", "b"):
        create_sketch(client, name)
        post_events(client, [{"key": name, "count": 2000}], name)
    for target in ("ab", "unreleased"):
        assert merge(client, target, "a", "b").status_code == 201
    chosen = {"k": 8, "ledger": "a", "universe": {"values": ["x", "y"]}}
    assert client.put("/v1/sketches/chosen", json=chosen).status_code == 201
    bounded = {"epsilon": "1", "delta": "1e-3", "contributions": {"unit": "event", "max": 2}}
    assert client.put("/v1/ledgers/bounded", json=bounded).status_code == 201
    for name in ("a", "ab", "ab"):
        assert release(client, name, epsilon="0.2").status_code == 201


def test_an_honest_history_has_no_fault(client: TestClient, context: Context) -> None:
    assert verify_ledgers(context, export_ledgers(context)) == []
    assert merge(client, "more", "ab", mode="compact").status_code == 201
    assert client.delete("/v1/sketches/b").status_code == 204
    assert client.post("/v1/sketches/a/close").status_code == 200
    assert release(client, "more").status_code == 201
    assert verify_ledgers(context) == []


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        (f"DELETE FROM sketch_ledgers WHERE sketch_id = {_AB} AND ledger_id = {_B}", "sketch ab: ledger b no longer"),
        (f"DELETE FROM sketch_origins WHERE sketch_id = {_AB}", "sketch ab: the set of sketches"),
        ("DELETE FROM sketch_ledgers WHERE sketch_id <> ledger_id", "sketch unreleased: ledger b no longer"),
        ("UPDATE sketches SET ledger_id = 2 WHERE name = 'a'", "sketch a: its ledger is not the one"),
        (
            "UPDATE sketches SET max_contributions = 7 WHERE name = 'a'",
            "sketch a: max_contributions is not what ledger a",
        ),
        ("UPDATE sketches SET k = 63 WHERE name = 'unreleased'", "sketch unreleased: k is not"),
        ("UPDATE sketches SET family = 'stream' WHERE name = 'ab'", "sketch ab: family is not"),
        ("UPDATE sketches SET sources = 2 WHERE name = 'ab'", "sketch ab: sources is not"),
        ("UPDATE sketches SET counted_by_request = true WHERE name = 'b'", "sketch b: counted_by_request is not"),
        (
            "UPDATE sketches SET universe = '{\"values\"\\: [\"x\"]}' WHERE name = 'chosen'",
            "sketch chosen: universe is not",
        ),
        ("UPDATE sketches SET name = 'c' WHERE name = 'b'", "sketch b: ledger b, entry"),
        ("UPDATE ledgers SET max_contributions = 9 WHERE name = 'bounded'", "ledger bounded: its accountant, or"),
        ("UPDATE ledgers SET contribution_unit = NULL WHERE name = 'bounded'", "ledger bounded: its accountant, or"),
        ("UPDATE ledgers SET accountant = 'zcdp' WHERE name = 'bounded'", "ledger bounded: its accountant, or"),
        ("UPDATE snapshots SET sketch_id = 2 WHERE number = 1", "it is not as it was released"),
        ("UPDATE snapshots SET created_at = '2026-01-01 00:00:00.000000' WHERE number = 1", "it is not as it was"),
        (f"DELETE FROM snapshot_bars WHERE {_FIRST}", "it is not as it was released"),
        (f"UPDATE snapshot_bars SET counts = '[]' WHERE {_FIRST}", "it is not as it was released"),
        (f"UPDATE snapshot_bars SET highs = '[{{}}]' WHERE {_FIRST}", "it is not as it was released"),
        (f"UPDATE snapshot_bars SET counts = '7' WHERE {_FIRST}", "it is no document any more"),
        ("UPDATE snapshots SET document = '{}' WHERE number = 1", "it is no document any more"),
        ("UPDATE ledger_entries SET basis = NULL, form = 1 WHERE kind = 'merge'", "or the one before it was changed"),
    ],
)
def test_what_was_changed_beside_the_entries_is_found_and_named(context: Context, statement: str, fault: str) -> None:
    tamper(context.database, statement.replace("\\:", ":"))
    assert [found for found in verify_ledgers(context) if fault in found], verify_ledgers(context)


@pytest.mark.parametrize("member", ["guarantee", "beta", "error_bound"])
def test_a_rewritten_text_of_a_snapshot_is_found(context: Context, member: str) -> None:
    document = _stored(context, "document")
    document[member] = "something else"
    tamper(context.database, f"UPDATE snapshots SET document = '{_quoted(document)}' WHERE number = 1")
    (fault,) = verify_ledgers(context)
    assert fault.endswith("it is not as it was released and paid for")


def test_one_count_that_was_changed_is_found(context: Context) -> None:
    counts = _stored_bars(context, "counts")
    counts[0] += 1
    tamper(context.database, f"UPDATE snapshot_bars SET counts = '{_quoted(counts)}' WHERE {_FIRST}")
    (fault,) = verify_ledgers(context)
    assert fault.endswith("it is not as it was released and paid for")


def test_what_says_where_a_key_is_cannot_be_changed_unseen(context: Context) -> None:
    """Or readers by key would get some bars twice, and others never."""
    ranks = _stored_bars(context, "key_ranks")
    assert sorted(ranks) == list(range(len(ranks)))
    for changed in ("NULL", f"'{_quoted([*ranks, 0])}'", f"'{_quoted([rank + 1 for rank in ranks])}'"):
        tamper(context.database, f"UPDATE snapshot_bars SET key_ranks = {changed} WHERE {_FIRST}")
        (fault,) = verify_ledgers(context)
        assert fault.endswith("it is not as it was released and paid for")
    tamper(context.database, f"UPDATE snapshot_bars SET key_ranks = '{_quoted(ranks)}' WHERE {_FIRST}")
    assert verify_ledgers(context) == []


def test_the_same_values_written_otherwise_are_the_same_release(context: Context) -> None:
    """The digest is of what was released, not of how it is stored."""
    document = json.dumps(_stored(context, "document"), indent=1, sort_keys=True, ensure_ascii=False)
    tamper(
        context.database, f"UPDATE snapshots SET document = '{document.replace(chr(39), 2 * chr(39))}' WHERE number = 1"
    )
    counts = json.dumps(_stored_bars(context, "counts"), indent=1)
    tamper(context.database, f"UPDATE snapshot_bars SET counts = '{counts}' WHERE {_FIRST}")
    assert verify_ledgers(context) == []


def test_a_digest_does_not_depend_on_how_many_bars_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[basis.HashedBar] = [(f"key {number}", number, 0, None, number) for number in range(10)]

    def of(bars: list[basis.HashedBar]) -> str:
        return basis.snapshot_digest(snapshot="s", sketches=["a"], created_at="now", document={"x": 1}, bars=iter(bars))

    whole = of(bars)
    for together in (1, 3, 10, 11):
        monkeypatch.setattr(basis, "_TOGETHER", together)
        assert of(bars) == whole
    without_ranks: list[basis.HashedBar] = [(key, count, low, high) for key, count, low, high, *_ in bars]
    assert len({whole, of(bars[:-1]), of([]), of(bars[::-1]), of(without_ranks)}) == 5


def _stored(context: Context, column: str) -> Any:
    return _read(context, f"SELECT {column} FROM snapshots WHERE number = 1")


def _stored_bars(context: Context, column: str) -> Any:
    return _read(context, f"SELECT {column} FROM snapshot_bars WHERE {_FIRST} AND number = 0")


def _read(context: Context, query: str) -> Any:
    with context.database.reading() as session:
        found = session.execute(text(query)).scalar_one()
    return json.loads(found) if isinstance(found, str) else found


def _quoted(value: Any) -> str:
    return json.dumps(value).replace("'", "''")
