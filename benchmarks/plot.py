"""The plot of errors: panels of dots on a logarithmic axis, as SVG."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.drawing import line, page, text

_LABELS, _PLOT, _GAP, _RIGHT = 160, 372, 36, 28
_TOP, _HEAD, _ROW, _FOOT = 96, 30, 24, 58
_FIRST, _LAST = 3, 30_000  # ends of the axis
_TICKS = (10, 100, 1_000, 10_000)
_RADII = (6.5, 4.75, 3)  # equal values stay visible as rings


@dataclass(frozen=True, slots=True)
class Panel:
    """The errors of each contender, with those of the sketch alone and of releasing nothing for comparison."""

    title: str
    rows: Mapping[str, Mapping[str, float]]  # contender -> ε -> error
    sketch_alone: float
    nothing_released: float


def picture(title: str, subtitle: str, epsilons: Sequence[str], panels: Sequence[Panel]) -> str:
    """The whole plot, two panels a row, all on the same axis."""
    height_of_panel = _HEAD + _ROW * max(len(panel.rows) for panel in panels) + _FOOT
    width = _LABELS + 2 * _PLOT + _GAP + _RIGHT
    height = _TOP + height_of_panel * math.ceil(len(panels) / 2)
    shapes = [text(16, 28, title, kind="title"), text(16, 48, subtitle), *_legend(epsilons, 72)]
    for number, panel in enumerate(panels):
        left = _LABELS + (number % 2) * (_PLOT + _GAP)
        shapes += _panel(panel, epsilons, left, _TOP + (number // 2) * height_of_panel, named=number % 2 == 0)
    return page(title, width, height, shapes, _LIGHT, _DARK)


def _legend(epsilons: Sequence[str], y: float) -> list[str]:
    shapes, x = [], 22.0
    for place, epsilon in enumerate(epsilons):
        shapes += [_dot(x, y, place), text(x + 12, y + 4, f"ε = {epsilon}")]
        x += 84
    for kind, words in (("alone", "the sketch alone"), ("nothing", "nothing released")):
        shapes += [line(x, y - 8, x, y + 8, kind), text(x + 10, y + 4, words)]
        x += 142
    return shapes


def _panel(panel: Panel, epsilons: Sequence[str], left: float, top: float, *, named: bool) -> list[str]:
    first_row, foot = top + _HEAD, top + _HEAD + _ROW * len(panel.rows)
    shapes = [text(left, top + 18, panel.title, kind="head"), *_axis(left, first_row, foot)]
    for kind, value in (("alone", panel.sketch_alone), ("nothing", panel.nothing_released)):
        if value >= _FIRST:
            shapes.append(line(_x(left, value), first_row, _x(left, value), foot, kind))
    for place, (name, errors) in enumerate(panel.rows.items()):
        middle = first_row + _ROW * (place + 0.5)
        if named:
            shapes.append(text(left - 10, middle + 4, name, "end", "head" if place == 0 else ""))
        shapes += _row(left, middle, [errors.get(epsilon) for epsilon in epsilons])
    return shapes


def _axis(left: float, top: float, foot: float) -> list[str]:
    grid = [line(_x(left, tick), top, _x(left, tick), foot, "grid") for tick in _TICKS]
    words = [text(_x(left, tick), foot + 17, f"{tick:,}", "middle") for tick in _TICKS]
    words.append(text(left + _PLOT / 2, foot + 35, "error in events", "middle", "unit"))
    return [*grid, *words, line(left, foot, left + _PLOT, foot, "axis"), line(left, top, left, foot, "axis")]


def _row(left: float, middle: float, errors: Sequence[float | None]) -> list[str]:
    at = [None if error is None else _x(left, error) for error in errors]
    known = [x for x in at if x is not None]
    dots = [_dot(x, middle, place) for place, x in enumerate(at) if x is not None]
    return [line(min(known), middle, max(known), middle, "span"), *dots]


def _x(left: float, value: float) -> float:
    share = math.log(max(value, _FIRST) / _FIRST) / math.log(_LAST / _FIRST)
    return left + _PLOT * min(share, 1)


def _dot(x: float, y: float, place: int) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:g}" r="{_RADII[place]}" class="dot{place}"/>'


_LIGHT = (
    ".span{stroke:#9db4cc;stroke-width:2}.dot0{fill:#a9c8ea}.dot1{fill:#4a86c5}.dot2{fill:#123c69}"
    "circle{stroke:#fff;stroke-width:.75}"
    ".alone{stroke:#2f7d4f;stroke-width:1.5;stroke-dasharray:6 3}"
    ".nothing{stroke:#b3412f;stroke-width:1.5;stroke-dasharray:2 3}"
)
_DARK = (
    ".span{stroke:#3d5268}.dot0{fill:#2f5f92}.dot1{fill:#6aa3dc}.dot2{fill:#dcebfa}"
    "circle{stroke:#11171d}.alone{stroke:#6fce95}.nothing{stroke:#ff8a75}"
)
