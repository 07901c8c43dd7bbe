"""Tables and lists of facts, for people, and how single values are written in them."""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from app.client.terminal.output import Style, clean, columns, fitted, spoken, styled, width

_GAP = "  "


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> str:
    """A table with numbers flush right. If somebody looks at it and it is too wide, the widest column of words is cut.

    What goes into a file or to another program is never cut.
    """
    headings = [spoken(heading) for heading in headings]
    cells = [[clean(cell(value)) for value in row] for row in rows]
    if not cells:
        return empty
    right = [all(isinstance(row[index], int | None) for row in rows) for index in range(len(headings))]
    widths = [max(columns(heading), *(columns(row[i]) for row in cells)) for i, heading in enumerate(headings)]
    needed = sum(widths) + len(_GAP) * (len(widths) - 1)
    is_looked_at = sys.stdout.isatty() or os.environ.get("COLUMNS")
    over = needed - width() if is_looked_at else 0
    widest = max(range(len(widths)), key=lambda i: (not right[i], widths[i]))
    widths[widest] = max(8, columns(headings[widest]), widths[widest] - max(0, over))
    lines = [_line(headings, widths, right), *(_line(row, widths, right) for row in cells)]
    return "\n".join([styled(lines[0], Style.STRONG), *lines[1:]])


def facts(members: Mapping[str, object]) -> str:
    """A name and its value on each line, without those whose value is None or empty."""
    told = {name: clean(cell(value)) for name, value in members.items() if value not in (None, "")}
    size = max(columns(name) for name in told)
    return "\n".join(f"{styled(fitted(name, size), Style.QUIET)}{_GAP}{value}" for name, value in told.items())


def cell(value: object) -> str:
    """A value as text: a dash for None, thousands separated, lists with commas."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def moment(text: str | None) -> str | None:
    """A time in ISO 8601, written to the minute in the time zone of whoever reads it."""
    return None if text is None else datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")


def amount(both: Mapping[str, Any]) -> str:
    """An (ε, δ) as the server gave it."""
    main = f"ε = {both['epsilon']}" if both.get("epsilon") else f"ρ = {both['rho']}"
    return f"{main}, δ = {both['delta']}"


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    fields = (fitted(text, size, right=flush) for text, size, flush in zip(row, widths, right, strict=True))
    return _GAP.join(fields).rstrip()
