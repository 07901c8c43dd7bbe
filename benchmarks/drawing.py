"""What the plots are drawn with, in SVG: words, lines, and a page in light and dark. No script, no outside font."""

from collections.abc import Iterable
from xml.sax.saxutils import escape


def page(title: str, width: float, height: float, shapes: Iterable[str], light: str, dark: str) -> str:
    """A whole picture. `light` and `dark` are the styles of the shapes that only this plot has."""
    style = f"<style>{_LIGHT}{light}@media(prefers-color-scheme:dark){{{_DARK}{dark}}}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">{style}'
        f'<rect width="{width}" height="{height}" class="ground"/>{"".join(shapes)}</svg>\n'
    )


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Words that begin, or end, or have their middle at a point."""
    return f'<text x="{x:.1f}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line between two points, styled by its kind."""
    return f'<line x1="{x1:.1f}" y1="{y1:g}" x2="{x2:.1f}" y2="{y2:g}" class="{kind}"/>'


_LIGHT = (
    "text{font:13px system-ui,sans-serif;fill:#1c2733}.title{font-weight:600;font-size:16px}"
    ".head{font-weight:600}.unit{font-size:12px;opacity:.75}.ground{fill:#fff}.grid{stroke:#dde3e9}.axis{stroke:#8a97a5}"
)
_DARK = "text{fill:#e6edf3}.ground{fill:#11171d}.grid{stroke:#29333d}.axis{stroke:#6b7886}"
