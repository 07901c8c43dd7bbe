"""The command line says what it did, or what to change, in a line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from app import __version__
from app.cli import _read_export
from app.store.database import Database
from tests.api.calls import create_sketch, release
from tests.conftest import NewDatabase
from tests.server import running


def _discreet(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DISCREET_DATABASE_URL": url}
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_ledgers_are_exported_and_verified(database_url: str, tmp_path: Path) -> None:
    with running(database_url) as server, server.client() as client:
        create_sketch(client)
        release(client)
    exported = _discreet(database_url, "ledger", "export")
    assert [json.loads(line)["kind"] for line in exported.stdout.splitlines()] == ["open", "sketch", "release"]
    kept = tmp_path / "kept.jsonl"
    kept.write_text(exported.stdout)
    verified = _discreet(database_url, "ledger", "verify", "--against", str(kept))
    assert (verified.returncode, verified.stdout) == (0, "The ledgers are intact.\n")
    database = Database(database_url)
    with database.writing() as session:
        session.execute(text("UPDATE ledgers SET spent = 0"))
    database.close()
    tampered = _discreet(database_url, "ledger", "verify")
    assert tampered.returncode == 1
    assert "ledger views: what is spent is not the sum of the entries" in tampered.stderr


@pytest.mark.parametrize(
    "kept", [None, "", "\n", "no JSON\n", "[]\n", '{"ledger": "views"}\n', '{"ledger": "vi', "\xff"]
)
def test_an_export_that_proves_nothing_is_refused(kept: str | None, tmp_path: Path) -> None:
    """Else an old database would pass where an export had failed or was cut off."""
    file = tmp_path / "kept.jsonl"
    if kept is not None:
        file.write_bytes(kept.encode("latin-1"))
    with pytest.raises(SystemExit, match="not an export of ledgers"):
        _read_export(str(file))


def test_migrate_brings_an_empty_database_up_to_date(new_database: NewDatabase) -> None:
    url = new_database(migrated=False)
    done = _discreet(url, "migrate")
    assert (done.returncode, done.stdout) == (0, "The database schema is up to date.\n")


def test_a_database_of_a_newer_version_is_left_alone(database_url: str) -> None:
    database = Database(database_url)
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    for command in ("migrate", "serve"):
        refused = _discreet(database_url, command)
        assert refused.returncode == 1
        assert "newer version" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_what_cannot_be_reached_or_is_set_wrongly_is_said_in_a_line(tmp_path: Path) -> None:
    away = _discreet("postgresql://nobody@127.0.0.1:1/none", "serve")
    nonsense = _discreet("mysql://h/d", "serve")
    unknown = _discreet("postgresql://127.0.0.1:1/none?connect_timeout=soon", "migrate")
    answers = [(away, "cannot be reached"), (unknown, "cannot be reached"), (nonsense, "DISCREET_DATABASE_URL")]
    commands = (("serve",), ("migrate",), ("doctor",), ("openapi",), ("ledger", "verify"), ("ledger", "export"))
    malformed = [_discreet("postgresql://u:a-password@h:port/d", *command) for command in commands]
    answers += [(answer, "is not well formed") for answer in malformed]
    for answer, word in answers:
        assert answer.returncode == 1
        assert "a-password" not in answer.stderr
        assert word in answer.stderr
        assert "Traceback" not in answer.stderr


def test_the_database_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """It holds true counts."""
    path = tmp_path / "folder" / "discreet.db"
    _discreet(f"sqlite:///{path}", "migrate")
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_the_version_is_told() -> None:
    assert _discreet("sqlite:///unused", "--version").stdout == f"discreet {__version__}\n"


def test_commands_that_ask_a_server_need_no_database_and_start_fast() -> None:
    asked = _discreet("mysql://not/ours", "sketches", "list", "--key", "a key", "--url", "http://127.0.0.1:1")
    assert asked.returncode == 1
    assert "No server answers at http://127.0.0.1:1" in asked.stderr
    code = "import sys, app.cli; print({'fastapi', 'numpy', 'sqlalchemy'} & set(sys.modules))"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert imported.stdout == "set()\n"


def test_the_help_names_every_command() -> None:
    shown = _discreet("sqlite:///unused", "--help").stdout
    for command in (
        "demo",
        "serve",
        "ledger",
        "sketches",
        "ingest",
        "plan",
        "snapshot",
        "histogram",
        "ledgers",
        "keys",
    ):
        assert f"\n    {command} " in shown
