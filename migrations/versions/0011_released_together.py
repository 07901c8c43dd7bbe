"""A snapshot may be of several sketches, which were released together."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_TABLE = "snapshot_sketches"


def upgrade() -> None:
    """Add the sketches of such snapshots, and let the snapshot itself name none. What is stored stays as it is."""
    op.create_table(
        _TABLE,
        sa.Column("snapshot_id", sa.String(length=32), nullable=False),
        sa.Column(
            "sketch_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("basis", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sketch_id"], ["sketches.id"], name=op.f("fk_snapshot_sketches_sketch_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_snapshot_sketches_snapshot_id")),
        sa.PrimaryKeyConstraint("snapshot_id", "sketch_id", name=op.f("pk_snapshot_sketches")),
    )
    with op.batch_alter_table("snapshots") as table:
        table.alter_column("sketch_id", existing_type=sa.BigInteger(), nullable=True)
    if op.get_bind().dialect.name == "sqlite":
        _refuse_changes(_TABLE)
        _refuse_changes("snapshots")  # which was altered by copying it, without its triggers
    else:
        op.execute(
            f"CREATE TRIGGER {_TABLE}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {_TABLE}"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )


def _refuse_changes(table: str) -> None:
    """Make the table append-only on SQLite, as 0002 does."""
    for verb in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}"
            f" BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )
