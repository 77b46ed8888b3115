"""The ends that a waiting job waits for, on the node that has room first."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.asking.tries import gathering
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
