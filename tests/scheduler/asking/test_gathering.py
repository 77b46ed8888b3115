"""The ends that a waiting job waits for, on the node that has room first."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.asking.tries import gathering
from scheduler.copies import replace
from scheduler.estimator.lengths import Length
from tests.scheduler.asking.builders import live, state_of
from tests.scheduler.builders import NOW_S, job, node


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


def test_an_end_is_the_middle_given_how_long_its_job_has_run_and_says_whether_that_is_a_guess():
    overdue = live(91, 1, 4, NOW_S - 30)  # of 30 s, after 60
    ends = [
        gathering(state_of([node(1, 4, idle=0)], [job(1, 4)], [replace(overdue, spread=spread)]), 1, NOW_S).ends
        for spread in (0.0, 0.4, 2.0)
    ]
    assert [end.known for (end,) in ends] == [True, True, False]
    assert ends[0][0].at_s == NOW_S + 1.0
    for (end,), spread in zip(ends[1:], (0.4, 2.0), strict=True):
        assert end.at_s == NOW_S - 60 + Length(30.0, "", spread).quantile(0.5, 60.0)
