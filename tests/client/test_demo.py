"""The demonstration shows all of it: the picture beside the truth, the price, the refusal; and leaves nothing."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.client import demo_shop
from app.client.connection import Api, at
from app.client.failures import Unreachable
from tests.documents import demonstration

SHOWN = ("Sent", "Planned", "Promised", "Paid", "Refused")


def _started(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    surroundings = {**os.environ, "TMPDIR": str(folder), "COLUMNS": "80", **environment}
    command = [sys.executable, "-m", "app.cli", "demo", *arguments]
    return subprocess.Popen(
        command,
        env=surroundings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        preexec_fn=_interruptible,
    )


def _interruptible() -> None:
    """Also where the tests run in the background of a shell, which has its children ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_it_tells_the_whole_story_in_a_screenful_of_ascii(tmp_path: Path) -> None:
    out, err = _started(tmp_path, PYTHONIOENCODING="ascii").communicate(timeout=60)
    lines = out.splitlines()
    assert (err, out.isascii()) == ("", True)
    assert len(lines) <= 32  # `epsilon` takes more room than ε
    assert max(map(len, lines)) <= 80
    for label in SHOWN:
        assert any(line.startswith(label) for line in lines)
    assert any(line.startswith("/search ") and "####" in line and "20,500" in line for line in lines)
    assert out.count("hidden") == len(demo_shop.SECRETS)
    assert "budget-exhausted" in out
    assert list(tmp_path.iterdir()) == []


def test_kept_it_can_be_asked_until_ctrl_c(tmp_path: Path) -> None:
    demo = _started(tmp_path, "--keep", PYTHONIOENCODING="utf-8")
    try:
        told = _read_until("Ctrl-C", demo)
        url, key = re.findall(r"DISCREET_URL=(\S+) DISCREET_KEY=(\S+)", told)[0]
        released = {bar["key"] for bar in _histogram(url, key)}
    finally:
        demo.send_signal(signal.SIGINT)
        _, err = demo.communicate(timeout=30)
    assert (demo.returncode, err) == (0, "")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Unreachable):
        _histogram(url, key)
    assert "/" in released
    assert not released & set(demo_shop.SECRETS)
    story = told.partition("\nThe server is still there")[0].splitlines()
    assert len(story) <= 30
    assert [line for line in demonstration() if line not in story] == []
    assert sum("hidden" in line for line in demonstration()) == len(demo_shop.SECRETS)
    assert max(map(len, story)) <= 80
    assert any(re.match(r"/search +█+┤ +20,500 +20,[45]\d\d$", line) for line in story)
    assert all(any(line.startswith(page) and line.endswith("hidden") for line in story) for page in demo_shop.SECRETS)


def _read_until(words: str, demo: subprocess.Popen[str]) -> str:
    assert demo.stdout
    told = ""
    while words not in told:
        line = demo.stdout.readline()
        assert line, told
        told += line
    return told


def _histogram(url: str, key: str) -> list[dict[str, Any]]:
    api = Api(url, key)
    try:
        bars: list[dict[str, Any]] = api.get(at("sketches", "page-views", "histogram"))["histogram"]
        return bars
    finally:
        api.close()


def test_the_views_are_the_same_each_time_and_a_few_are_rare() -> None:
    seen = demo_shop.views()
    assert len(seen) == demo_shop.EVENTS
    assert seen == demo_shop.views()
    counts = demo_shop.truth(seen)
    assert {page: counts[page] for page in demo_shop.SECRETS} == demo_shop.SECRETS
    assert counts["/"] > 40_000
    assert min(count for page, count in counts.items() if page not in demo_shop.SECRETS) > 10
