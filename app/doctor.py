"""`discreet doctor`: is this installation sound? Looks at everything a release rests on, changes nothing, and says for
each thing what to do.

A finding has the names of settings, files, ledgers and snapshots, and numbers about the machine. It never has a secret,
a key, an event or anything counted from them.
"""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Error as SqliteError
from typing import Literal

from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.core import kernel
from app.core.errors import Unavailable
from app.core.people import Fingerprints
from app.main import build_context
from app.settings import Settings
from app.store import migrate
from app.store.tables import EntryRow, ScopeRow
from app.usecases.audit_ledger import verify_ledgers
from app.usecases.context import Context

Level = Literal["ok", "warning", "problem"]

_MEBIBYTE = 1024 * 1024
_FEW_BYTES, _TOO_FEW_BYTES = 1024 * _MEBIBYTE, 100 * _MEBIBYTE
_OLDEST_POSTGRESQL = 14  # what the PostgreSQL project itself still looks after
_CONNECTIONS = 10  # of each worker (`store/postgresql.py`)
_CLOCK_SECONDS = 60
_STORED = (
    ("sketch_states", "state", "PLAIN"),
    ("sketch_parts", "content", "PLAIN"),
    ("allowance_entries", "entries", "EXTERNAL"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    subject: str
    words: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.level:<8} {self.subject}: {self.words}{f' {self.remedy}' if self.remedy else ''}"


def run(settings: Settings) -> int:
    """Print what was found; 1 where there is a problem, else 0."""
    findings = examine(settings)
    sys.stdout.writelines(f"{finding}\n" for finding in findings)
    return int(any(finding.level == "problem" for finding in findings))


def examine(settings: Settings) -> list[Finding]:
    """All that can be said; where the database does not answer, all but what it would have to say."""
    return [*_settings(settings), *_machine(settings), *_files(settings), *_database(settings)]


def _settings(settings: Settings) -> Iterator[Finding]:
    sqlite = _sqlite_path(settings)
    if settings.max_waiting_bytes < settings.max_body_bytes:
        yield Finding(
            "problem",
            "settings",
            "DISCREET_MAX_WAITING_BYTES is below DISCREET_MAX_BODY_BYTES, so the largest batches are always refused.",
            "Raise the first or lower the second.",
        )
    if sqlite and settings.workers > 1:
        yield Finding(
            "warning",
            "settings",
            "Several workers share a SQLite file, which has one writer at a time.",
            "Use one worker, or PostgreSQL.",
        )
    if settings.host not in ("127.0.0.1", "::1", "localhost"):
        yield Finding(
            "warning",
            "settings",
            "The service listens beyond this machine, and keys travel in headers.",
            "Let only a proxy with TLS reach it.",
        )
    yield Finding("ok", "settings", f"The database is {'SQLite' if sqlite else 'PostgreSQL'}.")


def _machine(settings: Settings) -> Iterator[Finding]:
    if kernel.NATIVE:
        yield Finding("ok", "kernel", "Compiled.")
    else:
        yield Finding(
            "warning",
            "kernel",
            "Not compiled: batches are counted in Python, many times slower.",
            "Install a C compiler and the Python headers, and Discreet anew.",
        )
    if settings.workers > (os.cpu_count() or 1):
        yield Finding("warning", "workers", "There are more workers than processors.", "Lower DISCREET_WORKERS.")
    folder = _existing(_folder(settings))
    free = shutil.disk_usage(folder).free
    words = f"{free // _MEBIBYTE} MiB are free at {folder}."
    if free < _TOO_FEW_BYTES:
        yield Finding("problem", "disk", words, "Make room: without it nothing can be counted or paid.")
    elif free < _FEW_BYTES:
        yield Finding("warning", "disk", words, "Make room soon.")
    else:
        yield Finding("ok", "disk", words)


def _files(settings: Settings) -> Iterator[Finding]:
    """Who may read what: the database holds true counts, and the user key names people."""
    sqlite = _sqlite_path(settings)
    if sqlite:
        yield from _private("data folder", sqlite.parent, 0o700)
        for path in (sqlite, Path(f"{sqlite}-wal"), Path(f"{sqlite}-shm")):
            yield from _private("database file", path, 0o600)
    if not settings.user_key:
        yield from _private("user key", settings.user_key_path, 0o600)


def _private(subject: str, path: Path, wanted: int) -> Iterator[Finding]:
    if not path.exists():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        level: Level = "problem" if mode & 0o007 else "warning"
        who = "Everybody on this machine" if mode & 0o007 else "The group"
        yield Finding(level, subject, f"{who} may open {path} (mode {mode:o}).", f"Run: chmod {wanted:o} {path}")
    else:
        yield Finding("ok", subject, f"{path} is for its owner alone.")


def _database(settings: Settings) -> Iterator[Finding]:
    sqlite = _sqlite_path(settings)
    if sqlite and not sqlite.exists():
        yield Finding("warning", "database", f"{sqlite} does not exist yet.", "`discreet serve` makes it.")
        return
    try:
        context = build_context(settings)
    except ImportError:
        yield Finding("problem", "database", "The driver is missing.", "Run: pip install 'discreet[postgresql]'")
        return
    try:
        yield from _reachable(context, settings)
    except (Unavailable, OSError):
        yield Finding(
            "problem",
            "database",
            "It does not answer.",
            "Check DISCREET_DATABASE_URL, and that it runs and lets you in.",
        )
    except (SQLAlchemyError, SqliteError):
        yield Finding(
            "problem",
            "database",
            "It answers, but not as a database of Discreet should: it is another one, or damaged.",
            "Check DISCREET_DATABASE_URL, or restore a backup.",
        )
    finally:
        context.database.close()


def _reachable(context: Context, settings: Settings) -> Iterator[Finding]:
    with context.database.reading() as session:
        yield Finding("ok", "database", "It answers.")
        postgresql = session.get_bind().dialect.name == "postgresql"
        yield from _postgresql(session, settings) if postgresql else _sqlite(session)
        schema = _schema(session)
        yield schema
        if schema.level != "ok":
            return  # the tables may be others
        if postgresql:
            yield from _storage(session)
        yield _clock(session, postgresql=postgresql)
        yield _user_key(session, context, settings)
    yield from _ledgers(context)


def _schema(session: Session) -> Finding:
    if migrate.is_ahead(session.connection()):
        return Finding("problem", "schema", "It belongs to a newer version.", "Upgrade Discreet.")
    if not migrate.is_current(session.connection()):
        return Finding("problem", "schema", "It is older than this version needs.", "Run: discreet migrate")
    return Finding("ok", "schema", "Up to date.")


def _sqlite(session: Session) -> Iterator[Finding]:
    def pragma(name: str) -> str:
        return str(session.execute(text(f"PRAGMA {name}")).scalar())

    wanted = {"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"}
    wrong = [name for name, value in wanted.items() if pragma(name) != value]
    if wrong:
        yield Finding(
            "problem",
            "SQLite",
            f"It does not take {', '.join(wrong)} as the service sets them.",
            "Put the file on a local disk; network file systems do not do.",
        )
    else:
        yield Finding("ok", "SQLite", "Write-ahead log, full synchronisation and foreign keys are on.")
    if pragma("quick_check") != "ok":
        yield Finding("problem", "SQLite", "The file is damaged.", "Restore a backup, then verify the ledgers.")


def _postgresql(session: Session, settings: Settings) -> Iterator[Finding]:
    def setting(name: str) -> str:
        return str(session.execute(text("SELECT current_setting(:name)"), {"name": name}).scalar())

    version = int(setting("server_version_num")) // 10_000
    if version < _OLDEST_POSTGRESQL:
        yield Finding("warning", "PostgreSQL", f"Version {version} gets no more fixes.", "Upgrade it.")
    else:
        yield Finding("ok", "PostgreSQL", f"Version {version}.")
    off = [name for name in ("fsync", "full_page_writes") if setting(name) != "on"]
    if off:
        yield Finding(
            "problem",
            "PostgreSQL",
            f"{', '.join(off)}: off. A power cut can damage the ledger or bring spent budget back.",
            "Switch on.",
        )
    yield _commits(session, setting("synchronous_commit"))
    if settings.workers * _CONNECTIONS > int(setting("max_connections")):
        yield Finding(
            "warning",
            "PostgreSQL",
            f"{settings.workers} workers may want {settings.workers * _CONNECTIONS} connections, more than it allows.",
            "Raise max_connections, or lower DISCREET_WORKERS.",
        )


def _commits(session: Session, ours: str) -> Finding:
    """`off` for others is their business; sessions of the service switch it on (`store/postgresql.py`)."""
    if ours == "off":
        return Finding(
            "problem",
            "PostgreSQL",
            "synchronous_commit is off and cannot be switched on, so a crash can bring spent budget back.",
            "Switch it on for this database.",
        )
    query = "SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'"
    if session.execute(text(query)).scalar() == "off":
        return Finding(
            "warning",
            "PostgreSQL",
            "synchronous_commit is off by default; the service switches it on for itself.",
            "Switch it on, for whoever else writes here.",
        )
    return Finding("ok", "PostgreSQL", f"synchronous_commit is {ours}.")


def _storage(session: Session) -> Iterator[Finding]:
    """States are stored as they are: compressed, their size would tell what is in them, and each batch would pay."""
    query = text("SELECT attstorage FROM pg_attribute WHERE attrelid = to_regclass(:relation) AND attname = :attribute")
    for table, column, storage in _STORED:
        found = session.execute(query, {"relation": table, "attribute": column}).scalar()
        if (found.decode() if isinstance(found, bytes) else found) != storage[0].lower():
            yield Finding(
                "warning",
                "PostgreSQL",
                f"{table}.{column} is not stored {storage}, so it may be compressed, or take longer to write.",
                f"Run: ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE {storage}",
            )


def _clock(session: Session, *, postgresql: bool) -> Finding:
    now = datetime.now(UTC)
    last = session.scalar(select(func.max(EntryRow.created_at)))
    if last is not None and last > now + timedelta(seconds=_CLOCK_SECONDS):
        return Finding("warning", "clock", "A ledger has an entry from the future.", "Set the clock, with NTP.")
    if postgresql:
        there: datetime = session.execute(text("SELECT clock_timestamp()")).scalar_one()
        if abs(there - now) > timedelta(seconds=_CLOCK_SECONDS):
            return Finding(
                "warning", "clock", "The database's clock differs by more than a minute.", "Use NTP on both."
            )
    return Finding("ok", "clock", "It agrees with the ledgers.")


def _user_key(session: Session, context: Context, settings: Settings) -> Finding:
    """Never made here: a new one would not be that of the people already counted."""
    scopes = list(session.scalars(select(ScopeRow).where(ScopeRow.dropped_at.is_(None)).order_by(ScopeRow.id)))
    if not settings.user_key and not settings.user_key_path.exists():
        if not scopes:
            return Finding("ok", "user key", "None is needed yet; the first sketch that counts people makes one.")
        return Finding(
            "problem",
            "user key",
            f"People are counted under one, and there is none in DISCREET_USER_KEY or at {settings.user_key_path}.",
            "Put it back from your copy: without it, what they contribute is refused.",
        )
    try:
        key = context.user_key.value
    except OSError:
        return Finding("problem", "user key", f"{settings.user_key_path} cannot be read.", "Let the service read it.")
    other = [scope.name for scope in scopes if Fingerprints(key, scope.name).check != scope.key_check]
    if other:
        return Finding(
            "problem",
            "user key",
            f"It is not the one under which people were counted in {', '.join(other[:10])}.",
            "Put that one back.",
        )
    return Finding("ok", "user key", "It is the one under which people were counted." if scopes else "There is one.")


def _ledgers(context: Context) -> Iterator[Finding]:
    faults = verify_ledgers(context)
    for fault in faults:
        yield Finding("problem", "ledgers", f"{fault}.", "Find out who wrote to the database; keep a copy of it.")
    if not faults:
        yield Finding("ok", "ledgers", "Intact. `discreet ledger verify --against FILE` also tells if they are old.")


def _sqlite_path(settings: Settings) -> Path | None:
    if not settings.database_url.startswith("sqlite:///"):
        return None
    return Path(settings.database_url.removeprefix("sqlite:///").partition("?")[0])


def _folder(settings: Settings) -> Path:
    return (_sqlite_path(settings) or settings.user_key_path).parent


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())
