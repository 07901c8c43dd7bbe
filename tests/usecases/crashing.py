"""Run one use case again and again in a child that is killed -9 at its next later moment, and report each time.

A moment is before or after a statement reaches the database, before the commit, and after it. Started as a process
of its own, because it forks and must have no other thread:

    python -m tests.usecases.crashing DATABASE_URL ingest|release

Prints one JSON line per moment: what it was, whether the use case answered, and the books before and after a retry.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from sqlalchemy import event
from sqlalchemy.orm import Session

from app.core.kernel import batch_of
from app.core.ledger.budget import Cost
from app.main import build_context
from app.settings import Settings
from app.store.claims import Claim
from app.store.database import Database
from app.usecases.audit_ledger import verify_ledgers
from app.usecases.context import Context
from app.usecases.ingest.submission import Submission
from app.usecases.plan_release import Terms
from app.usecases.release_snapshot import release_snapshot
from tests import books
from tests.counting import count_one

_KILLED = -signal.SIGKILL


def _ingest(context: Context, claim: Claim) -> None:
    count_one(context, "views", Submission(batch_of([("a", 1)]), claim))


def _release(context: Context, claim: Claim) -> None:
    terms = Terms(cost=Cost.charged(epsilon="0.1", delta="1e-9"), beta=Decimal("0.05"))
    release_snapshot(context, "views", terms, "auto", claim)


_VERBS: dict[str, Callable[[Context, Claim], None]] = {"ingest": _ingest, "release": _release}


def _kill_at(database: Database, moment: int, tell: int) -> None:
    """Count moments of this process and die at the given one, naming it on the way."""
    seen = 0

    def pass_moment(name: str) -> None:
        nonlocal seen
        if seen == moment:
            os.write(tell, name.encode())
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1

    def first_words(statement: str) -> str:
        return " ".join(statement.split()[:3])

    @event.listens_for(database.engine, "before_cursor_execute")
    def before(_c: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        pass_moment(f"before {first_words(statement)}")

    @event.listens_for(database.engine, "after_cursor_execute")
    def after(_c: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        pass_moment(f"after {first_words(statement)}")

    def ends(session: Session) -> str:
        return "the end of reading" if "read_only" in str(session.get_bind().get_execution_options()) else "commit"

    event.listen(Session, "before_commit", lambda session: pass_moment(f"before {ends(session)}"))
    event.listen(Session, "after_commit", lambda session: pass_moment(f"after {ends(session)}"))


def _in_child(url: str, moment: int, run: Callable[[Context], None]) -> tuple[bool, str]:
    """Whether the child answered, and the moment at which it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        context = build_context(Settings(database_url=url))
        _kill_at(context.database, moment, writing)
        run(context)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        name = pipe.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, _KILLED), status
    return status == 0, name


def _report(url: str) -> dict[str, Any]:
    context = build_context(Settings(database_url=url))
    found = {
        "books": asdict(books.read(context.database)),
        "counters": books.counters(context.database),
        "faults": verify_ledgers(context),
    }
    context.database.close()
    return found


def main(url: str, verb: str) -> None:
    moment, answered = 0, False
    while not answered:
        claim = Claim.of(secret="s", operation=verb, target="views", key=str(moment), content=b"")
        answered, name = _in_child(url, moment, lambda context, claim=claim: _VERBS[verb](context, claim))  # type: ignore[misc]
        crashed = _report(url)
        _in_child(url, -1, lambda context, claim=claim: _VERBS[verb](context, claim))  # type: ignore[misc]
        print(json.dumps({"moment": name, "answered": answered, "crashed": crashed, "retried": _report(url)}))  # noqa: T201
        moment += 1


if __name__ == "__main__":
    main(*sys.argv[1:])
