"""What is drawn fits the terminal, in the letters that it has, with colour only where somebody sees it."""

import io
import json
import sys
from argparse import Namespace
from typing import Any

import pytest

from app.cli import main
from app.client.commands.common import show
from app.client.terminal.bars import ASCII, BLOCKS, Bar, Ink, Scale, axis, drawn
from app.client.terminal.histogram import LEFT_OUT, histogram
from app.client.terminal.output import columns, fitted, write_exactly, write_line
from app.client.terminal.progress import Progress
from app.client.terminal.tables import table

SNAPSHOT: dict[str, Any] = {
    "sketch": "views",
    "sketches": ["views"],
    "created_at": "2026-11-16T10:00:00Z",
    "mechanism": "pmg",
    "epsilon": "0.5",
    "delta": "1e-6",
    "beta": "0.05",
    "parameters": {"threshold": 33},
    "error_bound": {"below": 22, "above": 22, "sketch": 1, "unlisted": 55, "reason": ""},
    "guarantee": "Protects any one event, at ε = 0.5.",
    "histogram": [
        {"key": "/home", "count": 1000, "low": 900, "high": 1100},
        {"key": "/" + "long" * 40, "count": 500, "low": 400, "high": 600},
        {"key": "日本語のページ", "count": 300, "low": 200, "high": 400},
        {"key": "\x1b[31mred\nred", "count": 40, "low": 20, "high": 140},
    ],
}


class Terminal(io.TextIOWrapper):
    def __init__(self, encoding: str, *, tty: bool) -> None:
        super().__init__(io.BytesIO(), encoding, newline="")
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    @property
    def shown(self) -> str:
        self.seek(0)
        return self.read()


def _terminal(
    monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8", *, tty: bool = False, width: int = 80
) -> Terminal:
    terminal = Terminal(encoding, tty=tty)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return terminal


@pytest.mark.parametrize(("encoding", "pen"), [("utf-8", BLOCKS), ("ascii", ASCII), ("latin-1", ASCII)])
def test_a_bar_is_filled_to_its_low_end_and_crossed_at_its_count(
    monkeypatch: pytest.MonkeyPatch, encoding: str, pen: Ink
) -> None:
    _terminal(monkeypatch, encoding)
    scale = Scale.linear(10, 10)
    whole = pen.full * 4 + pen.left + pen.line + pen.middle + pen.line + pen.right + " "
    assert drawn(Bar(6, 4, 8), scale) == whole
    assert drawn(Bar(6, 6, 6), scale, cut=9) == pen.full * 7 + "  " + pen.cut
    assert drawn(Bar(6, 4, None), scale).rstrip() == pen.full * 4 + pen.left + pen.line * 2 + pen.unknown
    assert drawn(Bar(60, 61, 62), scale) == pen.full * 9 + pen.right
    assert drawn(Bar(-3, -9, 3), scale)[0] == pen.left


def test_ticks_lie_where_their_counts_do(monkeypatch: pytest.MonkeyPatch) -> None:
    _terminal(monkeypatch)
    scale = Scale.logarithmic(40, 50_000)
    line = axis(scale, (1, 10, 100, 1_000, 10_000))
    assert line.split() == ["1", "10", "100", "1k", "10k"]
    assert line.index("1k") == scale.column(1_000)
    assert len(line) == 40


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_histogram_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, encoding: str, width: int) -> None:
    terminal = _terminal(monkeypatch, encoding, width=width)
    write_line(histogram(SNAPSHOT))
    lines = terminal.shown.splitlines()
    assert all(columns(line) <= min(width, 120) for line in lines[1:])
    assert "\x1b" not in terminal.shown
    assert any(line.startswith(("\ufffd[31mred", "?[31mred")) for line in lines)


def test_the_sentences_below_it_are_its_bounds_and_its_guarantee(monkeypatch: pytest.MonkeyPatch) -> None:
    _terminal(monkeypatch)
    text = " ".join(histogram(SNAPSHOT).split())
    assert "Counts below 33 are not reported. With probability 0.95" in text
    assert "not reported is at most 55. Protects any one event, at ε = 0.5." in text
    unknown = {**SNAPSHOT["error_bound"], "sketch": None, "unlisted": None, "reason": "An earlier version counted."}
    unbounded = " ".join(histogram(SNAPSHOT | {"error_bound": unknown, "histogram": []}).split())
    assert "no key to show" in unbounded
    assert "not reported is not known. An earlier version counted." in unbounded


