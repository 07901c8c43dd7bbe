"""The database: does it answer, does it keep what it commits, is it ours, and do ledgers and people fit together?"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from sqlite3 import Error as SqliteError

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Session

from app.core.people import Fingerprints
from app.doctor.data import data_findings
from app.doctor.finding import Finding
from app.doctor.machine import sqlite_path
from app.main import build_context
from app.refusals import Unavailable, WrongUserKey
from app.settings import Settings
from app.store import allowances, entries, migrate
from app.usecases.audit_ledger import verify_ledgers
from app.usecases.context import Context

_OLDEST_POSTGRESQL = 14  # what the PostgreSQL project itself still looks after
_CONNECTIONS = 10  # of each worker (`store/postgresql.py`)
_CLOCK_SECONDS = 60
_STORED = (
    ("sketch_states", "state", "PLAIN"),
    ("sketch_parts", "content", "PLAIN"),
    ("allowance_entries", "entries", "EXTERNAL"),
)


def database_findings(settings: Settings) -> Iterator[Finding]:
    """What can be said of the database; where it does not answer, that alone."""
    sqlite = sqlite_path(settings)
    if sqlite and not sqlite.exists():
        yield Finding("warning", "database", f"{sqlite} does not exist yet.", "`discreet serve` makes it.")
        return
    try:
        context = build_context(settings)
    except ImportError:
        yield Finding("problem", "database", "The driver is missing.", "Run: pip install 'discreet[postgresql]'")
        return
    answers = False
    try:
        for finding in _reachable(context, settings):
            answers = True
            yield finding
    except (Unavailable, OSError):
        yield _STOPPED_ANSWERING if answers else _NO_ANSWER
    except (SQLAlchemyError, SqliteError) as error:
        nonsense = isinstance(error, DBAPIError) and error.statement is None  # the driver could not even ask
        yield _NO_ANSWER if nonsense and not answers else _STRANGE_ANSWER
    finally:
        context.database.close()


_NO_ANSWER = Finding(
    "problem", "database", "It does not answer.", "Check DISCREET_DATABASE_URL, and that it runs and lets you in."
)
_STOPPED_ANSWERING = Finding(
    "problem", "database", "It stopped answering while it was examined.", "Ask again; if it stays so, restore a backup."
)
_STRANGE_ANSWER = Finding(
    "problem",
    "database",
    "It does not answer as a database of Discreet should: it is another one, or damaged.",
    "Check DISCREET_DATABASE_URL, or restore a backup.",
)


def _reachable(context: Context, settings: Settings) -> Iterator[Finding]:
    with context.database.reading() as session:
        schema = _schema(session)  # the first that the database is asked
        yield Finding("ok", "database", "It answers.")
        postgresql = session.get_bind().dialect.name == "postgresql"
        yield from _postgresql(session, settings) if postgresql else _sqlite(session)
        yield schema
        if schema.level != "ok":
            return  # the tables may be others
        if postgresql:
            yield from _storage(session)
        yield _clock(session, postgresql=postgresql)
        yield _user_key(session, context, settings)
        yield from data_findings(session)
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
    last = entries.newest_moment(session)
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
    registers = allowances.read_all(session)
    if not settings.user_key and not settings.user_key_path.exists():
        if not registers:
            return Finding("ok", "user key", "None is needed yet; the first sketch that counts people makes one.")
        return Finding(
            "problem",
            "user key",
            f"People were counted under one, and there is none in DISCREET_USER_KEY or at {settings.user_key_path}.",
            "Put it back from your copy: without it, what they contribute is refused.",
        )
    try:
        key = context.user_key.kept
    except OSError:
        return Finding("problem", "user key", f"{settings.user_key_path} cannot be read.", "Let the service read it.")
    except WrongUserKey:
        return Finding(
            "problem", "user key", f"{settings.user_key_path} is emptied or damaged.", "Put it back from your copy."
        )
    counting = [register for register in registers if not register.dropped]
    other = [each.name for each in counting if Fingerprints(key, each.name).check != each.key_check]
    if other:
        return Finding(
            "problem",
            "user key",
            f"It is not the one under which people were counted in {', '.join(other[:10])}.",
            "Put that one back.",
        )
    return Finding("ok", "user key", "It is the one under which people were counted." if counting else "There is one.")


def _ledgers(context: Context) -> Iterator[Finding]:
    faults = verify_ledgers(context)
    for fault in faults:
        yield Finding("problem", "ledgers", f"{fault}.", "Find out who wrote to the database; keep a copy of it.")
    if not faults:
        yield Finding(
            "ok",
            "ledgers",
            "Intact, as is what they rest on. `discreet ledger verify --against FILE` also tells if they are old.",
        )
