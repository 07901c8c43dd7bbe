"""Tables and lists of facts, for people. A cell is text; numbers are set flush right."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from app.client.terminal import Style, clean, columns, fitted, room_for_tables, spoken, styled

_GAP = "  "


def table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> str:
    """As wide as it must be; where the terminal is narrower, the widest column of words gives way."""
    headings = [spoken(heading) for heading in headings]
    cells = [[clean(cell(value)) for value in row] for row in rows]
    if not cells:
        return empty
    right = [all(isinstance(row[index], int | None) for row in rows) for index in range(len(headings))]
    widths = [max(columns(heading), *(columns(row[i]) for row in cells)) for i, heading in enumerate(headings)]
    needed = sum(widths) + len(_GAP) * (len(widths) - 1)
    over = needed - (room_for_tables() or needed)
    widest = max(range(len(widths)), key=lambda i: (not right[i], widths[i]))
    widths[widest] = max(8, columns(headings[widest]), widths[widest] - max(0, over))
    lines = [_line(headings, widths, right), *(_line(row, widths, right) for row in cells)]
    return "\n".join([styled(lines[0], Style.STRONG), *lines[1:]])


def facts(members: Mapping[str, object]) -> str:
    """One a line, without those that are absent."""
    told = {name: clean(cell(value)) for name, value in members.items() if value not in (None, "")}
    size = max(columns(name) for name in told)
    return "\n".join(f"{styled(fitted(name, size), Style.QUIET)}{_GAP}{value}" for name, value in told.items())


def cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def moment(text: str | None) -> str | None:
    """To the minute, in the time zone of whoever reads."""
    return None if text is None else datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")


def amount(both: Mapping[str, Any]) -> str:
    return f"ε = {both['epsilon']}, δ = {both['delta']}"


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    fields = (fitted(text, size, right=flush) for text, size, flush in zip(row, widths, right, strict=True))
    return _GAP.join(fields).rstrip()
