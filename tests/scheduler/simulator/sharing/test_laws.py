"""How much jobs that share a GPU slow one another: fair turns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.simulator.sharing.laws import InTurns, level


def slowed(law, *uses, names="abcdefgh"):
    """The slowdowns of jobs on one GPU that use so much of its time."""
    demands = np.array([[use, 0.1, 0.0, 0.0] for use in uses])
    return list(law.slowdowns(list(names[: len(uses)]), demands, np.zeros(len(uses), dtype=np.int64), 1))


def test_who_needs_less_than_its_turn_is_not_slowed_by_who_wants_it_all():
    """0.2 and 1 and 1 of one GPU: 0.2 stays whole, the two get 0.4 each."""
    assert slowed(InTurns(switching=0), 0.2, 1.0, 1.0) == pytest.approx([1.0, 2.5, 2.5])


def test_within_a_whole_gpu_only_switching_costs():
    assert slowed(InTurns(switching=0.1), 0.3, 0.5) == pytest.approx([1.05, 1.03])
    assert slowed(InTurns(), 0.7) == [1.0]


def test_jobs_on_other_gpus_do_not_count_and_the_scarcest_resource_does():
    demands = np.array([[0.1, 0.5, 0.1, 0.9], [0.1, 0.5, 0.1, 0.9], [1.0, 0.5, 1.0, 0.0]])
    found = InTurns(switching=0).slowdowns(["a", "b", "c"], demands, np.array([0, 0, 1]), 2)
    assert list(found) == pytest.approx([1.8, 1.8, 1.0])


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8).filter(lambda wanted: sum(wanted) > 1.0001))
def test_fair_turns_give_out_the_whole_and_to_nobody_more_than_it_wants(wanted):
    parts = np.minimum(wanted, level(np.array(wanted)))
    assert parts.sum() == pytest.approx(1.0)


def test_where_there_is_enough_there_is_no_level():
    with pytest.raises(ValueError, match="enough for all"):
        level(np.array([0.4, 0.5]))
