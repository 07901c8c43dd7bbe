"""`make audit` prints a row for each case, and its exit status tells whether a claim was broken."""

from collections.abc import Callable

import pytest

from tests.audit import __main__ as command
from tests.audit.case import Case
from tests.audit.mistakes import Mistake, lower_threshold, worst_of_pmg


def status(monkeypatch: pytest.MonkeyPatch, case: Callable[[], Case]) -> int:
    monkeypatch.setattr(command, "every_case", lambda: [case()])
    monkeypatch.setattr(command, "MISTAKES", [])
    return command.main()


def test_a_claim_that_holds_ends_well(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(monkeypatch, worst_of_pmg) == 0
    assert "holds" in capsys.readouterr().out


def test_a_broken_claim_ends_with_status_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(monkeypatch, lambda: lower_threshold(worst_of_pmg(), by=2)) == 1
    assert "BROKEN" in capsys.readouterr().out


@pytest.mark.parametrize(("by", "expected"), [(2, 0), (0, 1)], ids=["found out", "missed"])
def test_a_mistake_that_goes_unnoticed_ends_with_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], by: int, expected: int
) -> None:
    monkeypatch.setattr(command, "every_case", lambda: [worst_of_pmg()])
    monkeypatch.setattr(command, "MISTAKES", [Mistake("a mistake", lambda: lower_threshold(worst_of_pmg(), by=by))])
    assert command.main() == expected
    assert ("MISSED" in capsys.readouterr().out) == bool(expected)
