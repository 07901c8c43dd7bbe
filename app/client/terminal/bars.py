"""Horizontal bars with error bars, in characters: `████├─┼─┤` is filled up to the low end, crossed at the count."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from app.client.terminal.output import Style, draws_blocks, styled

_STUB = 0.6  # the count at which a logarithmic scale begins: below 1, so that a single event has a length


class Ink(NamedTuple):
    """The characters that bars are drawn with."""

    full: str
    left: str
    line: str
    middle: str
    right: str
    unknown: str
    cut: str


BLOCKS = Ink("█", "├", "─", "┼", "┤", "→", "┊")
ASCII = Ink("#", "[", "-", "+", "]", ">", ":")


def ink() -> Ink:
    """The finest characters that the terminal can show."""
    return BLOCKS if draws_blocks() else ASCII


@dataclass(frozen=True, slots=True)
class Bar:
    """A count and the ends of its error bar. `high` is None where no upper bound is known; low = high: no error bar."""

    count: int
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Scale:
    """Which of `size` columns a count lies in; `share` says how far along it is, from 0 to 1."""

    size: int
    share: Callable[[float], float]

    @classmethod
    def linear(cls, size: int, top: int) -> "Scale":
        """Equal counts take equal lengths; `top` is the largest that fits."""
        return cls(size, lambda count: count / max(1, top))

    @classmethod
    def logarithmic(cls, size: int, top: int) -> "Scale":
        """Equal ratios take equal lengths; `top` is the largest that fits, and a count of 1 is still visible."""
        whole = math.log(max(2, top) / _STUB)
        return cls(size, lambda count: math.log(max(count, _STUB) / _STUB) / whole)

    def column(self, count: float) -> int:
        """The column of a count; counts beyond an end lie in the last column there."""
        return max(0, min(self.size - 1, int(self.share(count) * self.size)))


def drawn(bar: Bar, scale: Scale, *, cut: int | None = None, style: Style = Style.BAR) -> str:
    """The bar in exactly `scale.size` columns. The threshold, `cut`, is marked unless the bar covers it."""
    pen = ink()
    start = scale.column(max(0, bar.low))
    whisker = _whisker(bar, scale, start, pen)
    end = style if bar.low == bar.high else Style.WHISKER
    used = start + len(whisker)
    rest = " " * (scale.size - used)
    if cut is not None and scale.column(cut) >= used:
        mark = scale.column(cut) - used
        rest = rest[:mark] + styled(pen.cut, Style.CUT) + rest[mark + 1 :]
    return styled(pen.full * start, style) + styled(whisker, end) + rest


def _whisker(bar: Bar, scale: Scale, start: int, pen: Ink) -> str:
    if bar.low == bar.high:
        return pen.full if bar.count else ""
    middle = scale.column(bar.count)
    if bar.high is None:
        return (pen.left + pen.line * (middle - start) + pen.unknown)[: scale.size - start]
    end = scale.column(bar.high)
    if end == start:
        return pen.right
    marks = [pen.line] * (end - start + 1)
    marks[0], marks[-1] = pen.left, pen.right
    if start < middle < end:
        marks[middle - start] = pen.middle
    return "".join(marks)


def axis(scale: Scale, marks: Iterable[int]) -> str:
    """A line of labels, each beginning at the column of its count, as many as fit."""
    line = ""
    for mark in marks:
        column, label = scale.column(mark), f"{mark // 1000}k" if mark >= 1000 else str(mark)
        if (line == "" or column > len(line)) and column + len(label) <= scale.size:
            line = line.ljust(column) + label
    return line.ljust(scale.size)
