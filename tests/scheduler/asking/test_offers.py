"""Offers for a waiting job: what starts it sooner, whom that delays, and whether it still holds when it is pressed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.asking.gathering import gathering
from scheduler.asking.offers import MOST, holds, offers_for, with_change
from scheduler.asking.starts.scene import Experience
from scheduler.asking.what_if import Change
from scheduler.model import ClusterState, Reason, Running
from scheduler.parameters import Parameters
from tests.scheduler.builders import NOW_S, job, node, running, ticking

KNOBS = Parameters(policy="fifo")


def live(number, host, gpus, until_s, tenant=2):
    return Running(
        number, tenant, running(number, tenant, host, gpus, gpus).pieces, NOW_S - 60, (gpus,), expected_end_s=until_s
    )


def state_of(nodes, jobs, running=()):
    return ClusterState(nodes, jobs, running, (), {})


def offered(state, number=1):
    rng = np.random.default_rng(1)
    return offers_for(state, number, KNOBS, rng, ticking(), now_s=NOW_S, experience=Experience())


def held(state, change, value, number=1):
    rng = np.random.default_rng(1)
    return holds(state, number, (change, value), KNOBS, rng, ticking(), now_s=NOW_S, experience=Experience())


@pytest.fixture
def half_full():
    """A job of 4 beside one that holds 2 of the node's 4 GPUs for ten minutes more."""
    return state_of([node(1, 4, idle=2)], [job(1, 4)], [live(91, 1, 2, NOW_S + 600)])


def test_a_smaller_size_starts_now_and_comes_first(half_full):
    found = offered(half_full)
    first = found.offers[0]
    assert (found.now, first.change, first.value, first.now, first.gains) == (False, Change.SIZE, 2, True, True)
    assert first.remedy.nodes == {"n1": 2}
    assert found.start.median_s > NOW_S + 300, "as it stands it waits for the end"
    assert len(found.offers) <= MOST
    assert held(half_full, first.change, first.value) == (True, True)


@pytest.mark.parametrize(
    "waiting",
    [
        job(1, 1, eligible=False, ineligible_reason=Reason.RESTORED),
        job(1, 0, cores=65),
    ],
    ids=["restored", "more cores than a node has"],
)
def test_a_job_for_which_nothing_could_be_changed_has_no_offers(half_full, waiting):
    full = replace(half_full, nodes=[node(1, 4, idle=0, idle_cores=0)], jobs=[waiting], running=[live(91, 1, 4, None)])
    found = offered(full)
    assert (found.now, found.offers, found.tried) == (False, (), 0)


def test_an_offer_that_no_longer_holds(half_full):
    full = replace(half_full, nodes=[node(1, 4, idle=0)], running=[live(91, 1, 4, NOW_S + 600)])
    assert held(full, Change.SIZE, 2) == (False, False)


def test_a_later_but_sooner_start_by_another_type():
    nodes = [node(1, 4, idle=0), node(2, 4, idle=0, gpu_type="t4")]
    busy = [live(91, 1, 4, NOW_S + 7200), live(92, 2, 4, NOW_S + 300)]
    state = state_of(nodes, [job(1, 4, gpu_types=frozenset({"a100"}))], busy)
    (other,) = [each for each in offered(state).offers if each.change is Change.GPU_TYPE]
    assert (other.now, other.gains, list(other.value)) == (False, True, ["t4"])
    assert other.start.median_s < offered(state).start.median_s
    assert held(state, Change.GPU_TYPE, ["t4"]) == (False, True)


def test_who_would_start_later_is_named(half_full):
    """Another job of 2 behind it fits now, and takes what is idle, unless the first takes it."""
    jobs = [job(1, 4), job(2, 2)]
    both = replace(half_full, jobs=jobs)
    offer = next(each for each in offered(both).offers if each.change is Change.SIZE)
    assert set(offer.later or {}) <= {2}


def test_a_job_that_starts_as_it_stands_has_none():
    found = offered(state_of([node(1, 4)], [job(1, 2)]))
    assert (found.now, found.offers) == (True, ())


def test_the_same_question_has_the_same_answer(half_full):
    assert offered(half_full) == offered(half_full)


@given(idle=st.integers(0, 8), asked=st.integers(1, 8), ends=st.lists(st.integers(1, 4), max_size=4))
def test_gpus_are_gathered_one_end_after_the_other(idle, asked, ends):
    held_gpus = min(8 - idle, sum(ends))
    busy, left = [], held_gpus
    for number, gpus in enumerate(ends):
        taken = min(gpus, left)
        left -= taken
        if taken:
            busy.append(live(90 + number, 1, taken, NOW_S + 60.0 * (number + 1)))
    way = gathering(state_of([node(1, 8, idle=idle)], [job(1, asked)], busy), 1, NOW_S)
    if idle >= asked or idle + held_gpus < asked:
        assert way is None
        return
    frees = [end.free for end in way.ends]
    assert frees == sorted(frees)
    assert frees[-1] >= asked > ([way.idle, *frees])[-2]
    assert [end.at_s for end in way.ends] == sorted(end.at_s for end in way.ends)


def test_nothing_is_gathered_for_cpu_jobs_and_elsewhere_the_first_node_counts():
    nodes = [node(1, 4, idle=0), node(2, 4, idle=1)]
    busy = [live(91, 1, 4, NOW_S + 900), live(92, 2, 3, NOW_S + 60)]
    state = state_of(nodes, [job(1, 4), job(2, cores=2)], busy)
    way = gathering(state, 1, NOW_S)
    assert (way.node, way.need, way.idle, [(end.job, end.free) for end in way.ends]) == ("n2", 4, 1, [(92, 4)])
    assert gathering(state, 2, NOW_S) is None
    assert gathering(state, 7, NOW_S) is None


def test_a_change_is_made_to_that_job_alone(half_full):
    both = replace(half_full, jobs=[job(1, 4), job(2, 4)])
    changed = with_change(both, 1, Change.SIZE, 2)
    assert [each.requirement for each in changed.jobs] == [(2, 4), (4,)]
