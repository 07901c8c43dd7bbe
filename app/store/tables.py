"""The tables. Amounts are whole numbers (billionths of ε, 1e-18 of δ); invariants are stated here a second time."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.core.people import Enforcement, Unit
from app.core.planner import Family

NAME_LENGTH = 100

_RowNumber = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only an INTEGER PRIMARY KEY


class Utc(TypeDecorator[datetime]):
    """A moment in UTC; SQLite gives it back without its zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The moment with its zone."""
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


class Table(DeclarativeBase):
    """The base of all tables; says how constraints are named, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class LedgerRow(Table):
    """A budget. What is spent is in the accountant's currency, and moves only with an entry (`store/ledger.py`)."""

    __tablename__ = "ledgers"
    __table_args__ = (
        CheckConstraint("spent >= 0 AND spent <= spendable", name="within_limit"),
        CheckConstraint("delta_spent >= 0 AND delta_spent <= delta_spendable", name="delta_within_limit"),
        CheckConstraint("accountant IN ('basic', 'zcdp')", name="known_accountant"),
        CheckConstraint("delta_spendable <= delta_total", name="delta_within_total"),
        CheckConstraint("accountant <> 'basic' OR spendable = epsilon_total", name="basic_spends_epsilon"),
    )

    id: Mapped[int] = mapped_column(_RowNumber, primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), unique=True)
    accountant: Mapped[str] = mapped_column(String(16))
    epsilon_total: Mapped[int] = mapped_column(BigInteger)
    delta_total: Mapped[int] = mapped_column(BigInteger)
    spendable: Mapped[int] = mapped_column(BigInteger)
    delta_spendable: Mapped[int] = mapped_column(BigInteger)
    spent: Mapped[int] = mapped_column(BigInteger)
    delta_spent: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[datetime] = mapped_column(Utc)
    entries: Mapped[int] = mapped_column(BigInteger)  # the sequence of the last entry
    head: Mapped[bytes] = mapped_column(LargeBinary(32))  # its hash
    # A bound on what one person contributes to all its sketches together, and the register where that is added up; null
    # where each sketch has its own. (Registers were called scopes: the columns keep that name.)
    contribution_unit: Mapped[Unit | None] = mapped_column(String(16))
    max_contributions: Mapped[int | None] = mapped_column(Integer)
    register_id: Mapped[int | None] = mapped_column("scope_id", ForeignKey("allowance_scopes.id"))


class SketchRow(Table):
    """Public parameters. A deleted sketch keeps its row, so that its name stays taken."""

    __tablename__ = "sketches"
    __table_args__ = (
        CheckConstraint("k >= 1", name="k_positive"),
        CheckConstraint("unit IN ('event', 'user')", name="known_unit"),
        CheckConstraint("enforcement IN ('enforced', 'declared')", name="known_enforcement"),
        CheckConstraint("(enforcement = 'enforced') = (scope_id IS NOT NULL)", name="enforced_has_scope"),
        CheckConstraint("max_contributions >= 1", name="max_contributions_positive"),
        CheckConstraint("family IN ('stream', 'compact', 'summed')", name="known_family"),
        CheckConstraint("sources >= 1", name="sources_positive"),
    )

    id: Mapped[int] = mapped_column(_RowNumber, primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH), unique=True)
    ledger_id: Mapped[int] = mapped_column(ForeignKey("ledgers.id"), index=True)
    k: Mapped[int] = mapped_column(Integer)
    unit: Mapped[Unit] = mapped_column(String(16))
    max_contributions: Mapped[int] = mapped_column(Integer)
    enforcement: Mapped[Enforcement] = mapped_column(String(16), server_default="declared")
    register_id: Mapped[int | None] = mapped_column("scope_id", ForeignKey("allowance_scopes.id"), index=True)
    description: Mapped[str] = mapped_column(Text)
    family: Mapped[Family] = mapped_column(String(16), server_default="stream")
    sources: Mapped[int] = mapped_column(Integer, server_default="1")  # streams that were summed
    # Holds what an earlier version counted, request by request: `core/guarantee.py` says what that means.
    counted_by_request: Mapped[bool] = mapped_column(Boolean, server_default=false())
    last_doubtful_snapshot: Mapped[int | None] = mapped_column(BigInteger)  # that was made before it was marked
    universe: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime] = mapped_column(Utc)
    closed_at: Mapped[datetime | None] = mapped_column(Utc)
    deleted_at: Mapped[datetime | None] = mapped_column(Utc)


