"""A released histogram as plain SVG: bars, error whiskers, the threshold. No script, no outside font."""

import re
from xml.sax.saxutils import escape

from app.core.histogram import Bar, Snapshot

_LEFT, _PLOT, _RIGHT, _ROW, _TOP = 200, 520, 90, 24, 56
_MOST_BARS = 100
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    clean = escape(_NOT_IN_XML.sub("\ufffd", words))
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{style}>{clean}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>'


def svg(snapshot: Snapshot) -> str:
    """The largest bars first, at most a hundred of them."""
    bars = sorted(snapshot.histogram, key=lambda bar: (-bar.count, bar.key))[:_MOST_BARS]
    threshold = int(str(snapshot.parameters["threshold"]))
    largest = max([bar.high or bar.count for bar in bars] + [threshold, 1])
    scale = _PLOT / largest
    width, height = _LEFT + _PLOT + _RIGHT, _TOP + _ROW * max(1, len(bars)) + 34
    at = _LEFT + threshold * scale
    foot = _TOP + _ROW * max(1, len(bars)) + 6
    shapes = [
        _text(12, 22, snapshot.sketch, style=' class="title"'),
        _text(
            12,
            42,
            f"{snapshot.mechanism}, ε = {snapshot.epsilon}, δ = {snapshot.delta}; β = {snapshot.beta}",
        ),
        *(shape for row, bar in enumerate(bars) for shape in _bar(bar, _TOP + row * _ROW, scale)),
        *([] if bars else [_text(_LEFT, _TOP + 16, "no key reached the threshold")]),
        _line(at, _TOP - 4, at, foot, "cut"),
        _text(at, foot + 16, f"cut below {threshold}", "middle"),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="Private histogram of {escape(snapshot.sketch)}">{_STYLE}'
        f'<rect width="{width}" height="{height}" class="ground"/>{"".join(shapes)}</svg>'
    )


def _bar(bar: Bar, y: float, scale: float) -> list[str]:
    middle = y + _ROW / 2
    name = bar.key if len(bar.key) <= 24 else bar.key[:23] + "…"
    length = max(0.0, bar.count * scale)
    high = bar.high if bar.high is not None else bar.count
    ends = (_LEFT + max(0.0, bar.low * scale), _LEFT + high * scale)
    return [
        _text(_LEFT - 8, middle + 4, name, "end"),
        f'<rect x="{_LEFT}" y="{y + 4:g}" width="{length:g}" height="{_ROW - 8}" class="bar"/>',
        _line(ends[0], middle, ends[1], middle, "whisker"),
        *(_line(end, middle - 4, end, middle + 4, "whisker") for end in ends),
        _text(max(ends[1], _LEFT + length) + 8, middle + 4, f"{bar.count:,}"),
    ]


_STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#1c2733}.title{font-weight:600;font-size:15px}"
    ".ground{fill:#fff}.bar{fill:#5b8fc7}.whisker{stroke:#1c2733;stroke-width:1.5}"
    ".cut{stroke:#b3412f;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#11171d}.bar{fill:#3f6f9f}"
    ".whisker{stroke:#e6edf3}.cut{stroke:#ff8a75}}</style>"
)
