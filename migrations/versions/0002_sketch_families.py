"""sketch families"""

from alembic import op

revision = "0002"
down_revision = "0001"

# Spelled out, because both databases take a check together with its column, and SQLite then need not copy the table.
COLUMNS = (
    "family VARCHAR(16) DEFAULT 'stream' NOT NULL"
    " CONSTRAINT ck_sketches_known_family CHECK (family IN ('stream', 'compact', 'summed'))",
    "sources INTEGER DEFAULT '1' NOT NULL CONSTRAINT ck_sketches_sources_positive CHECK (sources >= 1)",
    "universe JSON",
)


def upgrade() -> None:
    for column in COLUMNS:
        op.execute(f"ALTER TABLE sketches ADD COLUMN {column}")