class StateRow(Table):
    """The private data of a sketch: one binary value, on PostgreSQL the first part of it (`store/parts.py`).

    Apart from the parameters, so that no listing reads it.
    """

    __tablename__ = "sketch_states"
    __table_args__ = (CheckConstraint("octet_length(state) <= 4000", name="one_part").ddl_if(dialect="postgresql"),)

    sketch_id: Mapped[int] = mapped_column(ForeignKey("sketches.id"), primary_key=True, autoincrement=False)
    token: Mapped[int] = mapped_column(BigInteger)  # changes with the state; before it, so that it is read alone
    closed: Mapped[bool] = mapped_column(Boolean, server_default=false())  # here too, because writers lock this row
    state: Mapped[bytes] = mapped_column(LargeBinary)


class PartRow(Table):
    """On PostgreSQL, the further parts of the private data of a sketch."""

    __tablename__ = "sketch_parts"
    __table_args__ = (CheckConstraint("octet_length(content) <= 4000", name="one_part").ddl_if(dialect="postgresql"),)

    sketch_id: Mapped[int] = mapped_column(ForeignKey("sketch_states.sketch_id"), primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)  # 1, 2, 3 … without a gap
    content: Mapped[bytes] = mapped_column(LargeBinary)


class RegisterRow(Table):
    """Where a person's contributions are added up: the register of one sketch, or of all sketches of a ledger."""

    __tablename__ = "allowance_scopes"

    id: Mapped[int] = mapped_column(_RowNumber, primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH + 10), unique=True)
    key_check: Mapped[bytes] = mapped_column(LargeBinary(12))  # of the key outside, to notice another one
    sequence: Mapped[int] = mapped_column(BigInteger)  # of the last row of its log
    dropped_at: Mapped[datetime | None] = mapped_column(Utc)  # the fingerprints are gone: nothing more is counted


class AllowanceRow(Table):
    """What some people have used: fingerprint (12 bytes) and number (u16), one after the other; larger numbers hold.

    Written one row a commit, and put together from time to time (`store/allowances.py`).
    """

    __tablename__ = "allowance_entries"

    register_id: Mapped[int] = mapped_column(
        "scope_id", ForeignKey("allowance_scopes.id"), primary_key=True, autoincrement=False
    )
    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    level: Mapped[int] = mapped_column(Integer)
    # Usages were called entries: the table and the column keep that name.
    usages: Mapped[bytes] = mapped_column("entries", LargeBinary)


class LineageRow(Table):
    """A ledger whose data a sketch holds. A release of the sketch is paid from all of them."""

    __tablename__ = "sketch_ledgers"

    sketch_id: Mapped[int] = mapped_column(ForeignKey("sketches.id"), primary_key=True, autoincrement=False)
    ledger_id: Mapped[int] = mapped_column(ForeignKey("ledgers.id"), primary_key=True, autoincrement=False)


class OriginRow(Table):
    """A sketch whose own events a sketch holds; each holds its own. No event may come in by two ways."""

    __tablename__ = "sketch_origins"

    sketch_id: Mapped[int] = mapped_column(ForeignKey("sketches.id"), primary_key=True, autoincrement=False)
    origin_id: Mapped[int] = mapped_column(ForeignKey("sketches.id"), primary_key=True, autoincrement=False)


class SnapshotRow(Table):
    """One release, as it was answered: of one sketch, or of several together (`SnapshotSketchRow`)."""

    __tablename__ = "snapshots"
    __table_args__ = (Index(None, "sketch_id", "number"),)

    number: Mapped[int] = mapped_column(_RowNumber, primary_key=True)
    id: Mapped[str] = mapped_column(String(32), unique=True)
    sketch_id: Mapped[int | None] = mapped_column(ForeignKey("sketches.id"))  # null where there are several
    created_at: Mapped[datetime] = mapped_column(Utc)
    document: Mapped[dict[str, Any]] = mapped_column(JSON)  # all but the bars


class SnapshotSketchRow(Table):
    """One of several sketches that were released together, and what it was then. Append-only, as snapshots are."""

    __tablename__ = "snapshot_sketches"

    snapshot_id: Mapped[str] = mapped_column(ForeignKey("snapshots.id"), primary_key=True)
    sketch_id: Mapped[int] = mapped_column(ForeignKey("sketches.id"), primary_key=True, autoincrement=False)
    basis: Mapped[dict[str, Any]] = mapped_column(JSON)  # `core/ledger/basis.py`


