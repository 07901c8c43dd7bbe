"""The neighbours that the audit attacks are those that it names."""

import pytest

from tests.audit import neighbours

K = 4


@pytest.mark.parametrize("state", neighbours.STATES)
@pytest.mark.parametrize("k", [2, 3, 6])
def test_every_state_of_the_lemma_is_reached_and_kept_when_counters_rise(state: str, k: int) -> None:
    for height in (0, 50):
        longer, shorter = neighbours.in_state(state, k, height)
        assert neighbours.state(longer.counters, shorter.counters) == state
        common = longer.counters.keys() & shorter.counters.keys()
        assert all(shorter.counters[key] >= height for key in common)


@pytest.mark.parametrize("differing", range(1, K + 1))
def test_merged_neighbours_differ_in_as_many_counters_as_asked(differing: int) -> None:
    longer, shorter = neighbours.merged(K, 50, differing)
    assert sorted(shorter.counters.values()) == [50] * K
    assert sorted(longer.counters.values()) == [49] * differing + [50] * (K - differing)


def test_merged_neighbours_may_share_no_key() -> None:
    longer, shorter = neighbours.merged(K, 1, K)
    assert longer.counters == {}
    assert sorted(shorter.counters.values()) == [1] * K


def test_a_user_moves_all_counters() -> None:
    longer, shorter = neighbours.users(K, 7)
    assert set(longer.counters.values()) == {8}
    assert set(shorter.counters.values()) == {7}
    assert neighbours.users(K, 0)[1].counters == {}


def test_requests_cut_elsewhere_move_one_counter_by_one_if_people_are_folded_one_by_one() -> None:
    longer, shorter = neighbours.cut_by_count(neighbours.one_by_one, 100)
    assert (longer.counters, shorter.counters) == ({"a": 201}, {"a": 200})


def test_requests_cut_elsewhere_move_it_by_half_their_number_if_each_is_one_merge() -> None:
    longer, shorter = neighbours.cut_by_count(neighbours.as_one_merge, 100)
    assert (longer.counters, shorter.counters) == ({"a": 201}, {"a": 300})


def test_a_standard_sketch_may_lose_all_its_keys() -> None:
    longer, shorter = neighbours.standard_pair(K)
    assert longer.counters == {}
    assert sorted(shorter.counters.values()) == [1] * K
