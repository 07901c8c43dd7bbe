"""Every transaction takes its locks in one order, which docs/architecture.md states: so no two wait for each other.

Recorded while every use case that writes runs, through the API. What a transaction has itself inserted is its own:
nobody else can hold a lock on it.
"""

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import Connection, Delete, Insert, Select, Update, event, select

from app.store.database import Database
from app.store.tables import LedgerRow, SketchRow
from app.usecases.context import Context
from tests.api.calls import create_sketch, merge, post_events, release, release_together

ORDER = ["sketches", "sketch_states", "requests", "allowance_scopes", "ledgers", "api_keys"]

_ROOT = Path(__file__).parents[2]
_USECASES = _ROOT / "app" / "usecases"
_ALONE = {"create_first_key"}  # runs before the service does, under a lock of its own


@dataclass
class Transaction:
    """The tables in which one transaction took locks, in order, each once; and who began it."""

    begun_by: str | None
    locked: list[str] = field(default_factory=list)
    own: set[str] = field(default_factory=set)  # tables into which it has inserted


def _writers() -> set[str]:
    """The functions of the use cases that open a transaction to write."""
    found = set()
    for path in _USECASES.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                used = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
                found |= {function.name} if used & {"writing", "starting"} else set()
    return found - {"writing"}


def _use_case(writers: set[str]) -> str | None:
    frame = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name in writers and Path(code.co_filename).is_relative_to(_USECASES):
            return code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _locked_by(statement: Any) -> list[str]:
    """The tables whose rows a statement locks; inserting a claim locks it against others who stake the same."""
    if isinstance(statement, Select) and statement._for_update_arg is not None:
        of = statement._for_update_arg.of
        tables: Any = [getattr(each, "table", each) for each in of] if of else statement.get_final_froms()
        return [str(table.name) for table in tables]
    if isinstance(statement, Insert):
        return ["requests"] if str(statement.table) == "requests" else []
    return [str(statement.table)] if isinstance(statement, Update | Delete) else []


@contextmanager
def _recorded(database: Database) -> Iterator[list[Transaction]]:
    writers = _writers()
    seen: list[Transaction] = []
    running: dict[int, Transaction] = {}

    def begin(connection: Connection) -> None:
        running[id(connection)] = Transaction(_use_case(writers))
        seen.append(running[id(connection)])

    def note(connection: Connection, statement: Any, *_rest: object) -> None:
        transaction = running[id(connection)]
        for table in _locked_by(statement):
            if table in ORDER and table not in transaction.locked and table not in transaction.own:
                transaction.locked.append(table)
        if isinstance(statement, Insert):
            transaction.own.add(str(statement.table))

    event.listen(database.engine, "begin", begin)
    event.listen(database.engine, "before_execute", note)
    yield seen
    event.remove(database.engine, "begin", begin)
    event.remove(database.engine, "before_execute", note)


def _in_order(locked: list[str]) -> bool:
    return locked == sorted(locked, key=ORDER.index)


def _fill(client: TestClient) -> None:
    """Sketches of their own ledgers and of one that counts people; batches with and without idempotency keys."""
    bound = {"epsilon": "9", "delta": "1e-3", "contributions": {"unit": "event", "max": 3}}
    assert client.put("/v1/ledgers/people", json=bound).status_code == 201
    for name in ("a", "b"):
        create_sketch(client, name, epsilon="9")
        people = {"k": 64, "ledger": "people", "unit": "event", "max_contributions": 3, "enforcement": "enforced"}
        assert client.put(f"/v1/sketches/people-{name}", json=people).status_code == 201
        for key in (None, None, "1", "1"):
            assert post_events(client, ["x"], name, key=key).status_code == 200
            assert post_events(client, [{"user": "u", "key": "x"}], f"people-{name}", key=key).status_code == 200


def _merge_and_release(client: TestClient) -> None:
    for target, source, mode in (
        ("c", "a", "compact"),
        ("c", "b", "compact"),
        ("d", "a", "summed"),
        ("people-c", "people-b", "compact"),
        ("people-a", "people-b", "compact"),
    ):
        assert merge(client, target, source, mode=mode).status_code == 201
    for name in ("a", "c", "d", "people-a"):
        for key in (None, "1", "1"):
            assert release(client, name, epsilon="0.5", key=key).status_code == 201
    for names in (("a", "b"), ("b", "a")):
        for key in (None, "1", "1"):
            assert (
                release_together(client, *names, epsilon="0.1", key=key and "-".join((key, *names))).status_code == 201
            )


def _do_everything(client: TestClient) -> None:
    api_key = client.post("/v1/keys", json={"name": "n", "scopes": ["admin"]}).json()
    client.headers["Authorization"] = f"Bearer {api_key['secret']}"  # not the environment's, which is never locked
    _fill(client)
    _merge_and_release(client)
    more = {"epsilon": "10", "delta": "1e-3", "reason": "more"}
    assert client.post("/v1/ledgers/a/budget", json=more).status_code == 201
    for name in ("b", "people-b", "people-a", "people-c"):
        assert client.post(f"/v1/sketches/{name}/close").status_code == 200
    for name in ("c", "people-c"):
        assert client.delete(f"/v1/sketches/{name}").status_code == 204
    other = client.post("/v1/keys", json={"name": "o", "scopes": ["read"]}).json()
    assert client.delete(f"/v1/keys/{other['id']}").status_code == 204


def test_every_use_case_takes_its_locks_in_one_order(client: TestClient, context: Context) -> None:
    with _recorded(context.database) as seen:
        _do_everything(client)
    wrong = {(each.begun_by, tuple(each.locked)) for each in seen if not _in_order(each.locked)}
    assert wrong == set()
    assert {each.begun_by for each in seen if each.begun_by} == _writers() - _ALONE  # no use case is left out
    longest = max((each.locked for each in seen), key=len)
    assert len(longest) >= 4, "hardly anything was locked, so nothing was checked"


def test_a_wrong_order_would_be_noticed(context: Context) -> None:
    with _recorded(context.database) as seen, context.database.writing() as session:
        session.execute(select(LedgerRow).with_for_update())
        session.execute(select(SketchRow).with_for_update())
    assert [each.locked for each in seen] == [["ledgers", "sketches"]]
    assert not _in_order(seen[0].locked)


def test_the_order_is_the_one_that_is_written_down() -> None:
    section = (_ROOT / "docs" / "architecture.md").read_text().split("## Lock order")[1].split("\n## ")[0]
    assert re.findall(r"^\d\. .*\(`(\w+)`\)", section, re.MULTILINE) == ORDER
