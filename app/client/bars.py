"""Horizontal bars with error bars, in characters: `████├─┼─┤` is filled up to the low end, crossed at the count."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from app.client.terminal import Style, draws_blocks, styled

_STUB = 0.6  # where a logarithmic scale begins: one event still has a length


class Ink(NamedTuple):
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
    return BLOCKS if draws_blocks() else ASCII


@dataclass(frozen=True, slots=True)
class Bar:
    """A count between its ends. Without a high end the error bar has none; without an error bar both are the count."""

    count: int
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Scale:
    """From counts to columns, `size` of them."""

    size: int
    share: Callable[[float], float]

    @classmethod
    def linear(cls, size: int, top: int) -> "Scale":
        return cls(size, lambda count: count / max(1, top))

    @classmethod
    def logarithmic(cls, size: int, top: int) -> "Scale":
        whole = math.log(max(2, top) / _STUB)
        return cls(size, lambda count: math.log(max(count, _STUB) / _STUB) / whole)

    def column(self, count: float) -> int:
        return max(0, min(self.size - 1, int(self.share(count) * self.size)))


def drawn(bar: Bar, scale: Scale, *, cut: int | None = None, style: Style = Style.BAR) -> str:
    """Exactly `scale.size` columns. The cut shows where the bar leaves it room."""
    pen = ink()
    start = scale.column(max(0, bar.low))
    whisker = _whisker(bar, scale, start, pen)
    end = style if bar.low == bar.high else Style.WHISKER
    rest = _rest(scale.size, start + len(whisker), None if cut is None else scale.column(cut), pen)
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


def _rest(size: int, used: int, cut: int | None, pen: Ink) -> str:
    if cut is None or cut < used:
        return " " * (size - used)
    return " " * (cut - used) + styled(pen.cut, Style.CUT) + " " * (size - cut - 1)


def axis(scale: Scale, marks: Iterable[int]) -> str:
    """Labels that begin at their columns, as many as fit."""
    line = ""
    for mark in marks:
        column, label = scale.column(mark), f"{mark // 1000}k" if mark >= 1000 else str(mark)
        if (line == "" or column > len(line)) and column + len(label) <= scale.size:
            line = line.ljust(column) + label
    return line.ljust(scale.size)
