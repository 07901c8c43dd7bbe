"""The migrated schema is the one of the models, and several starts at once migrate once."""

import json
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from hashlib import sha256
from typing import Any

import pytest
from alembic import command
from fastapi.testclient import TestClient
from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.exc import DBAPIError

from app.core.guarantee import NOT_COVERED
from app.core.kernel import batch_of, sets_of
from app.core.ledger.budget import Cost
from app.core.selection import Selection
from app.core.sketches import state
from app.core.sketches.order import Order
from app.core.sketches.stream import StreamSketch
from app.main import build_context, create_app
from app.settings import Settings
from app.store import bars, sketches, snapshots, states
from app.store.database import Database
from app.store.migrate import config, is_current, migrate
from app.store.tables import StateRow, Table
from app.usecases.audit_ledger import export_ledgers, verify_ledgers
from app.usecases.ingest.submission import Submission
from app.usecases.read_bars import read_bars
from tests import books
from tests.api.calls import release
from tests.conftest import ADMIN_KEY, NewDatabase
from tests.counting import count_one
from tests.server import Server, start, wait_until_ready
from tests.tampering import tamper

_LEDGER = text(
    "INSERT INTO ledgers (id, name, accountant, epsilon_total, delta_total, spendable, delta_spendable, spent,"
    " delta_spent, created_at, entries, head) VALUES (1, 'l', 'basic', 1, 1, 1, 1, 0, 0, '2026-01-01', 0, '')"
)
_SKETCH = text(
    "INSERT INTO sketches (id, name, ledger_id, k, unit, max_contributions, description, created_at)"
    " VALUES (:id, :name, 1, 2000, 'event', 1, '', '2026-01-01 00:00:00')"
)
_STATE = text("INSERT INTO sketch_states (sketch_id, token, state) VALUES (:id, 5, :state)")


def _schema(connection: Connection) -> dict[str, Any]:
    """Everything the database knows of our tables; checks and foreign keys too, which Alembic does not compare."""
    found = inspect(connection)
    return {
        table: {
            "columns": sorted((c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)),
            "primary key": found.get_pk_constraint(table),
            "checks": sorted((str(c["name"]), c["sqltext"]) for c in found.get_check_constraints(table)),
            "foreign keys": sorted(str(sorted(key.items())) for key in found.get_foreign_keys(table)),
            "uniques": sorted(str(sorted(key.items())) for key in found.get_unique_constraints(table)),
            "indexes": sorted(str(sorted(index.items())) for index in found.get_indexes(table)),
        }
        for table in found.get_table_names()
        if table != "alembic_version"
    }


def test_migrations_build_the_tables_of_the_models(new_database: NewDatabase) -> None:
    migrated, created = Database(new_database()), Database(new_database(migrated=False))
    with created.writing() as session:
        Table.metadata.create_all(session.connection())
    with migrated.reading() as ours, created.reading() as theirs:
        assert _schema(ours.connection()) == _schema(theirs.connection())
    migrated.close()
    created.close()


def test_a_sketch_stored_as_one_value_is_the_same_in_parts(new_database: NewDatabase) -> None:
    """As version 0004 of the tables has it."""
    sketch = StreamSketch.empty(2000, Order(b"0123456789abcdef")).extended((f"key {at}", at) for at in range(1, 2500))
    stored = state.encode(sketch)
    url = new_database(migrated=False)
    with closing(Database(url)) as database:
        with database.migrating() as connection:
            settings = config()
            settings.attributes["connection"] = connection
            command.upgrade(settings, "0004")
            connection.execute(_LEDGER)
            for number, value in ((1, stored), (2, stored[:100])):
                connection.execute(_SKETCH, {"id": number, "name": f"s{number}"})
                connection.execute(_STATE, {"id": number, "state": value})
        migrate(database)
        with database.reading() as session:
            assert states.load(session, sketches.get(session, "s1"), for_update=False) == sketch
            assert states.read(session, 2) == stored[:100]
            tokens = set(session.scalars(select(StateRow.token)))
            assert database.engine.dialect.name == "sqlite" or 5 not in tokens  # older workers remember nothing of it
    context = build_context(Settings(database_url=url))
    for count in (1, 2):
        count_one(context, "s1", Submission(batch_of([("key 9", count)])))
    assert books.counters(context.database, "s1") == sketch.extended([("key 9", 3)]).counters
    context.database.close()


