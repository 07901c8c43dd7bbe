"""The first tables: API keys, ledgers with their entries, sketches with their states, snapshots, idempotency claims."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("sketches", sa.String(length=100), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "ledgers",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("accountant", sa.String(length=16), nullable=False),
        sa.Column("epsilon_total", sa.BigInteger(), nullable=False),
        sa.Column("delta_total", sa.BigInteger(), nullable=False),
        sa.Column("spendable", sa.BigInteger(), nullable=False),
        sa.Column("delta_spendable", sa.BigInteger(), nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False),
        sa.Column("delta_spent", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.LargeBinary(length=32), nullable=False),
        sa.CheckConstraint(
            "accountant <> 'basic' OR spendable = epsilon_total", name=op.f("ck_ledgers_basic_spends_epsilon")
        ),
        sa.CheckConstraint("accountant IN ('basic', 'zcdp')", name=op.f("ck_ledgers_known_accountant")),
        sa.CheckConstraint("delta_spendable <= delta_total", name=op.f("ck_ledgers_delta_within_total")),
        sa.CheckConstraint(
            "delta_spent >= 0 AND delta_spent <= delta_spendable", name=op.f("ck_ledgers_delta_within_limit")
        ),
        sa.CheckConstraint("spent >= 0 AND spent <= spendable", name=op.f("ck_ledgers_within_limit")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledgers")),
        sa.UniqueConstraint("name", name=op.f("uq_ledgers_name")),
    )
    op.create_table(
        "sketches",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("ledger_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("k", sa.Integer(), nullable=False),
        sa.Column("unit", sa.String(length=16), nullable=False),
        sa.Column("max_contributions", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("family", sa.String(length=16), server_default="stream", nullable=False),
        sa.Column("sources", sa.Integer(), server_default="1", nullable=False),
        sa.Column("universe", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("family IN ('stream', 'compact', 'summed')", name=op.f("ck_sketches_known_family")),
        sa.CheckConstraint("unit IN ('event')", name=op.f("ck_sketches_known_unit")),
        sa.CheckConstraint("k >= 1", name=op.f("ck_sketches_k_positive")),
        sa.CheckConstraint("max_contributions >= 1", name=op.f("ck_sketches_max_contributions_positive")),
        sa.CheckConstraint("sources >= 1", name=op.f("ck_sketches_sources_positive")),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_sketches_ledger_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sketches")),
        sa.UniqueConstraint("name", name=op.f("uq_sketches_name")),
    )
    with op.batch_alter_table("sketches", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_sketches_ledger_id"), ["ledger_id"], unique=False)

    op.create_table(
        "sketch_ledgers",
        sa.Column(
            "sketch_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column(
            "ledger_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_sketch_ledgers_ledger_id")),
        sa.ForeignKeyConstraint(["sketch_id"], ["sketches.id"], name=op.f("fk_sketch_ledgers_sketch_id")),
        sa.PrimaryKeyConstraint("sketch_id", "ledger_id", name=op.f("pk_sketch_ledgers")),
    )
    op.create_table(
        "sketch_origins",
        sa.Column(
            "sketch_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column(
            "origin_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.ForeignKeyConstraint(["origin_id"], ["sketches.id"], name=op.f("fk_sketch_origins_origin_id")),
        sa.ForeignKeyConstraint(["sketch_id"], ["sketches.id"], name=op.f("fk_sketch_origins_sketch_id")),
        sa.PrimaryKeyConstraint("sketch_id", "origin_id", name=op.f("pk_sketch_origins")),
    )
    op.create_table(
        "sketch_states",
        sa.Column(
            "sketch_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["sketch_id"], ["sketches.id"], name=op.f("fk_sketch_states_sketch_id")),
        sa.PrimaryKeyConstraint("sketch_id", name=op.f("pk_sketch_states")),
    )
    op.create_table(
        "snapshots",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("sketch_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("histogram", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sketch_id"], ["sketches.id"], name=op.f("fk_snapshots_sketch_id")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_snapshots")),
        sa.UniqueConstraint("id", name=op.f("uq_snapshots_id")),
    )
    with op.batch_alter_table("snapshots", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_snapshots_sketch_id_number"), ["sketch_id", "number"], unique=False)

    op.create_table(
        "ledger_entries",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("ledger_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("snapshot_id", sa.String(length=32), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("mechanism", sa.String(length=32), nullable=True),
        sa.Column("mechanism_version", sa.Integer(), nullable=True),
        sa.Column("parameters", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("epsilon", sa.BigInteger(), nullable=False),
        sa.Column("delta", sa.BigInteger(), nullable=False),
        sa.Column("price", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(length=32), nullable=False),
        sa.CheckConstraint(
            "(kind = 'release') = (snapshot_id IS NOT NULL)", name=op.f("ck_ledger_entries_release_has_snapshot")
        ),
        sa.CheckConstraint("kind IN ('open', 'budget', 'release')", name=op.f("ck_ledger_entries_known_kind")),
        sa.CheckConstraint(
            "epsilon >= 0 AND delta >= 0 AND price >= 0", name=op.f("ck_ledger_entries_amounts_positive")
        ),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_ledger_entries_ledger_id")),
        sa.ForeignKeyConstraint(
            ["snapshot_id"],
            ["snapshots.id"],
            name=op.f("fk_ledger_entries_snapshot_id"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_ledger_entries")),
        sa.UniqueConstraint("ledger_id", "sequence", name=op.f("uq_ledger_entries_ledger_id_sequence")),
        sa.UniqueConstraint("ledger_id", "snapshot_id", name=op.f("uq_ledger_entries_ledger_id_snapshot_id")),
    )
    with op.batch_alter_table("ledger_entries", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_ledger_entries_snapshot_id"), ["snapshot_id"], unique=False)

    op.create_table(
        "requests",
        sa.Column("claim", sa.LargeBinary(length=32), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(length=32), nullable=False),
        sa.Column("snapshot_id", sa.String(length=32), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_requests_snapshot_id")),
        sa.PrimaryKeyConstraint("claim", name=op.f("pk_requests")),
    )
