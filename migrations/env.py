"""Where Alembic begins to run migrations, on a connection that the caller passes, in a transaction already."""

from typing import Any, Literal

from alembic import context

from app.store.tables import Table, Utc


def plain_types(kind: str, value: Any, _context: Any) -> str | Literal[False]:
    """Migrations outlive our own column types, so they spell the database's."""
    return "sa.DateTime(timezone=True)" if kind == "type" and isinstance(value, Utc) else False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    compare_type=True,
    render_item=plain_types,
    render_as_batch=True,  # SQLite cannot alter a table in place
)
with context.begin_transaction():
    context.run_migrations()
