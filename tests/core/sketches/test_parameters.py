"""Public parameters say for themselves what follows from them, and how two sketches differ."""

from dataclasses import fields, replace
from typing import Any

import pytest

from app.core.ledger.basis import SketchBasis
from app.core.sketches.parameters import Contributions, SketchParameters
from app.core.sketches.universe import of_range, of_values

_EVENTS = SketchParameters(k=8, unit="event", max_contributions=3)


def test_sketches_of_the_same_parameters_do_not_differ() -> None:
    listed = replace(_EVENTS, universe=of_values("ab"))
    assert _EVENTS.difference_from(_EVENTS) is None
    assert listed.difference_from(replace(_EVENTS, universe=of_values("ba"))) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"k": 9}, "k = 9"),
        ({"unit": "user"}, "unit = user"),
        ({"max_contributions": 2}, "max_contributions = 2"),
        ({"universe": of_range(1, 5)}, "another universe"),
    ],
)
def test_a_difference_names_the_parameter_and_what_the_other_has(changes: dict[str, Any], words: str) -> None:
    assert _EVENTS.difference_from(replace(_EVENTS, **changes)) == (next(iter(changes)), words)


def test_of_several_differences_the_first_is_told() -> None:
    other = SketchParameters(k=9, unit="user", max_contributions=4, universe=of_range(1, 5))
    assert _EVENTS.difference_from(other) == ("k", "k = 9")


def test_who_enforces_the_bound_is_no_difference() -> None:
    """Whether people may be in both sketches is decided by the register where they are counted."""
    assert _EVENTS.difference_from(replace(_EVENTS, enforcement="enforced")) is None


def test_a_set_of_keys_is_one_contribution_to_a_mechanism_whatever_its_size() -> None:
    sets = replace(_EVENTS, unit="user")
    assert (_EVENTS.covered_events, sets.covered_events) == (3, 1)
    assert (_EVENTS.first_family, sets.first_family) == ("stream", "compact")
    assert sets.contributions == Contributions("user", 3)


def test_only_a_declared_universe_has_a_size() -> None:
    assert _EVENTS.universe_size is None
    assert replace(_EVENTS, universe=of_range(1, 5)).universe_size == 5


def test_every_parameter_is_in_what_the_entries_of_a_ledger_are_hashed_over() -> None:
    """Otherwise somebody could change it in the database, and no audit would notice."""
    hashed = {field.name for field in fields(SketchBasis)}
    named = {"universe_digest" if field.name == "universe" else field.name for field in fields(SketchParameters)}
    assert named <= hashed
