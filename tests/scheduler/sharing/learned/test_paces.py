"""What jobs on one GPU get done together, and who gains by joining them: by hand, and one way of asking against the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import PairSeen
from scheduler.sharing.learned.images import STEPS, Frame, ahead
from scheduler.sharing.learned.paces import Beside, Course, Gains, course, harms_of, summed
from scheduler.sharing.measured import NOTHING, Measured

FRAME = Frame(3)
EVERY = np.ones(FRAME.actions, dtype=bool)


def job(use, *, name="a", phases=40.0):
    return course(name, ahead(np.full((40, 4), use)), phases)


def measured(**slowdowns):
    """Pairs by name: ab=1.5, of many records."""
    return Measured.of({(*pair, "v100"): PairSeen(slowdown, 10**6) for pair, slowdown in slowdowns.items()}, None)


def pace(*jobs, told=NOTHING):
    busy, there = np.array([each.busy for each in jobs]), np.array([each.there for each in jobs])
    return summed(busy[None], there[None], harms_of([each.signature for each in jobs], told, "v100"))[0]


def subsets(running, slots, least, told=NOTHING):
    may = EVERY & ~FRAME.members[:, len(slots) :].any(axis=1)
    found = Gains(FRAME, least, told, "v100").enough(running, slots, may)
    return {FRAME.subsets[action] for action in np.flatnonzero(found)}


def test_two_that_leave_time_lose_a_twentieth_of_the_others_use_and_two_that_want_more_twice_what_is_beyond():
    assert pace(job(0.4)) == pytest.approx(1.0)
    assert pace(job(0.4), job(0.5)) == pytest.approx(1 / 1.025 + 1 / 1.02)
    assert pace(job(0.7), job(0.7)) == pytest.approx(2 / (1.0 + 2 * 0.4 + 0.035))


def test_a_job_that_ends_gets_nothing_done_afterwards_and_slows_nobody():
    found = pace(job(0.7), course("b", ahead(np.full((5, 4), 0.7)), 5.0))
    assert found[0] == pytest.approx(2 / 1.835)
    assert found[2] == pytest.approx(
        (1 + 0.5) / (1.0 + 2 * 0.05 + 0.0175), rel=0.05
    )  # it is there for half of that step
    assert list(found[3:]) == [1.0] * (STEPS - 3)


def test_measured_pairs_decide_where_a_job_was_measured_beside_all_others():
    told = measured(ab=1.5)
    assert pace(job(0.1), job(0.1, name="b"), told=told) == pytest.approx(2 / 1.5, rel=1e-4)
    a, b, c = job(0.1), job(0.1, name="b"), job(0.1, name="c")
    assert pace(a, b, c, told=told) == pytest.approx(3 / 1.01)
    told = measured(ab=1.5, ac=1.2, bc=1.0)
    assert pace(a, b, c, told=told) == pytest.approx(1 / 1.7 + 1 / 1.5 + 1 / 1.2, rel=1e-4)


def test_few_records_are_no_measured_pair():
    told = Measured.of({("a", "b", "v100"): PairSeen(9.0, 1)}, None)
    assert pace(job(0.1), job(0.1, name="b"), told=told) == pytest.approx(2 / 1.005)


def test_nobody_starts_who_would_take_from_the_others_what_it_gets_done():
    """0.7 and 0.7 are at 0.54 each: the second one adds 0.09."""
    assert subsets([job(0.7)], [job(0.7)], 0.2) == {()}
    assert subsets([job(0.7)], [job(0.7)], 0.08) == {(), (0,)}
    assert subsets([job(0.7)], [job(0.2)], 0.8) == {(), (0,)}


def test_each_of_those_who_start_together_must_gain_beside_the_others():
    assert subsets([], [job(0.6), job(0.6), job(0.1)], 0.8) == {(), (0,), (1,), (2,), (0, 2), (1, 2)}


def test_who_starts_alone_on_a_gpu_may_whatever_is_asked():
    assert subsets([], [job(1.0)], 5.0) == {(), (0,)}


def test_what_was_measured_closes_a_gpu_that_use_would_open_and_opens_one_that_it_would_close():
    light, busy = job(0.1, name="b"), job(0.9, name="b")
    assert subsets([job(0.1)], [light], 0.8, measured(ab=2.0)) == {()}
    assert subsets([job(0.9)], [busy], 0.8, measured(ab=1.02)) == {(), (0,)}


def test_what_does_not_fit_stays_closed():
    found = Gains(FRAME, 0.0).enough([job(0.1)], [job(0.1)], np.zeros(FRAME.actions, dtype=bool))
    assert not found.any()


courses = st.builds(
    lambda use, name, phases: job(use, name=name, phases=phases),
    st.sampled_from((0.05, 0.3, 0.5, 0.7, 0.95)),
    st.sampled_from("abc"),
    st.floats(0.5, 60.0),
)
pairs = st.dictionaries(st.sampled_from(("aa", "ab", "ac", "bb", "bc", "cc")), st.floats(1.0, 3.0))


def enough(gpus, own, least, told, types=None):
    """Beside whom of those on each GPU each of `own` gains enough. Shape (gpus, own)."""
    beside = Beside(types or ["v100"] * len(gpus), [each.signature for each in own], least, told)
    for row, there in enumerate(gpus):
        for each in there:
            beside.join(row, each)
    beside.count(np.arange(len(gpus)))
    rows, jobs = (each.ravel() for each in np.indices((len(gpus), len(own))))
    busy, is_there = (np.array([getattr(own[job], name) for job in jobs]) for name in ("busy", "there"))
    return beside.enough(rows, jobs, busy, is_there).reshape(len(gpus), len(own))


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.lists(courses, min_size=1, max_size=5), min_size=1, max_size=4),
    st.lists(courses, min_size=1, max_size=3),
    pairs,
    st.floats(0.0, 1.0),
)
def test_a_planning_asks_of_many_gpus_and_jobs_at_once_what_an_agent_asks_of_one(gpus, owns, told, least):
    told = measured(**told)
    found = enough(gpus, owns, least, told)
    for row, there in enumerate(gpus):
        for column, own in enumerate(owns):
            more = pace(*there, own, told=told) - pace(*there, told=told)
            gain = float(more @ own.there / own.there.sum())
            if abs(gain - least) > 1e-9:
                assert bool(found[row, column]) == (gain >= least)
                assert ((0,) in subsets(there, [own], least, told)) == (gain >= least)


def test_pairs_of_another_type_of_gpu_say_nothing():
    found = enough([[job(0.1)], [job(0.1)]], [job(0.1, name="b")], 0.8, measured(ab=2.0), ["v100", "a100"])
    assert found.ravel().tolist() == [False, True]


def test_a_course_is_there_as_long_as_it_has_phases():
    found = course("a", np.ones((STEPS, 4)), 5.0)
    assert isinstance(found, Course)
    assert list(found.there[:4]) == [1.0, 1.0, 0.5, 0.0]
