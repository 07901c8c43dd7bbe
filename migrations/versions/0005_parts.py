"""On PostgreSQL a state is stored in parts, so that a commit writes only the parts that changed."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_PART_BYTES = 4000
_COLUMNS = (("sketch_states", "state"), ("sketch_parts", "content"))


def upgrade() -> None:
    """Make the table of parts and, on PostgreSQL, cut the states that there are into parts."""
    parts = op.create_table(
        "sketch_parts",
        sa.Column(
            "sketch_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["sketch_id"], ["sketch_states.sketch_id"], name=op.f("fk_sketch_parts_sketch_id")),
        sa.PrimaryKeyConstraint("sketch_id", "number", name=op.f("pk_sketch_parts")),
    )
    if op.get_bind().dialect.name != "postgresql":
        return
    states = sa.table("sketch_states", sa.column("sketch_id"), sa.column("token"), sa.column("state"))
    for table, column in _COLUMNS:
        op.execute(f"ALTER TABLE {table} SET (fillfactor = 50)")  # one row a page, and room for its next version
        op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE PLAIN")  # in the row itself
    for sketch_id in op.get_bind().scalars(sa.select(states.c.sketch_id)).all():
        this = states.c.sketch_id == sketch_id
        state = op.get_bind().scalars(sa.select(states.c.state).where(this)).one()
        # A new token, and the checks below: no worker of the older version may write all of a state into one row.
        token = secrets.randbits(62) | 2**62
        op.execute(sa.update(states).where(this).values(state=state[:_PART_BYTES], token=token))
        further = (state[at : at + _PART_BYTES] for at in range(_PART_BYTES, len(state), _PART_BYTES))
        rows = [{"sketch_id": sketch_id, "number": number, "content": part} for number, part in enumerate(further, 1)]
        op.bulk_insert(parts, rows)
    for table, column in _COLUMNS:
        op.create_check_constraint(op.f(f"ck_{table}_one_part"), table, f"octet_length({column}) <= {_PART_BYTES}")
