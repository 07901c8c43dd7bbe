"""`discreet doctor` finds what is wrong, says what to do, changes nothing and tells no secret."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from app import doctor
from app.core import kernel
from app.main import build_context, create_app
from app.settings import Settings
from app.store.database import Database
from tests import postgresql
from tests.api.calls import create_sketch, release
from tests.conftest import ADMIN_KEY

_PASSWORD = "a-password-in-the-url"


@pytest.fixture
def used(settings: Settings) -> Settings:
    """A database in which something was counted, by name, and released."""
    context = build_context(settings)
    with TestClient(create_app(settings, context), headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as client:
        create_sketch(client)
        body = {"k": 8, "max_contributions": 2, "budget": {"epsilon": "1", "delta": "1e-3"}}
        assert client.put("/v1/sketches/people", json=body).status_code == 201
        events = {"events": [{"user": "s3cret-user", "key": "s3cret-key"}]}
        assert client.post("/v1/sketches/people/events", json=events).status_code == 200
        assert release(client).status_code == 201
    return settings


def _levels(settings: Settings) -> dict[str, set[str]]:
    """Subjects of which something is not right."""
    found: dict[str, set[str]] = {}
    for finding in doctor.examine(settings):
        if finding.level != "ok":
            assert finding.remedy
            found.setdefault(finding.subject, set()).add(finding.level)
    return found


def _database(settings: Settings) -> Path:
    return Path(settings.database_url.removeprefix("sqlite:///"))


def _execute(settings: Settings, statement: str) -> None:
    database = Database(settings.database_url)
    with database.writing() as session:
        session.execute(text(statement))
    database.close()


def test_a_sound_installation_has_no_problem(used: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    for path in _database(used).parent.iterdir():
        path.chmod(0o600)
    assert _levels(used) == ({} if kernel.NATIVE else {"kernel": {"warning"}})
    assert doctor.run(used) == 0
    told = capsys.readouterr().out
    assert [word for word in (ADMIN_KEY, "s3cret", used.user_key_path.read_text().strip()) if word in told] == []
    sound = {finding.subject for finding in doctor.examine(used) if finding.level == "ok"}
    assert {"settings", "disk", "data folder", "SQLite", "schema", "clock", "user key", "ledgers"} <= sound


def test_a_missing_database_is_not_made(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/nowhere/discreet.db")
    assert _levels(settings)["database"] == {"warning"}
    assert list(tmp_path.iterdir()) == []


def test_what_others_may_read_is_a_problem(used: Settings) -> None:
    _database(used).chmod(0o644)
    used.user_key_path.chmod(0o640)
    _database(used).parent.chmod(0o755)
    found = _levels(used)
    assert found["database file"] == {"problem"}
    assert found["user key"] == {"warning"}
    assert found["data folder"] == {"problem"}


def test_another_user_key_or_none_is_a_problem_where_people_were_counted(used: Settings) -> None:
    kept = used.user_key_path.read_text()
    assert "problem" in _levels(replace(used, user_key="x" * 40))["user key"]
    used.user_key_path.unlink()
    assert "problem" in _levels(used)["user key"]
    assert not used.user_key_path.exists()  # a new one would be a wrong one
    assert "user key" not in _levels(replace(used, user_key=kept.strip()))


def test_a_ledger_that_was_written_to_is_a_problem(used: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    _execute(used, "UPDATE ledgers SET spent = 0")
    assert _levels(used)["ledgers"] == {"problem"}
    assert doctor.run(used) == 1
    assert "ledger views: what is spent is not the sum of the entries" in capsys.readouterr().out


def test_a_schema_that_does_not_fit_is_a_problem(used: Settings) -> None:
    for version in ("0001", "9999"):
        _execute(used, f"UPDATE alembic_version SET version_num = '{version}'")
        assert _levels(used)["schema"] == {"problem"}


def test_a_file_that_is_no_database_is_a_problem(settings: Settings) -> None:
    _database(settings).write_bytes(b"not a database" * 1000)
    assert _levels(settings)["database"] == {"problem"}


def test_an_entry_from_the_future_is_a_warning(used: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    class _Past(datetime):
        @classmethod
        def now(cls, _zone: object = None) -> "_Past":
            return cls(2020, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(doctor.database, "datetime", _Past)
    assert _levels(used)["clock"] == {"warning"}


def test_settings_and_machines_that_do_not_fit_are_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "NATIVE", False)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 50 * 1024 * 1024}))
    found = _levels(replace(settings, max_waiting_bytes=10, workers=999, host="0.0.0.0"))
    assert found["settings"] == {"problem", "warning"}
    assert (found["kernel"], found["workers"], found["disk"]) == ({"warning"}, {"warning"}, {"problem"})


@pytest.fixture
def on_postgresql(postgresql_server: postgresql.Postgresql) -> Iterator[Settings]:
    with postgresql_server.database() as url:
        yield Settings(database_url=url)


def test_postgresql_is_asked_whether_it_keeps_what_it_commits(on_postgresql: Settings) -> None:
    subjects = {finding.subject for finding in doctor.examine(on_postgresql) if finding.level == "ok"}
    assert {"PostgreSQL", "schema", "clock", "ledgers"} <= subjects
    found = _levels(on_postgresql)
    assert "PostgreSQL" not in found
    for table, column in (("sketch_parts", "content"), ("allowance_entries", "entries")):
        _execute(on_postgresql, f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE EXTENDED")
    name = on_postgresql.database_url.rpartition("/")[2].partition("?")[0]
    _execute(on_postgresql, f"ALTER DATABASE {name} SET synchronous_commit = off")
    said = [str(finding) for finding in doctor.examine(replace(on_postgresql, workers=50)) if finding.level != "ok"]
    for word in ("STORAGE PLAIN", "STORAGE EXTERNAL", "synchronous_commit", "max_connections"):
        assert [line for line in said if word in line], word


_PEOPLE = "(SELECT id FROM sketches WHERE name = 'people')"
_SCOPE = "(SELECT scope_id FROM sketches WHERE name = 'people')"


def _told(settings: Settings, subject: str) -> list[str]:
    return [
        finding.words
        for finding in doctor.examine(settings)
        if (finding.level, finding.subject) == ("problem", subject)
    ]


@pytest.mark.parametrize(
    ("statement", "subject", "words"),
    [
        (f"DELETE FROM sketch_states WHERE sketch_id = {_PEOPLE}", "sketches", "people: its data are missing."),
        (
            "UPDATE sketch_states SET state = substr(state, 1, 100)",
            "sketches",
            "views: its data are damaged or incomplete.",
        ),
        (
            f"UPDATE sketch_states SET state = (SELECT state FROM sketch_states WHERE sketch_id = {_PEOPLE})",
            "sketches",
            "views: its data are of another family, k or number of sources than its parameters say.",
        ),
        ("UPDATE sketch_states SET closed = 1", "sketches", "views: it is closed in one place and open in another."),
        (
            "UPDATE sketches SET deleted_at = created_at",
            "sketches",
            "views: it was deleted, and its data are still there.",
        ),
        ("DELETE FROM allowance_entries", "people", "sketch/people: rows of its log of allowances are missing."),
        (
            "UPDATE allowance_entries SET entries = substr(entries, 1, 13)",
            "people",
            "sketch/people: a row of its log of allowances is cut off.",
        ),
        (
            f"UPDATE allowance_scopes SET dropped_at = '2026-01-01 00:00:00.000000' WHERE id = {_SCOPE}",
            "people",
            "sketch/people: its people were forgotten, and a sketch of it still takes events.",
        ),
        ("DROP TRIGGER snapshots_no_update", "ledgers", "table snapshots: the trigger snapshots_no_update is missing"),
        (
            "UPDATE sketches SET max_contributions = 1",
            "ledgers",
            "sketch people: max_contributions is not what ledger people",
        ),
        (
            "DELETE FROM sketch_ledgers",
            "ledgers",
            "sketch views: it holds data of ledger views, which does not pay for it.",
        ),
    ],
)
def test_what_was_damaged_or_removed_beside_the_entries_is_a_problem(
    used: Settings, statement: str, subject: str, words: str
) -> None:
    _execute(used, statement)
    assert [told for told in _told(used, subject) if told.startswith(words)], _told(used, subject)


@pytest.mark.parametrize("damage", [b"", b"short", b"\xff\xfe" * 50])
def test_a_user_key_that_was_emptied_or_overwritten_is_a_problem(used: Settings, damage: bytes) -> None:
    used.user_key_path.write_bytes(damage)
    assert _told(used, "user key") == [f"{used.user_key_path} is emptied or damaged."]


def test_on_postgresql_a_missing_part_of_a_state_is_a_problem(on_postgresql: Settings) -> None:
    settings = replace(on_postgresql, admin_key=ADMIN_KEY)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with TestClient(create_app(settings, build_context(settings)), headers=headers) as client:
        create_sketch(client, k=1000)
    assert _told(settings, "sketches") == []
    _execute(settings, "DELETE FROM sketch_parts WHERE number = 2")
    assert _told(settings, "sketches") == ["views: its data are damaged or incomplete."]
    _execute(settings, "UPDATE sketch_parts SET number = number + 100")
    assert _told(settings, "sketches") == ["views: its data are damaged or incomplete."]


def test_a_part_out_of_its_place_is_a_problem_even_where_the_bytes_can_be_read(on_postgresql: Settings) -> None:
    settings = replace(on_postgresql, admin_key=ADMIN_KEY)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    with TestClient(create_app(settings, build_context(settings)), headers=headers) as client:
        create_sketch(client, k=1000)
    _execute(settings, "UPDATE sketch_parts SET number = number + 100")
    assert _told(settings, "sketches") == ["views: a part of its data is missing."]


def test_a_database_that_is_away_is_a_problem_and_its_password_is_not_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    away = Settings(database_url=f"postgresql://somebody:{_PASSWORD}@127.0.0.1:1/nothing")
    assert doctor.run(away) == 1
    told = capsys.readouterr().out
    assert "does not answer" in told
    assert "It answers" not in told
    assert _PASSWORD not in told
