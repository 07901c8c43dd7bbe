"""A released histogram in the terminal: bars with error bars, the cut, and what is guaranteed, in words."""

import textwrap
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from app.client.bars import Bar, Scale, drawn
from app.client.tables import cell, moment
from app.client.terminal import Style, clean, columns, fitted, spoken, styled, width

_MOST_ROWS = 20
_LEAST_FOR_ENDS = 64  # columns of a terminal that has room for the ends in figures
_LEAST_BAR = 10
LEFT_OUT = "The smallest counts were left out: the keys have more bytes together than the server lists."


def histogram(snapshot: Mapping[str, Any], *, most: int | None = None) -> str:
    """The largest counts first, the rest in a line."""
    bars = sorted(snapshot["histogram"], key=lambda bar: (-bar["count"], bar["key"]))
    shown = bars[: most or _MOST_ROWS]
    lines = [styled(_title(snapshot, len(bars)), Style.STRONG), *_rows(shown, snapshot["parameters"]["threshold"])]
    if len(shown) < len(bars):
        lines.append(f"and {len(bars) - len(shown):,} more (--top {len(bars)} shows all)")
    return "\n".join([*lines, "", *legend(snapshot)])


def _title(snapshot: Mapping[str, Any], number: int) -> str:
    terms = f"ε = {snapshot['epsilon']}, δ = {snapshot['delta']}, {moment(snapshot['created_at'])}"
    keys = f"{number:,} key{'' if number == 1 else 's'}" if number else "no key to show"
    return clean(f"{snapshot['sketch']}: {keys}, {snapshot['mechanism']}, {terms}")


def _rows(shown: list[dict[str, Any]], threshold: int) -> list[str]:
    if not shown:
        return []
    keys = [clean(bar["key"]) for bar in shown]
    counts = [cell(bar["count"]) for bar in shown]
    ends = [spoken(_ends(bar)) for bar in shown] if width() >= _LEAST_FOR_ENDS else [""] * len(shown)
    figures = max(map(len, counts)), max(map(columns, ends))
    room = width() - sum(figures) - 6
    names = min(max(map(columns, keys)), max(_LEAST_BAR, room * 2 // 5))
    scale = Scale.linear(max(_LEAST_BAR, room - names), max(bar["high"] or bar["count"] for bar in shown))
    return [
        "  ".join(
            (
                fitted(key, names),
                drawn(Bar(bar["count"], bar["low"], bar["high"]), scale, cut=threshold),
                fitted(count, figures[0], right=True),
                styled(fitted(end, figures[1]), Style.QUIET),
            )
        ).rstrip()
        for key, bar, count, end in zip(keys, shown, counts, ends, strict=True)
    ]


def _ends(bar: Mapping[str, Any]) -> str:
    return f"{cell(bar['low'])}–{'?' if bar['high'] is None else cell(bar['high'])}"


def legend(snapshot: Mapping[str, Any]) -> list[str]:
    threshold, bound = snapshot["parameters"]["threshold"], snapshot["error_bound"]
    sketch = bound["sketch_low"]
    missed = f"{bound['noise_low'] + (sketch or 0):,}" + (
        " and the sketch's own error (declare --expected-events to know it)" if sketch is None else ""
    )
    return wrapped(
        f"Counts below {threshold:,} are not reported. With probability {1 - Decimal(snapshot['beta']):f} every true "
        f"count lies within its error bar, and that of a key which was not reported is at most {missed}."
        + (f" {LEFT_OUT}" if snapshot.get("truncated") else "")
    ) + wrapped(snapshot["guarantee"])


def wrapped(words: str, *, indent: int = 0, most: int = 120) -> list[str]:
    """Broken at spaces, but not those of `ε = 0.5`."""
    tied = clean(words).replace(" = ", "\u00a0=\u00a0")
    lines = textwrap.wrap(tied, min(width(), most) - indent, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\u00a0", " ") for line in lines]
