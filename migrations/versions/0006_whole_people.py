"""People count whole: no batch is refused because of one person, and sketches that may differ are marked."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Mark the sketches whose counts may depend on where requests were cut, and drop the option that caused it.

    Earlier versions could refuse a whole batch because of one person, and folded compact sketches request by request.
    Which sketches took such batches is not known, so all that may have done so are marked: compact ones; those that
    refused excess; those that shared a register with them, since a refused batch left its allowance for others to use;
    and those into which any of these were merged.
    """
    with op.batch_alter_table("sketches") as table:
        table.add_column(sa.Column("counted_by_request", sa.Boolean(), server_default=sa.false(), nullable=False))
        table.add_column(sa.Column("last_doubtful_snapshot", sa.BigInteger(), nullable=True))
    columns = ("id", "family", "enforcement", "on_excess", "scope_id", "counted_by_request", "last_doubtful_snapshot")
    sketches = sa.table("sketches", *map(sa.column, columns))
    origins = sa.table("sketch_origins", sa.column("sketch_id"), sa.column("origin_id"))
    snapshots = sa.table("snapshots", sa.column("sketch_id"), sa.column("number"))
    refused = sa.and_(sketches.c.enforcement == "enforced", sketches.c.on_excess == "refuse")
    shared = sketches.c.scope_id.in_(sa.select(sketches.c.scope_id).where(refused))
    doubtful = sa.select(sketches.c.id).where(sa.or_(sketches.c.family == "compact", shared))
    holding = sa.select(origins.c.sketch_id).where(origins.c.origin_id.in_(doubtful))
    either = sa.or_(sketches.c.id.in_(doubtful), sketches.c.id.in_(holding))
    newest = sa.select(sa.func.max(snapshots.c.number)).where(snapshots.c.sketch_id == sketches.c.id).scalar_subquery()
    op.execute(sa.update(sketches).where(either).values(counted_by_request=sa.true(), last_doubtful_snapshot=newest))
    with op.batch_alter_table("sketches") as table:
        table.drop_constraint(op.f("ck_sketches_known_on_excess"), type_="check")
        table.drop_column("on_excess")
