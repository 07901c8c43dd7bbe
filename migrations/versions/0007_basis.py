"""Ledger entries record what a release rests on, and the sketches that were made and merged."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_TABLE = "ledger_entries"


def upgrade() -> None:
    """Add the basis, over which new entries are hashed, and the kinds of entries for sketches and merges.

    Entries of earlier versions stay as they are, as form 1.
    """
    with op.batch_alter_table(_TABLE) as table:
        table.add_column(sa.Column("form", sa.Integer(), server_default="1", nullable=False))
        table.add_column(sa.Column("basis", sa.JSON(none_as_null=True), nullable=True))
        table.drop_constraint(op.f("ck_ledger_entries_known_kind"), type_="check")
        table.create_check_constraint(
            op.f("ck_ledger_entries_known_kind"), "kind IN ('open', 'budget', 'sketch', 'merge', 'release')"
        )
        table.create_check_constraint(
            op.f("ck_ledger_entries_basis_given"), "form = 1 OR kind = 'budget' OR basis IS NOT NULL"
        )
    if op.get_bind().dialect.name == "sqlite":  # which altered the table by copying it, without its triggers
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {_TABLE}_no_{verb.lower()} BEFORE {verb} ON {_TABLE}"
                f" BEGIN SELECT RAISE(ABORT, '{_TABLE} is append-only'); END"
            )
