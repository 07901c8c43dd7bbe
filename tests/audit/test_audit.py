"""The audit passes the service as it is, comes close to its claims, and fails every seeded mistake.

The draws come from the operating system and cannot be seeded. The service as it is fails with probability at most
`audit.RISK`. Every mistake passes its claim by at least eight standard deviations more than the bounds ask for, as
measured, so a miss is far less likely than that.
"""

from dataclasses import replace
from functools import cache

import pytest

from app.core.mechanisms import MECHANISMS
from app.core.noise.samplers import SYSTEM_NOISE
from tests.audit.audit import Verdict, audit
from tests.audit.cases import every_case
from tests.audit.drawing import Source
from tests.audit.mistakes import MISTAKES, Mistake

FEWER = 15  # times fewer draws than in a full audit

pytestmark = pytest.mark.long

source = cache(Source)  # each audit here gets the same draws again, which its own risk does not depend on


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    cases = [replace(case, draws=case.draws // FEWER) for case in every_case()]
    return list(audit(cases, source(SYSTEM_NOISE)))


def test_no_bound_passes_its_claim(verdicts: list[Verdict]) -> None:
    assert [verdict.case.neighbours for verdict in verdicts if verdict.broken] == []


def test_every_mechanism_is_attacked(verdicts: list[Verdict]) -> None:
    everything = {mechanism.name for mechanism in MECHANISMS}
    assert {verdict.case.mechanism for verdict in verdicts} == everything | {"pmg standard"}


def test_the_worst_neighbours_of_pmg_need_most_of_their_delta(verdicts: list[Verdict]) -> None:
    """Some 84 % of it, give or take 3, with these draws: the attack is a strong one."""
    worst = next(verdict for verdict in verdicts if "S6, two keys" in verdict.case.neighbours)
    assert worst.share > 0.65


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_found_out(mistake: Mistake) -> None:
    (verdict,) = audit([mistake.case()], source(mistake.noise))
    assert verdict.broken
