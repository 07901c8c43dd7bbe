"""A slice of `python -m tests.fuzz.service`, and faults that it would notice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.api import intake
from app.api.decoding import decode_events
from app.core import kernel
from app.core.errors import BadBatch
from app.core.kernel import Batch
from tests.api.decoding.bodies import WRITERS
from tests.fuzz.service import MEBIBYTE, MOST_ABOVE, MOST_GROWTH, Failed, Figures, checked, post

_BODIES = 1000


def _posted(folder: Path, number: int) -> Figures:
    with checked(folder) as lanes:
        return asyncio.run(post(lanes, 1, number))


@pytest.mark.long
def test_a_body_is_counted_whole_or_refused_whole(tmp_path: Path) -> None:
    figures = _posted(tmp_path, _BODIES)
    assert figures.taken.total() + figures.refused.total() == _BODIES
    for content_type in WRITERS:
        assert figures.taken[content_type] >= 50
        assert figures.refused[content_type] >= 50
    assert {slug for _, slug in figures.kinds} == {"taken", "bad-batch", "body-too-large", "unsupported-media-type"}
    assert figures.is_bounded, figures


def _the_fault_noticed(folder: Path) -> str:
    with pytest.raises(Failed) as failure:
        _posted(folder, 100)
    return str(failure.value.__cause__)


def test_half_a_batch_would_be_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = decode_events

    def half(*arguments: Any, **limits: Any) -> Batch:
        batch = whole(*arguments, **limits)
        return kernel.batch_of(batch.pairs()[::2], batch.users()[::2])

    monkeypatch.setattr(intake, "decode_events", half)
    assert "all of a batch that was taken is counted" in _the_fault_noticed(tmp_path)


def test_a_refused_batch_that_counts_would_be_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    count = intake.Intake.count

    async def counted_and_refused(*arguments: Any) -> int:
        await count(*arguments)
        raise BadBatch("It was counted nevertheless.")

    monkeypatch.setattr(intake.Intake, "count", counted_and_refused)
    monkeypatch.setattr("tests.fuzz.counting.must_be_taken", lambda _: False)  # which would notice it first
    assert "nothing of a refused batch is counted" in _the_fault_noticed(tmp_path)


def test_a_failure_of_the_server_would_be_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def failing(*arguments: Any, **limits: Any) -> Batch:
        raise RuntimeError("a fault of the decoder")

    monkeypatch.setattr(intake, "decode_events", failing)
    assert "status=500" in _the_fault_noticed(tmp_path)


def test_a_process_that_grows_would_be_noticed() -> None:
    size = 100 * MEBIBYTE
    assert Figures(start=size, warm=size, end=size + MOST_GROWTH, peak=size + MOST_ABOVE).is_bounded
    assert not Figures(start=size, warm=size, end=size + MOST_GROWTH + 1, peak=size + MOST_GROWTH + 1).is_bounded
    assert not Figures(start=size, warm=size, end=size, peak=size + MOST_ABOVE + 1).is_bounded