_OLD_SKETCH = text(
    "INSERT INTO sketches (id, name, ledger_id, k, unit, max_contributions, enforcement, on_excess, scope_id, family,"
    " description, created_at) VALUES (:id, :name, 1, 3, 'event', 1, :enforcement, :on_excess, :scope, :family, '',"
    " '2026-01-01 00:00:00')"
)
_SCOPE = text("INSERT INTO allowance_scopes (id, name, key_check, sequence) VALUES (1, 'sketch/refusing', '', 0)")
_ORIGIN = text("INSERT INTO sketch_origins (sketch_id, origin_id) VALUES (:sketch, :origin)")
_SNAPSHOT = text(
    "INSERT INTO snapshots (id, sketch_id, created_at, document, histogram)"
    " VALUES (:id, :sketch, '2026-01-01 00:00:00', :document, '[]')"
)
_OLD_SKETCHES: list[tuple[str, str, str, str]] = [  # name, family, enforcement, on_excess
    ("stream", "stream", "declared", "drop"),
    ("people", "compact", "declared", "drop"),
    ("refusing", "stream", "enforced", "refuse"),
    ("vouched-for", "stream", "declared", "refuse"),  # nothing was refused there
    ("shared-with-refusing", "stream", "enforced", "drop"),  # in its scope
    ("sum-of-streams", "summed", "declared", "drop"),
    ("sum-of-refusing", "summed", "declared", "drop"),
]
_MARKED = {"people", "refusing", "shared-with-refusing", "sum-of-refusing"}


def _at_0005(connection: Connection) -> None:
    """With sketches of every kind that an earlier version made, and a snapshot of each."""
    settings = config()
    settings.attributes["connection"] = connection
    command.upgrade(settings, "0005")
    connection.execute(_LEDGER)
    connection.execute(_SCOPE)
    names = [name for name, *_ in _OLD_SKETCHES]
    for number, (name, family, enforcement, on_excess) in enumerate(_OLD_SKETCHES, start=1):
        values = {"id": number, "name": name, "family": family, "enforcement": enforcement, "on_excess": on_excess}
        connection.execute(_OLD_SKETCH, {**values, "scope": 1 if enforcement == "enforced" else None})
        connection.execute(_ORIGIN, {"sketch": number, "origin": number})
        document = json.dumps(_OLD_DOCUMENT)
        connection.execute(_SNAPSHOT, {"id": name, "sketch": number, "document": document})
    for target, origin in (("sum-of-streams", "stream"), ("sum-of-refusing", "refusing")):
        connection.execute(_ORIGIN, {"sketch": names.index(target) + 1, "origin": names.index(origin) + 1})
    packed = b"DSCR\x02\x02\x08\0" + struct.pack("<6IQ16sQ", 3, 1, 1, 16, 16, 0, 0, b"", 0)
    packed += struct.pack("<QIHH", 7, 0, 1, 16) + b"b".ljust(16, b"\0")
    connection.execute(_STATE, {"id": names.index("people") + 1, "state": packed})


_OLD_DOCUMENT: dict[str, Any] = {
    "mechanism": "gshm",
    "theorem": "thm:user-level",
    "epsilon": "1",
    "delta": "1e-6",
    "beta": "0.05",
    "parameters": {},
    "error_bound": {"noise_low": 1, "noise_high": 1, "sketch_low": None},
    "guarantee": "Protects somebody.",
    "charged": [],
    "remaining": [],
}


def test_sketches_that_an_earlier_version_counted_by_request_are_marked_and_say_so(new_database: NewDatabase) -> None:
    """As version 0005 of the tables has them: compact ones, those that refused excess, and what holds either's data."""
    url = new_database(migrated=False)
    with closing(Database(url)) as database:
        with database.migrating() as connection:
            _at_0005(connection)
        migrate(database)
    context = build_context(Settings(database_url=url))
    with context.database.reading() as session:
        assert {name for name, *_ in _OLD_SKETCHES if sketches.get(session, name).counted_by_request} == _MARKED
        for name, *_ in _OLD_SKETCHES:
            found = snapshots.find(session, name)
            assert found is not None
            assert found.guarantee == f"Protects somebody. {NOT_COVERED}" if name in _MARKED else "Protects somebody."
    count_one(context, "people", Submission(sets_of([(None, ["a", "b"]), (None, ["c", "d"])], 2)))
    assert books.counters(context.database, "people") == {"b": 7}  # read as it was stored, and folded one by one
    context.database.close()


