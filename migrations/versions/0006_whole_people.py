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
    sketches = sa.table("sketches", *map(sa.column, ("id", "family", "enforcement", "on_excess", "counted_by_request")))
    origins = sa.table("sketch_origins", sa.column("sketch_id"), sa.column("origin_id"))
    refused = sa.and_(sketches.c.enforcement == "enforced", sketches.c.on_excess == "refuse")
    doubtful = sa.select(sketches.c.id).where(sa.or_(sketches.c.family == "compact", refused))
    holding = sa.select(origins.c.sketch_id).where(origins.c.origin_id.in_(doubtful))
    either = sa.or_(sketches.c.id.in_(doubtful), sketches.c.id.in_(holding))
    op.execute(sa.update(sketches).where(either).values(counted_by_request=sa.true()))
    with op.batch_alter_table("sketches") as table:
        table.drop_constraint(op.f("ck_sketches_known_on_excess"), type_="check")
        table.drop_column("on_excess")