def test_totals_and_shares_stand_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    _terminal(monkeypatch)
    bars = [{**bar, "share": 12.5} for bar in SNAPSHOT["histogram"]]
    total = {"unit": "event", "count": 8000, "low": 7800, "high": 8200}
    other = {"count": 6160, "low": 5560, "high": 6680, "share": 77.0}
    text = " ".join(histogram(SNAPSHOT | {"histogram": bars, "total": total, "other": other}).split())
    assert "900–1,100 12.5 %" in text
    assert "In all 8,000 (7,800–8,200) events, 6,160 (5,560–6,680 77.0 %) of other keys." in text


def test_many_keys_are_cut_with_a_word_on_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    _terminal(monkeypatch)
    many = SNAPSHOT | {"histogram": [{"key": f"/{n}", "count": n, "low": n, "high": n + 9} for n in range(50, 100)]}
    assert "and 30 more (--top 50 shows all)" in histogram(many)
    assert "more (" not in histogram(many, most=50)


def test_keys_come_as_the_server_sorts_them_and_those_without_a_bar_say_what_they_are_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _terminal(monkeypatch, width=60)
    by_key = SNAPSHOT | {"histogram": SNAPSHOT["histogram"][1::-1]}
    assert [line.split()[0][:5] for line in histogram(by_key).splitlines()[1:3]] == ["/long", "/home"]
    absent = [{"key": "/x\x1b", "at_most": 1155}, {"key": "y" * 100, "at_most": None}]
    lines = histogram(by_key | {"unlisted": absent}).splitlines()[3:5]
    assert lines[0] == "/x\ufffd is not reported: at most 1,155"
    assert lines[1] == "y" * 43 + "… is not reported"


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _terminal(monkeypatch, tty=True)
    assert "\x1b[36m█" in histogram(SNAPSHOT)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in histogram(SNAPSHOT)


def test_a_table_gives_way_in_its_widest_words(monkeypatch: pytest.MonkeyPatch) -> None:
    _terminal(monkeypatch, width=40)
    lines = table(("name", "n"), [["x" * 90, 1_234_567], ["y", None]], empty="").splitlines()
    assert [len(line) for line in lines] == [40, 40, 40]
    assert lines[1].endswith("…  1,234,567")
    assert table(("name",), [], empty="None.") == "None."
    assert fitted("日本語", 5) == "日本…"


def test_what_is_exact_for_a_program_is_harmless_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'key,count\r\n"\x1b[2Ja\x9b\x07\u202eb\nc",1\r\nd\x85e,2\r\n'
    piped = _terminal(monkeypatch)
    write_exactly(text)
    assert piped.shown == text
    watched = _terminal(monkeypatch, tty=True)
    write_exactly(text)
    assert watched.shown == 'key,count\n"\ufffd[2Ja\ufffd\ufffd\ufffdb\nc",1\nd\ufffde,2\n'


def test_a_document_is_shown_with_escapes_and_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch, tty=True)
    document = {"key": "a\x1b\x7f\x9b\u202e\n日本🙂"}
    show(Namespace(json=True), document, str)
    assert json.loads(terminal.shown) == document
    assert all(character.isprintable() or character == "\n" for character in terminal.shown)
    assert "日本🙂" in terminal.shown


def test_a_failure_is_told_without_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch, tty=True)
    with pytest.raises(SystemExit):
        main(["ingest", "no\x1b[2Jwhere", "--sketch", "views", "--key", "k"])
    assert "\x1b" not in terminal.shown
    assert "no\ufffd[2Jwhere cannot be read" in terminal.shown


def test_a_histogram_that_is_not_whole_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    _terminal(monkeypatch)
    assert LEFT_OUT in " ".join(histogram(SNAPSHOT | {"truncated": True}).split())
    assert LEFT_OUT not in " ".join(histogram(SNAPSHOT | {"truncated": False}).split())


def test_progress_is_for_whoever_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = _terminal(monkeypatch, tty=True)
    with Progress("views") as progress:
        progress.advance(5_000, 0.5)
    assert "views  ████████████────────────  50%  5,000 events, " in watched.shown
    assert watched.shown.endswith("\r\x1b[K")
    unwatched = _terminal(monkeypatch)
    with Progress("views") as progress:
        progress.advance(5_000, None)
    assert unwatched.shown == ""