_OLD_HISTOGRAM = text(
    "INSERT INTO snapshots (id, sketch_id, created_at, document, histogram)"
    " VALUES (:id, 1, '2026-01-01 00:00:00', :document, :histogram)"
)
_OLD_BARS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "one": [{"key": "a", "count": 2**64, "low": 1, "high": None}],
    "many": [
        {"key": f'{at:04}\x00\x1b"\\],é🙂' + "\x01" * 400, "count": 40 + at, "low": -at, "high": at}
        for at in range(900)
    ],
}


def test_histograms_stored_as_one_value_are_the_same_in_rows_that_nothing_changes(new_database: NewDatabase) -> None:
    """As version 0006 of the tables has them."""
    with closing(Database(new_database(migrated=False))) as database:
        with database.migrating() as connection:
            settings = config()
            settings.attributes["connection"] = connection
            command.upgrade(settings, "0006")
            connection.execute(_LEDGER)
            connection.execute(_SKETCH, {"id": 1, "name": "s"})
            for name, histogram in _OLD_BARS.items():
                document, written = json.dumps(_OLD_DOCUMENT), json.dumps(histogram)
                connection.execute(_OLD_HISTOGRAM, {"id": name, "document": document, "histogram": written})
        migrate(database)
        for name, histogram in _OLD_BARS.items():
            with database.reading() as session:
                numbers = bars.outline(session, name).numbers
                read = bars.read(session, name, dict.fromkeys(numbers))
                assert [asdict(bar) for bar in read] == histogram
                assert len(numbers) == {"none": 0, "one": 1, "many": 7}[name]
        for change in ("UPDATE snapshot_bars SET counts = '[]'", "DELETE FROM snapshot_bars"):
            with pytest.raises(DBAPIError, match="append-only"), database.writing() as session:
                session.execute(text(change))


def test_migrating_again_changes_nothing(database_url: str) -> None:
    database = Database(database_url)
    migrate(database)
    with database.reading() as session:
        assert is_current(session.connection())
    database.close()


def test_servers_that_start_together_on_an_empty_database_all_come_up_with_one_admin_key(
    new_database: NewDatabase,
) -> None:
    url = new_database(migrated=False)
    servers = [start(url, workers=workers, admin_key=None) for workers in (1, 2, 1)]
    try:
        with ThreadPoolExecutor(len(servers)) as threads:
            list(threads.map(wait_until_ready, servers))
        assert sum(_printed_keys(server) for server in servers) == 1
    finally:
        for server in servers:
            server.kill()
            server.log.unlink()


def _printed_keys(server: Server) -> int:
    return server.log.read_text().count("Admin key")


def test_a_database_without_the_schema_is_not_ready(new_database: NewDatabase) -> None:
    database = Database(new_database(migrated=False))
    with database.reading() as session:
        assert not is_current(session.connection())
    database.close()


_OLD_ENTRY = text(
    "INSERT INTO ledger_entries (ledger_id, sequence, kind, snapshot_id, created_at, reason, mechanism,"
    " mechanism_version, parameters, epsilon, delta, price, hash) VALUES (1, :sequence, :kind, :snapshot, :moment,"
    " '', :mechanism, :mechanism_version, :parameters, :epsilon_units, :delta_units, :price, :hash)"
)
_MOMENT = "2026-01-01T00:00:00.000000+00:00"


_BASIC = (
    {"epsilon_units": 10**9, "delta_units": 10**15},
    {"epsilon_units": 10**8, "delta_units": 10**12, "price": 10**8},
)
# (6, 1e-5), of which as much is spent as fitted: 119 releases of ε = 0.1 would come to the same.
_ZCDP = (
    {"epsilon_units": 6 * 10**9, "delta_units": 10**13},
    {"epsilon_units": 1_090_871_212, "delta_units": 119 * 10**9, "price": 595 * 10**12},
)


def _old_entries(total: dict[str, int], paid: dict[str, int]) -> list[dict[str, Any]]:
    """Members and hashes as version 0006 wrote them."""
    opened: dict[str, Any] = {
        "ledger": "l",
        "sequence": 1,
        "kind": "open",
        "created_at": _MOMENT,
        "reason": "",
        "snapshot": None,
        "mechanism": None,
        "mechanism_version": None,
        "parameters": None,
        "price": 0,
    } | total
    ran = {"mechanism": "pmg", "mechanism_version": 1, "parameters": {"scale": "10", "threshold": 8, "k": 3}}
    released = opened | {"sequence": 2, "kind": "release", "snapshot": "s"} | ran | paid
    entries, head = [], bytes(32)
    for entry in (opened, released):
        head = sha256(head + json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()).digest()
        entries.append(entry | {"hash": head.hex()})
    return entries


