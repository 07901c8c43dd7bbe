"""lineage"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "sketch_ledgers",
        sa.Column("sketch_id", _ID, autoincrement=False, nullable=False),
        sa.Column("ledger_id", _ID, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["ledger_id"], ["ledgers.id"], name=op.f("fk_sketch_ledgers_ledger_id")),
        sa.ForeignKeyConstraint(["sketch_id"], ["sketches.id"], name=op.f("fk_sketch_ledgers_sketch_id")),
        sa.PrimaryKeyConstraint("sketch_id", "ledger_id", name=op.f("pk_sketch_ledgers")),
    )
    op.create_table(
        "sketch_origins",
        sa.Column("sketch_id", _ID, autoincrement=False, nullable=False),
        sa.Column("origin_id", _ID, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["origin_id"], ["sketches.id"], name=op.f("fk_sketch_origins_origin_id")),
        sa.ForeignKeyConstraint(["sketch_id"], ["sketches.id"], name=op.f("fk_sketch_origins_sketch_id")),
        sa.PrimaryKeyConstraint("sketch_id", "origin_id", name=op.f("pk_sketch_origins")),
    )
    # Before merges, a sketch held its own events alone.
    op.execute("INSERT INTO sketch_ledgers (sketch_id, ledger_id) SELECT id, ledger_id FROM sketches")
    op.execute("INSERT INTO sketch_origins (sketch_id, origin_id) SELECT id, id FROM sketches")
