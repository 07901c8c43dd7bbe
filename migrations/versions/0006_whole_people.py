"""whole people"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """A batch is no longer refused because of one person, and compact sketches are folded person by person.

    Before, what counted could depend on where requests were cut. Which sketches took such batches is not known, so all
    that may have done so are marked: compact ones, those that refused excess, and those into which these were merged.
    """
    with op.batch_alter_table("sketches") as table:
        table.add_column(sa.Column("counted_by_request", sa.Boolean(), server_default=sa.false(), nullable=False))
    marked = "SELECT id FROM sketches WHERE family = 'compact' OR (on_excess = 'refuse' AND enforcement = 'enforced')"
    op.execute(
        f"UPDATE sketches SET counted_by_request = true WHERE id IN ({marked})"
        f" OR id IN (SELECT sketch_id FROM sketch_origins WHERE origin_id IN ({marked}))"
    )
    with op.batch_alter_table("sketches") as table:
        table.drop_constraint(op.f("ck_sketches_known_on_excess"), type_="check")
        table.drop_column("on_excess")
