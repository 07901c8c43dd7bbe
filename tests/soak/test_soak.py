"""The soak, for seconds instead of minutes."""

import pytest

from tests.soak import summary
from tests.soak.soak import soak

pytestmark = pytest.mark.long


def test_nothing_is_lost_doubled_or_overspent_while_workers_are_killed_under_load(database_url: str) -> None:
    outcome = soak(database_url, seconds=9, kill_every=3)
    assert outcome.faults == [], "\n".join(summary.lines(outcome))
