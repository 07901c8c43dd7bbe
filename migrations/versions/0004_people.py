"""Sketches of users, registers in which each person's contributions are added up, and sketches that are closed."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the tables of registers, here called scopes, and the columns by which sketches and ledgers refer to them."""
    op.create_table(
        "allowance_scopes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=110), nullable=False),
        sa.Column("key_check", sa.LargeBinary(length=12), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allowance_scopes")),
        sa.UniqueConstraint("name", name=op.f("uq_allowance_scopes_name")),
    )
    op.create_table(
        "allowance_entries",
        sa.Column(
            "scope_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("entries", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["scope_id"], ["allowance_scopes.id"], name=op.f("fk_allowance_entries_scope_id")),
        sa.PrimaryKeyConstraint("scope_id", "sequence", name=op.f("pk_allowance_entries")),
    )
    with op.batch_alter_table("ledgers") as table:
        table.add_column(sa.Column("contribution_unit", sa.String(length=16), nullable=True))
        table.add_column(sa.Column("max_contributions", sa.Integer(), nullable=True))
        table.add_column(sa.Column("scope_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True))
        table.create_foreign_key(op.f("fk_ledgers_scope_id"), "allowance_scopes", ["scope_id"], ["id"])
    with op.batch_alter_table("sketches") as table:
        table.add_column(sa.Column("enforcement", sa.String(length=16), server_default="declared", nullable=False))
        table.add_column(sa.Column("on_excess", sa.String(length=16), server_default="drop", nullable=False))
        table.add_column(sa.Column("scope_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True))
        table.add_column(sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True))
        table.create_index(op.f("ix_sketches_scope_id"), ["scope_id"])
        table.create_foreign_key(op.f("fk_sketches_scope_id"), "allowance_scopes", ["scope_id"], ["id"])
        table.drop_constraint(op.f("ck_sketches_known_unit"), type_="check")
        table.create_check_constraint(op.f("ck_sketches_known_unit"), "unit IN ('event', 'user')")
        table.create_check_constraint(op.f("ck_sketches_known_enforcement"), "enforcement IN ('enforced', 'declared')")
        table.create_check_constraint(op.f("ck_sketches_known_on_excess"), "on_excess IN ('drop', 'refuse')")
        table.create_check_constraint(
            op.f("ck_sketches_enforced_has_scope"), "(enforcement = 'enforced') = (scope_id IS NOT NULL)"
        )
    closed = sa.Column("closed", sa.Boolean(), server_default=sa.false(), nullable=False)
    if op.get_bind().dialect.name == "postgresql":
        op.add_column("sketch_states", closed)
        # Fingerprints are random: there is nothing to compress.
        op.execute("ALTER TABLE allowance_entries ALTER COLUMN entries SET STORAGE EXTERNAL")
        return
    order = [("sketch_id", "token", "closed", "state")]
    with op.batch_alter_table("sketch_states", recreate="always", partial_reordering=order) as table:
        table.add_column(closed)
