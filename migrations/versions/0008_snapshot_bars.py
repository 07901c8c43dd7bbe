"""The bars of snapshots move into rows of their own."""

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_PIECE_BYTES = 64 * 1024
_FIGURES_BYTES = 32


def upgrade() -> None:
    """Store bars in rows of some dozens of kilobytes: before, whoever read one bar had to load all of them."""
    bars = op.create_table(
        "snapshot_bars",
        sa.Column("snapshot_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_key", sa.LargeBinary(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("lows", sa.JSON(), nullable=False),
        sa.Column("highs", sa.JSON(), nullable=False),
        sa.Column("key_lengths", sa.JSON(), nullable=False),
        sa.Column("keys", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_snapshot_bars_snapshot_id")),
        sa.PrimaryKeyConstraint("snapshot_id", "number", name=op.f("pk_snapshot_bars")),
    )
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":  # compressing the keys would take longer than writing them
        op.execute("ALTER TABLE snapshot_bars ALTER COLUMN keys SET STORAGE EXTERNAL")
    _convert(connection, bars)
    op.drop_column("snapshots", "histogram")
    _refuse_changes(connection.dialect.name)


def _convert(connection: sa.Connection, bars: sa.Table) -> None:
    """Convert snapshot by snapshot and row by row, so that memory holds only the text of one histogram."""
    ids = connection.scalars(sa.text("SELECT id FROM snapshots ORDER BY number")).all()
    for snapshot_id in ids:
        query = sa.text("SELECT CAST(histogram AS TEXT) FROM snapshots WHERE id = :id")
        text = connection.execute(query, {"id": snapshot_id}).scalar_one()
        for number, piece in enumerate(_pieces(text)):
            connection.execute(bars.insert(), _row(piece) | {"snapshot_id": snapshot_id, "number": number})


def _pieces(text: str) -> Iterator[list[dict[str, Any]]]:
    piece: list[dict[str, Any]] = []
    size = 0
    for bar in _elements(text):
        piece.append(bar)
        size += len(bar["key"].encode()) + _FIGURES_BYTES
        if size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _elements(text: str) -> Iterator[dict[str, Any]]:
    """The elements of an array in JSON, one by one."""
    decoder = json.JSONDecoder()
    at = text.index("[") + 1
    while True:
        while text[at] in ", \n\r\t":
            at += 1
        if text[at] == "]":
            return
        bar, at = decoder.raw_decode(text, at)
        yield bar


def _row(piece: list[dict[str, Any]]) -> dict[str, Any]:
    keys = [bar["key"].encode() for bar in piece]
    return {
        "first_key": keys[0],
        "counts": [bar["count"] for bar in piece],
        "lows": [bar["low"] for bar in piece],
        "highs": [bar["high"] for bar in piece],
        "key_lengths": [len(key) for key in keys],
        "keys": b"".join(keys),
    }


def _refuse_changes(dialect: str) -> None:
    """Make the table append-only, as 0002 does for snapshots."""
    if dialect == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER snapshot_bars_no_{verb.lower()} BEFORE {verb} ON snapshot_bars"
                " BEGIN SELECT RAISE(ABORT, 'snapshot_bars is append-only'); END"
            )
    else:
        op.execute(
            "CREATE TRIGGER snapshot_bars_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON snapshot_bars"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
