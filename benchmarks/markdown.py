"""What the reports are written with: tables that are aligned as they stand, and numbers of three digits."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 0) -> str:
    """Markdown that is aligned as it stands; the first `words` columns to the left, numbers to the right."""
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        sized = enumerate(zip(cells, widths, strict=True))
        padded = (f"{cell:<{width}}" if at < words else f"{cell:>{width}}" for at, (cell, width) in sized)
        return f"| {' | '.join(padded)} |"

    dashes = ["-" * (width - 1) for width in widths]
    rule = [f":{dash}" if at < words else f"{dash}:" for at, dash in enumerate(dashes)]
    return "\n".join([line(head), line(rule), *map(line, rows)])


def number(value: float) -> str:
    """Three digits, or all whole ones."""
    decimals = 0 if value == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{decimals}f}"