def _at_0006(
    connection: Connection, entries: list[dict[str, Any]], accountant: str, limit: tuple[int, int], *, stored: int = 2
) -> None:
    """A ledger that has paid once. Of its two entries the first `stored` are there; a test adds the other."""
    settings = config()
    settings.attributes["connection"] = connection
    command.upgrade(settings, "0006")
    connection.execute(_LEDGER)
    connection.execute(_SKETCH, {"id": 1000, "name": "old"})
    for table, column, other in (("sketch_ledgers", "ledger_id", 1), ("sketch_origins", "origin_id", 1000)):
        connection.execute(text(f"INSERT INTO {table} (sketch_id, {column}) VALUES (1000, :other)"), {"other": other})
    opened, released = entries
    cost = Cost(released["epsilon_units"], released["delta_units"]).as_strings()
    document = _OLD_DOCUMENT | {"charged": [{"ledger": "l", **cost}]}
    connection.execute(_SNAPSHOT, {"id": "s", "sketch": 1000, "document": json.dumps(document)})
    for entry in entries[:stored]:
        parameters = json.dumps(entry["parameters"]) if entry["parameters"] else None
        moment = "2026-01-01 00:00:00.000000" + ("" if connection.dialect.name == "sqlite" else "+00")
        values = {"parameters": parameters, "moment": moment, "hash": bytes.fromhex(entry["hash"])}
        connection.execute(_OLD_ENTRY, {**entry, **values})
    now: dict[str, Any] = {"accountant": accountant, "head": bytes.fromhex(released["hash"])}
    now |= {"epsilon_total": opened["epsilon_units"], "delta_total": opened["delta_units"]}
    now |= {"spendable": limit[0], "delta_spendable": limit[1]}
    now |= {"spent": released["price"], "delta_spent": released["delta_units"], "entries": 2}
    connection.execute(text(f"UPDATE ledgers SET {', '.join(f'{name} = :{name}' for name in now)}"), now)