class BarsRow(Table):
    """Some bars of a release, side by side (`store/bars.py`). Append-only, as snapshots are.

    The lists have one value a bar. They come before the keys, so that they are read without them.
    """

    __tablename__ = "snapshot_bars"

    snapshot_id: Mapped[str] = mapped_column(ForeignKey("snapshots.id"), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)  # 0, 1, 2 … by count
    counts: Mapped[list[int]] = mapped_column(JSON)
    lows: Mapped[list[int]] = mapped_column(JSON)
    highs: Mapped[list[int | None]] = mapped_column(JSON)
    key_lengths: Mapped[list[int]] = mapped_column(JSON)  # in bytes
    # The numbers of the bars in key order, over all rows. Null where an earlier version stored bars and rows by key.
    key_ranks: Mapped[list[int] | None] = mapped_column(JSON(none_as_null=True))
    keys: Mapped[bytes] = mapped_column(LargeBinary)  # one after the other, in UTF-8


class EntryRow(Table):
    """One line of a ledger. Never updated, never deleted: triggers refuse it (migration 0002).

    `open` and `budget` set the total to epsilon and delta; `release` spends them. `sketch` and `merge` say that a
    sketch was made, or took in others, and spend nothing. Each line carries the hash of the one before
    (`core/ledger/chain.py`). A release holds what was run and what it rested on, so that history can be read again.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        UniqueConstraint("ledger_id", "snapshot_id"),
        UniqueConstraint("ledger_id", "sequence"),
        CheckConstraint("epsilon >= 0 AND delta >= 0 AND price >= 0", name="amounts_positive"),
        CheckConstraint("kind IN ('open', 'budget', 'sketch', 'merge', 'release')", name="known_kind"),
        CheckConstraint("form = 1 OR kind = 'budget' OR basis IS NOT NULL", name="basis_given"),
        CheckConstraint("(kind = 'release') = (snapshot_id IS NOT NULL)", name="release_has_snapshot"),
    )

    number: Mapped[int] = mapped_column(_RowNumber, primary_key=True)
    ledger_id: Mapped[int] = mapped_column(ForeignKey("ledgers.id"))
    sequence: Mapped[int] = mapped_column(BigInteger)  # 1, 2, 3 … in this ledger
    kind: Mapped[str] = mapped_column(String(16))
    # Deferred: the payment comes before the snapshot that it pays for, and the commit refuses one without the other.
    snapshot_id: Mapped[str | None] = mapped_column(
        ForeignKey("snapshots.id", deferrable=True, initially="DEFERRED"), index=True
    )
    created_at: Mapped[datetime] = mapped_column(Utc)
    reason: Mapped[str] = mapped_column(Text)
    mechanism: Mapped[str | None] = mapped_column(String(32))
    mechanism_version: Mapped[int | None] = mapped_column(Integer)
    parameters: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    epsilon: Mapped[int] = mapped_column(BigInteger)
    delta: Mapped[int] = mapped_column(BigInteger)
    price: Mapped[int] = mapped_column(BigInteger)  # of a release, in the accountant's currency; its δ is delta
    hash: Mapped[bytes] = mapped_column(LargeBinary(32))
    form: Mapped[int] = mapped_column(Integer, server_default="1")  # in which it was hashed (`core/ledger/chain.py`)
    basis: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))  # `core/ledger/basis.py`


class RequestRow(Table):
    """A claimed Idempotency-Key. Both values are hashes keyed with the caller's secret, which is stored nowhere."""

    __tablename__ = "requests"

    claim: Mapped[bytes] = mapped_column(LargeBinary(32), primary_key=True)
    fingerprint: Mapped[bytes] = mapped_column(LargeBinary(32))
    snapshot_id: Mapped[str | None] = mapped_column(ForeignKey("snapshots.id"))
    created_at: Mapped[datetime] = mapped_column(Utc)


class ApiKeyRow(Table):
    """An API key. The secret is 256 random bits, so one SHA-256 of it cannot be searched."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(NAME_LENGTH))
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary(32))
    scopes: Mapped[list[str]] = mapped_column(JSON)
    sketches: Mapped[str] = mapped_column(String(NAME_LENGTH))
    created_at: Mapped[datetime] = mapped_column(Utc)
    revoked_at: Mapped[datetime | None] = mapped_column(Utc)
