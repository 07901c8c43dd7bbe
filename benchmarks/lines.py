"""The plot of costs: panels of lines on logarithmic axes, as SVG."""

import math
from collections.abc import Collection
from dataclasses import dataclass

from benchmarks.drawing import line, page, text

_LEFT, _PLOT, _GAP, _RIGHT = 76, 360, 84, 28
_TOP, _HEAD, _HEIGHT, _FOOT = 64, 48, 200, 60
_COLOURS = ("first", "second", "third", "fourth")

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves by name, against what the title says."""

    title: str
    curves: dict[str, list[Point]]


@dataclass(frozen=True, slots=True)
class _Axis:
    """From one round number to another, in logarithms."""

    ends: tuple[float, float]
    place: tuple[float, float]  # of the ends, in the picture

    def at(self, value: float) -> float:
        low, high = self.ends
        share = math.log(value / low) / math.log(high / low)
        return self.place[0] + share * (self.place[1] - self.place[0])


def picture(title: str, subtitle: str, panels: Collection[Panel]) -> str:
    """The whole plot, two panels a row."""
    height_of_panel = _HEAD + _HEIGHT + _FOOT
    width = _LEFT + 2 * _PLOT + _GAP + _RIGHT
    height = _TOP + height_of_panel * math.ceil(len(panels) / 2)
    shapes = [text(16, 28, title, kind="title"), text(16, 48, subtitle)]
    for number, panel in enumerate(panels):
        left = _LEFT + (number % 2) * (_PLOT + _GAP)
        shapes += _panel(panel, left, _TOP + (number // 2) * height_of_panel)
    return page(title, width, height, shapes, _LIGHT, _DARK)


def _panel(panel: Panel, left: float, top: float) -> list[str]:
    first, foot = top + _HEAD, top + _HEAD + _HEIGHT
    points = [point for curve in panel.curves.values() for point in curve]
    marks = sorted({x for x, _cost in points})
    across = _Axis((marks[0], marks[-1] if len(marks) > 1 else marks[0] * 10), (left, left + _PLOT))
    steps = _steps([cost for _x, cost in points])
    up = _Axis((steps[0], steps[-1]), (foot, first))
    shapes = [text(left, top + 18, f"against {panel.title}", kind="head")]
    for step in steps:
        shapes += [line(left, up.at(step), left + _PLOT, up.at(step), "grid")]
        shapes += [text(left - 8, up.at(step) + 4, _time(step), "end")]
    for mark in marks:
        shapes += [line(across.at(mark), foot, across.at(mark), foot + 5, "axis")]
        shapes += [text(across.at(mark), foot + 20, _short(mark), "middle")]
    shapes += [line(left, foot, left + _PLOT, foot, "axis"), line(left, first, left, foot, "axis")]
    for place, (name, curve) in enumerate(panel.curves.items()):
        shapes += _legend(name, left + 130 * place, top + 36, _COLOURS[place])
        shapes += _curve([(across.at(x), up.at(cost)) for x, cost in curve], _COLOURS[place])
    return shapes


def _steps(costs: list[float]) -> list[float]:
    """Powers of ten and their halves and fifths around the costs, over a factor of ten or more, few enough to read."""
    low, high = min(costs), max(costs)
    if high / low < 10:  # a flat line should look flat
        low, high = low / 2, low * 10
    fine = [factor * 10.0**power for power in range(-1, 12) for factor in (1, 2, 5)]
    steps = fine[: 1 + next(at for at, step in enumerate(fine) if step >= high)]
    steps = steps[max(at for at, step in enumerate(steps) if step <= low) :]
    return steps if len(steps) <= 7 else _powers(low, high)


def _powers(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def _time(nanoseconds: float) -> str:
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= size:
            return f"{nanoseconds / size:g} {unit}"
    return f"{nanoseconds:g} ns"


def _short(value: float) -> str:
    """From 100,000 on as a power of ten."""
    if value >= 1e5:
        return f"{value:.0e}".replace("e+0", "e")
    return f"{value:,.0f}"


def _legend(name: str, x: float, y: float, colour: str) -> list[str]:
    return [line(x, y - 4, x + 18, y - 4, colour), text(x + 24, y, name)]


def _curve(points: list[Point], colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{colour}"/>' for x, y in points]
    return [f'<polyline points="{path}" class="{colour}"/>', *dots]


_LIGHT = (
    "polyline{fill:none}.first,.second,.third,.fourth{stroke-width:2}.first{stroke:#123c69}.second{stroke:#b3412f}"
    ".third{stroke:#2f7d4f}.fourth{stroke:#8a6d1d}circle{fill:#fff}"
)
_DARK = ".first{stroke:#8fc1f5}.second{stroke:#ff8a75}.third{stroke:#6fce95}.fourth{stroke:#e3c566}circle{fill:#11171d}"
