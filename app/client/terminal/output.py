"""The only way to the terminal: what it can show, how wide it is, and writing that cannot do it harm."""

import os
import shutil
import sys
import textwrap
import unicodedata
from enum import StrEnum
from typing import TextIO

_SMALLEST, _WIDEST = 40, 120
_BLOCKS = "█▏━┊├┼┤"
_SPELLED_OUT = str.maketrans(
    {"ε": "epsilon", "δ": "delta", "β": "beta", "ρ": "rho", "σ": "sigma", "≤": "<=", "·": "*"}
    | {"−": "-", "–": "-", "±": "+-", "…": "~"}
)


class Style(StrEnum):
    """What a piece of text stands for, as the number of the terminal's colour or weight."""

    BAR = "36"
    WHISKER = "1"
    CUT = "31"
    QUIET = "2"
    STRONG = "1"
    ALARM = "33"


# Writing


def write_line(text: str = "") -> None:
    """Write a line of the result to standard output."""
    _write(sys.stdout, text + "\n")


def write_note(text: str) -> None:
    """Write a line that is not part of the result to standard error, for people."""
    _write(sys.stderr, text + "\n")


def rewrite(text: str) -> None:
    """Replace the line that the cursor is in, on standard error."""
    _write(sys.stderr, f"\r\x1b[K{text}")


def write_exactly(text: str) -> None:
    """Write for another program: in UTF-8, byte by byte as the server sent it. A terminal gets harmless lines."""
    if sys.stdout.isatty():
        _write(sys.stdout, clean_lines(text))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _write(stream: TextIO, text: str) -> None:
    stream.write(_encodable(stream, text))
    stream.flush()


# What can be shown


def spoken(text: str) -> str:
    """The text in characters that standard output can encode. Ask before counting columns: ε becomes "epsilon"."""
    return _encodable(sys.stdout, text)


def _encodable(stream: TextIO, text: str) -> str:
    if _can_encode(stream, text):
        return text
    encoding = stream.encoding or "ascii"
    return text.translate(_SPELLED_OUT).encode(encoding, "replace").decode(encoding)


def draws_blocks() -> bool:
    """Whether block and box characters can be written, both to standard output and to standard error."""
    return _can_encode(sys.stdout, _BLOCKS) and _can_encode(sys.stderr, _BLOCKS)


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def clean(text: str) -> str:
    """The text without characters that would move the cursor or colour the rest: keys are whatever strangers sent."""
    return spoken("".join(character if character.isprintable() else "\ufffd" for character in text))


def clean_lines(text: str) -> str:
    """Several lines, each cleaned, with the line ends left in place."""
    return "".join(clean(line.rstrip("\r\n")) + "\n" * line.endswith("\n") for line in text.splitlines(keepends=True))


def styled(text: str, style: Style) -> str:
    """The text in this style, if standard output is a terminal that wants colour."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{style}m{text}\x1b[0m" if coloured and text.strip() else text


def is_watched() -> bool:
    """Whether somebody sees standard error while it is written."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


# Columns


def width() -> int:
    """How many columns the terminal has, or 80 if there is none; from 40 to 120, where lines are readable."""
    return max(_SMALLEST, min(_WIDEST, shutil.get_terminal_size((80, 24)).columns))


def columns(text: str) -> int:
    """How many columns the text takes: combining characters take none, wide East Asian ones two."""
    return sum(_columns_of(character) for character in text)


def _columns_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, size: int, *, right: bool = False) -> str:
    """The text cut with an ellipsis or padded, to fill `size` columns."""
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


def wrapped(words: str, *, indent: int = 0, most: int = 120) -> list[str]:
    """Sentences as lines that fit beside an indent, broken at spaces, but never within `ε = 0.5`."""
    tied = clean(words).replace(" = ", "\u00a0=\u00a0")
    lines = textwrap.wrap(tied, min(width(), most) - indent, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\u00a0", " ") for line in lines]
