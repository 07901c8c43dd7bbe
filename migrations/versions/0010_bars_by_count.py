"""New snapshots store their bars by count."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_TABLE = "snapshot_bars"


def upgrade() -> None:
    """Make room for the numbers of the bars in key order, and drop the first keys of rows, which nobody read.

    Rows of earlier versions stay as they are, by key and without these numbers.
    """
    ranks = sa.Column("key_ranks", sa.JSON(none_as_null=True), nullable=True)
    if op.get_bind().dialect.name == "postgresql":
        op.drop_column(_TABLE, "first_key")
        op.add_column(_TABLE, ranks)
        return
    with op.batch_alter_table(_TABLE) as table:
        table.drop_column("first_key")
        table.add_column(ranks, insert_before="keys")  # else SQLite would pass over the keys to read it
    for verb in ("UPDATE", "DELETE"):  # the table was altered by copying it, without its triggers
        op.execute(
            f"CREATE TRIGGER {_TABLE}_no_{verb.lower()} BEFORE {verb} ON {_TABLE}"
            f" BEGIN SELECT RAISE(ABORT, '{_TABLE} is append-only'); END"
        )
