"""A released histogram as plain SVG: bars, error whiskers, the threshold. No script, no outside font.

Lengths across are shares of the width and there is no viewBox: whoever sets the width of the root to 100%, as the
console does, gets shorter bars on a phone and letters of the same size.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from xml.sax.saxutils import escape

from app.core.histogram import Bar, Rest, Snapshot, TotalCount
from app.core.selection import Sorting

_WIDTH, _TOP, _ROW, _FOOT = 720, 62, 40, 58
MOST_BARS = 100
_OTHER = "(all other keys)"
_MOST_LETTERS = 64  # of a key; what is still too wide for the picture is cut at its edge
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(snapshot: Snapshot, histogram: Sequence[Bar], order: Sorting) -> str:
    """The histogram, which is in this order, as an SVG document: its first bars, at most a hundred of them; and where
    the total was released, a bar for all other keys."""
    bars = histogram[:MOST_BARS]
    rest = Rest(snapshot.total)
    rest.take(bars)
    other = rest.interval()
    rows = [*bars, Bar(_OTHER, other.count, other.low, other.high)] if other else bars
    threshold = int(str(snapshot.parameters["threshold"]))
    scale = 100 / max([bar.high or bar.count for bar in rows] + [threshold, 1])
    foot = _TOP + _ROW * max(1, len(rows))
    height = foot + _FOOT
    cut = f"{_share(threshold * scale)}%"
    moment = snapshot.created_at.strftime("%Y-%m-%d %H:%M")
    price = f"ε = {snapshot.epsilon}" if snapshot.epsilon else f"ρ = {snapshot.rho}"
    terms = f"{snapshot.mechanism}, {price}, δ = {snapshot.delta}, {moment}{_in_all(snapshot.total)}"
    drawn = [
        _text("0", 24, snapshot.title, "title"),
        _text("0", 44, terms, "quiet"),
        _line(cut, _TOP, cut, foot, "cut"),
        *(part for at, bar in enumerate(rows) for part in _bar(bar, _TOP + at * _ROW, scale, snapshot.total)),
        *([] if rows else [_text("0", _TOP + 20, "No key to show")]),
        *_legend(snapshot, threshold, foot + 22),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" role="img" '
        'aria-labelledby="histogram-title histogram-words">'
        f'<title id="histogram-title">Private histogram of {_clean(snapshot.title)}</title>'
        f'<desc id="histogram-words">{_clean(_description(bars, order, threshold))}</desc>{_STYLE}'
        '<rect width="100%" height="100%" class="ground"/>'
        f'<svg x="2%" width="96%" height="{height}">{"".join(drawn)}</svg></svg>'
    )


def _in_all(total: TotalCount | None) -> str:
    if total is None:
        return ""
    counted = "people" if total.unit == "user" else "events"
    return f"; {total.count:,} {counted} in all ({total.low:,} to {total.high:,})"


def _description(bars: Sequence[Bar], order: Sorting, threshold: int) -> str:
    if not bars:
        return f"No key to show. Counts below {threshold} are not reported."
    names = "; ".join(f"{_shortened(bar.key)}: {bar.count:,}" for bar in bars[:5])
    sorting = "the largest first" if order == "count" else "in the order of their keys"
    return f"{len(bars)} noisy counts, {sorting}: {names}. Counts below {threshold} are not reported."


def _bar(bar: Bar, y: float, scale: float, total: TotalCount | None) -> list[str]:
    """Key and count on one line, the bar with its whisker below. Without a known upper end the whisker has none."""
    middle = y + 27
    low, length = (_share(number * scale) for number in (bar.low, bar.count))
    high = length if bar.high is None else _share(bar.high * scale)
    ends = (low,) if bar.high is None else (low, high)
    share = None if total is None else total.share(bar.count)
    number = f"{bar.count:,}" + ("" if share is None else f" ({share} %)")
    return [
        f'<svg y="{y:g}" width="76%" height="20">{_text("0", 15, _shortened(bar.key))}</svg>',
        _text("100%", y + 15, number, "number"),
        f'<rect y="{middle - 6:g}" width="{length}%" height="12" rx="2" class="bar"/>',
        _line(f"{low}%", middle, f"{high}%", middle, "whisker"),
        *(_line(f"{end}%", middle - 4, f"{end}%", middle + 4, "whisker") for end in ends),
    ]


def _legend(snapshot: Snapshot, threshold: int, y: float) -> list[str]:
    probability = 1 - Decimal(snapshot.beta)
    more = ", nor the smallest above it" if snapshot.truncated else ""
    return [
        _line("6", y - 10, "6", y + 2, "cut"),
        _text("20", y, f"cut: counts below {threshold:,} are not reported{more}", "quiet"),
        _line("0", y + 16, "12", y + 16, "whisker"),
        *(_line(x, y + 12, x, y + 20, "whisker") for x in ("0", "12")),
        _text("20", y + 20, f"true counts, all with probability {probability:f}", "quiet"),
    ]


def _share(length: float) -> float:
    """A length in percent of the width, rounded."""
    return round(max(0.0, length), 3)


def _shortened(key: str) -> str:
    return key if len(key) <= _MOST_LETTERS else key[: _MOST_LETTERS - 1] + "…"


def _clean(words: str) -> str:
    """Text that is safe in XML: escaped, and without characters that XML does not allow."""
    return escape(_NOT_IN_XML.sub("\ufffd", words))


def _text(x: str, y: float, words: str, kind: str = "key") -> str:
    return f'<text x="{x}" y="{y:g}" class="{kind}">{_clean(words)}</text>'


def _line(x1: str, y1: float, x2: str, y2: float, kind: str) -> str:
    return f'<line x1="{x1}" y1="{y1:g}" x2="{x2}" y2="{y2:g}" class="{kind}"/>'


# The halo around the letters keeps them legible where the threshold's line passes. The grounds are the console's.
_STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#1b2530;stroke:#fff;stroke-width:4px;stroke-linejoin:round;"
    "paint-order:stroke}.title{font-weight:600;font-size:15px}.number{text-anchor:end;font-variant-numeric:tabular-nums}"
    ".quiet{fill:#55616e;font-size:12px}.ground{fill:#fff}.bar{fill:#8fb4d9}.whisker{stroke:#1b2530;stroke-width:1.5}"
    ".cut{stroke:#b3412f;stroke-width:1.5;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e4eaf0;stroke:#171e26}.quiet{fill:#a3b0bd}.ground{fill:#171e26}"
    ".bar{fill:#3d6a97}.whisker{stroke:#e4eaf0}.cut{stroke:#ff8f7a}}</style>"
)
