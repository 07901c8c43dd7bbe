"""Each state gets a token, a random number that changes whenever the state does."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the token: by it a process knows whether the sketch that it keeps in memory is still the stored one."""
    token = sa.Column("token", sa.BigInteger(), nullable=False, server_default="0")
    if op.get_bind().dialect.name == "sqlite":
        # Before the state: SQLite would read all of the state's pages to find a column behind it.
        order = [("sketch_id", "token", "state")]
        with op.batch_alter_table("sketch_states", recreate="always", partial_reordering=order) as table:
            table.add_column(token)
        with op.batch_alter_table("sketch_states") as table:
            table.alter_column("token", server_default=None)
        return
    op.add_column("sketch_states", token)
    op.alter_column("sketch_states", "token", server_default=None)
    # States change with every batch and hardly shrink: PostgreSQL need not try to compress them.
    op.execute("ALTER TABLE sketch_states ALTER COLUMN state SET STORAGE EXTERNAL")