def test_entries_of_an_earlier_version_verify_as_they_were_hashed_and_new_ones_follow(
    new_database: NewDatabase,
) -> None:
    """Exports of that version still stand, and its triggers too."""
    url, entries = new_database(migrated=False), _old_entries(*_BASIC)
    kept = [json.dumps(entry, sort_keys=True) for entry in entries]
    with closing(Database(url)) as database:
        with database.migrating() as connection:
            _at_0006(connection, entries, "basic", (10**9, 10**15))
        migrate(database)
    settings = Settings(database_url=url, admin_key=ADMIN_KEY)
    context = build_context(settings)
    assert list(export_ledgers(context)) == kept
    assert verify_ledgers(context, kept) == []
    with TestClient(create_app(settings, context), headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        assert client.put("/v1/sketches/new", json={"k": 8, "ledger": "l"}).status_code == 201
        assert release(client, "new").status_code == 201
        assert verify_ledgers(context, kept) == []
        exported = [json.loads(line) for line in export_ledgers(context)]
        assert [(entry["kind"], entry.get("form")) for entry in exported[2:]] == [("sketch", 2), ("release", 2)]
        tamper(context.database, "UPDATE ledger_entries SET reason = 'other' WHERE sequence = 1")
        assert "ledger l: entry 1 or the one before it was changed: its hash does not fit" in verify_ledgers(context)


def test_a_zcdp_ledger_that_was_full_keeps_what_it_spent_and_gains_room(new_database: NewDatabase) -> None:
    """As the version before 0009 left it: ρ + 2√(ρ·ln(1/δ′)) was its bound."""
    url, entries = new_database(migrated=False), _old_entries(*_ZCDP)
    kept = [json.dumps(entry, sort_keys=True) for entry in entries]
    with closing(Database(url)) as database:
        with database.migrating() as connection:
            _at_0006(connection, entries, "zcdp", (597_743_046_430_922, 5 * 10**12))
        with database.migrating() as connection:
            before = config()
            before.attributes["connection"] = connection
            command.upgrade(before, "0008")
        migrate(database)
    settings = Settings(database_url=url, admin_key=ADMIN_KEY)
    context = build_context(settings)
    assert list(export_ledgers(context)) == kept
    assert verify_ledgers(context, kept) == []
    with TestClient(create_app(settings, context), headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        assert client.get("/v1/ledgers/l").json()["rho"] == "0.595"
        assert client.put("/v1/sketches/new", json={"k": 8, "ledger": "l"}).status_code == 201
        statuses = [release(client, "new", delta="1e-9").status_code for _ in range(25)]
        assert statuses == [201] * 24 + [409]
        report = client.get("/v1/ledgers/l/report").json()
        assert (report["guarantee"], report["spent"]["rho"]) == ({"epsilon": "6", "delta": "1e-5"}, "0.715")
    assert verify_ledgers(context, kept) == []
    context.database.close()


_BARS_OF_0008: list[dict[str, Any]] = [  # in key order
    {"key": f"{at:04}é" + "\x01" * 100, "count": 40 + at * 7 % 10, "low": at, "high": None if at % 2 else 99}
    for at in range(30)
]
_ROW_OF_0008 = text(
    "INSERT INTO snapshot_bars (snapshot_id, number, first_key, counts, lows, highs, key_lengths, keys)"
    " VALUES ('s', :number, :first_key, :count, :low, :high, :length, :keys)"
)
_ENTRY_OF_0008 = text(str(_OLD_ENTRY).replace(" hash)", " hash, form, basis)").replace(" :hash)", " :hash, 2, :basis)"))


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _from_0006_to_0008(connection: Connection) -> None:
    """With a snapshot whose bars are stored by key, and paid for by an entry that is hashed over them so."""
    opened, released = _old_entries(*_BASIC)
    settings = config()
    settings.attributes["connection"] = connection
    command.upgrade(settings, "0008")
    for number, piece in enumerate((_BARS_OF_0008[:20], _BARS_OF_0008[20:])):
        keys = [str(bar["key"]).encode() for bar in piece]
        lists = {name: json.dumps([bar[name] for bar in piece]) for name in ("count", "low", "high")}
        row = {"number": number, "first_key": keys[0], "length": json.dumps([*map(len, keys)]), "keys": b"".join(keys)}
        connection.execute(_ROW_OF_0008, lists | row)
    document = connection.execute(text("SELECT CAST(document AS TEXT) FROM snapshots")).scalar_one()
    about = {"snapshot": "s", "sketch": "old", "created_at": _MOMENT, "document": json.loads(document)}
    hashed = [[bar["key"], bar["count"], bar["low"], bar["high"]] for bar in _BARS_OF_0008]
    basis = {"snapshot_digest": sha256(f"{_canonical(about)}\n{_canonical(hashed)}".encode()).hexdigest()}
    entry = {name: value for name, value in released.items() if name != "hash"} | {"form": 2, "basis": basis}
    head = sha256(bytes.fromhex(opened["hash"]) + _canonical(entry).encode()).digest()
    moment = "2026-01-01 00:00:00.000000" + ("" if connection.dialect.name == "sqlite" else "+00")
    written = {"parameters": json.dumps(entry["parameters"]), "basis": json.dumps(basis), "moment": moment}
    connection.execute(_ENTRY_OF_0008, entry | written | {"hash": head})
    connection.execute(text("UPDATE ledgers SET head = :head"), {"head": head})


def test_bars_that_are_stored_by_key_verify_as_they_were_hashed_and_are_read_in_both_orders(
    new_database: NewDatabase,
) -> None:
    """As version 0008 of the tables has them; no row is written anew."""
    url = new_database(migrated=False)
    with closing(Database(url)) as database:
        with database.migrating() as connection:
            _at_0006(connection, _old_entries(*_BASIC), "basic", (10**9, 10**15), stored=1)
        with database.migrating() as connection:
            _from_0006_to_0008(connection)
        migrate(database)
    context = build_context(Settings(database_url=url))
    assert verify_ledgers(context) == []
    by_count = sorted(_BARS_OF_0008, key=lambda bar: (-bar["count"], bar["key"]))
    for wanted, expected in (
        (Selection(order="key"), _BARS_OF_0008),
        (Selection(), by_count),
        (Selection(top=7), by_count[:7]),
        (Selection(top=7, order="key"), sorted(by_count[:7], key=lambda bar: bar["key"])),
        (Selection(keys=frozenset([_BARS_OF_0008[25]["key"], "x"])), [_BARS_OF_0008[25]]),
    ):
        assert [asdict(bar) for piece in read_bars(context, "s", wanted) for bar in piece] == expected
    tamper(context.database, "UPDATE snapshot_bars SET number = 2 WHERE number = 0")  # so the rows are in another order
    assert verify_ledgers(context) == ["snapshot s: it is not as it was released and paid for"]
    context.database.close()
