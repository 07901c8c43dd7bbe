"""The one door to the terminal: what it can show, how wide it is, and safe ways to write to it."""

import os
import shutil
import sys
import unicodedata
from enum import StrEnum
from typing import TextIO

_SMALLEST, _WIDEST = 40, 120
_BLOCKS = "█▏━┊├┼┤"
_PLAIN = str.maketrans(
    {"ε": "epsilon", "δ": "delta", "β": "beta", "ρ": "rho", "σ": "sigma", "≤": "<=", "·": "*"}
    | {"−": "-", "–": "-", "±": "+-", "…": "~"}
)


class Style(StrEnum):
    BAR = "36"
    WHISKER = "1"
    CUT = "31"
    QUIET = "2"
    STRONG = "1"
    ALARM = "33"


def out(text: str = "") -> None:
    """A line of result."""
    _write(sys.stdout, text + "\n")


def note(text: str) -> None:
    """A line beside the result, for people: on standard error."""
    _write(sys.stderr, text + "\n")


def rewrite(text: str) -> None:
    """Over the line that the cursor is in, on standard error."""
    _write(sys.stderr, f"\r\x1b[K{text}")


def exact(text: str) -> None:
    """Bytes for another program: as they came, in UTF-8, whatever the terminal speaks. On a terminal, lines without
    what would move the cursor."""
    if sys.stdout.isatty():
        _write(sys.stdout, clean_lines(text))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _write(stream: TextIO, text: str) -> None:
    stream.write(_spoken(stream, text))
    stream.flush()


def spoken(text: str) -> str:
    """As standard output can show it: to be asked before the columns are counted."""
    return _spoken(sys.stdout, text)


def _spoken(stream: TextIO, text: str) -> str:
    if _speaks(stream, text):
        return text
    encoding = stream.encoding or "ascii"
    return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)


def draws_blocks() -> bool:
    return _speaks(sys.stdout, _BLOCKS) and _speaks(sys.stderr, _BLOCKS)


def _speaks(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def width() -> int:
    """Columns of the terminal, or 80; kept where lines are readable."""
    return max(_SMALLEST, min(_WIDEST, shutil.get_terminal_size((80, 24)).columns))


def room_for_tables() -> int | None:
    """Columns, where somebody looks; what goes into a file or another program is not cut."""
    return width() if sys.stdout.isatty() or os.environ.get("COLUMNS") else None


def watched() -> bool:
    """Whether somebody sees standard error while it is written."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def styled(text: str, style: Style) -> str:
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{style}m{text}\x1b[0m" if coloured and text.strip() else text


def clean(text: str) -> str:
    """Without what would move the cursor or colour the rest: keys are whatever strangers sent."""
    return spoken("".join(character if character.isprintable() else "\ufffd" for character in text))


def clean_lines(text: str) -> str:
    """The same of several lines, whose ends are left."""
    return "".join(clean(line.rstrip("\r\n")) + "\n" * line.endswith("\n") for line in text.splitlines(keepends=True))


def columns(text: str) -> int:
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, size: int, *, right: bool = False) -> str:
    """Cut with an ellipsis or padded, to fill `size` columns."""
    if columns(text) > size:
        text = _cut(text, size - 1) + spoken("…")
    padding = " " * (size - columns(text))
    return padding + text if right else text + padding


def _cut(text: str, size: int) -> str:
    used = 0
    for position, character in enumerate(text):
        used += _columns_of(character)
        if used > size:
            return text[:position]
    return text
