"""The gain of a configuration (algorithms.md section 6): flatter where jobs scale badly, the paper's where they do not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimator.estimator import Estimator, estimator_for
from scheduler.estimator.layers import Estimate
from scheduler.model.speeds import Cell, CellKey, Knowledge
from scheduler.placement.objective import FLATTEST, LINEAR, SLIGHT_LR, STEEP, Gain, gain_for
from tests.scheduler.builders import decisions_of, job, make_plan, node, where


class Scales:
    """Every job's throughput grows as GPUs^p."""

    def __init__(self, p):
        self.p = p

    def per_gpu(self, job, node, gpus, nodes):
        return Estimate(gpus ** (self.p - 1.0), "type", in_samples=False)

    def sensitivity(self, job):
        return 9.0


def found_for(p, *jobs):
    return gain_for(jobs, [node(1, 8), node(2, 4, gpu_type="b")], Estimator((Scales(p),)))


def test_jobs_that_scale_as_their_gpus_are_valued_as_in_the_paper():
    assert found_for(1.0, job(1, 1, 2, 8)).exponent == pytest.approx(1.0)
    assert found_for(1.2, job(1, 1, 2, 8)).exponent == pytest.approx(1.0)


def test_the_worse_they_scale_the_flatter_it_is():
    assert found_for(0.75, job(1, 1, 2, 8)).exponent == pytest.approx(0.5)
    assert found_for(0.3, job(1, 1, 2, 8)).exponent == FLATTEST


def test_jobs_of_one_size_say_nothing():
    assert found_for(0.5, job(1, 4), job(2, 1)) is LINEAR
    assert found_for(0.75, job(1, 4), job(2, 1, 8)).exponent == pytest.approx(0.5)


def test_what_several_nodes_would_cost_is_not_assumed():
    """Nothing is known of these jobs: GPUs^0.9 on one node, half of it over two."""
    estimator = estimator_for(Knowledge(), {}, [node(1, 8)])
    p = [gain_for([job(1, *sizes)], [node(1, 8)], estimator).exponent for sizes in ((1, 8), (1, 8, 16))]
    assert p == [pytest.approx(1 - 1.5 * 0.1 / 0.9)] * 2


@settings(max_examples=30, deadline=None)
@given(st.floats(FLATTEST, 1.0), st.floats(1.0, 100.0), st.floats(1.0, 100.0), st.floats(0.01, 1.0))
def test_a_job_alone_decides_as_by_throughput(exponent, present, other, factor):
    """A restart pays in G exactly when it pays in throughput: nobody stays small beside idle GPUs for the form's sake."""
    gain = Gain(exponent)
    if other * factor > present * (1 + 1e-9):
        assert gain.of(other) * gain.kept(factor) > gain.of(present)
    elif other * factor < present * (1 - 1e-9):
        assert gain.of(other) * gain.kept(factor) < gain.of(present)


def two_waiting(**knobs):
    """Assumed speeds, GPUs^0.9: eight go 6.5 times as fast as one, four 3.5 times."""
    jobs = [job(1, 1, 2, 4, 8, wait_s=600), job(2, 1, 2, 4, 8, wait_s=450)]
    return make_plan([node(1, 8)], jobs, **{"policy": "berth", **knobs})


def test_the_second_four_gpus_go_to_who_waits():
    assert where(two_waiting(gain="linear")) == {1: {1: 8}}
    assert where(two_waiting()) == {1: {1: 4}, 2: {1: 4}}
    assert where(two_waiting(policy="hops")) == {1: {1: 8}}  # linear, whatever the knob says


def test_a_placed_job_says_what_more_would_have_added_and_who_waits():
    """4 of 8: the other four would add 2^0.9 - 1 = 87 % while job 3 waits."""
    jobs = [job(1, 4, 8, wait_s=600), job(2, 4, wait_s=500), job(3, 4, wait_s=10)]
    made = make_plan([node(1, 8)], jobs, policy="berth")
    assert where(made) == {1: {1: 4}, 2: {1: 4}}
    larger = decisions_of(made)[1].detail["chosen"]["larger"]
    assert larger == {"gpus": 8, "adds": pytest.approx(2**0.9 - 1), "job": 3}
    others = [jobs[0], jobs[1], job(3, 4, tenant=2, wait_s=10)]
    theirs = decisions_of(make_plan([node(1, 8)], others, policy="berth", fair_shares="off"))[1].detail["chosen"][
        "larger"
    ]
    assert (theirs["gpus"], theirs["job"]) == (8, None)


def test_with_nobody_waiting_there_is_nothing_to_say():
    made = make_plan([node(1, 8)], [job(1, 4, 8, wait_s=600), job(2, 4, wait_s=500)], policy="berth")
    assert decisions_of(made)[1].detail["chosen"]["larger"] is None


def test_the_flatter_a_size_counts_the_fewer_of_the_waiting_a_running_job_stands_above():
    """The paper's median where sizes count; at the flattest the least of them."""
    assert LINEAR.floor == Gain(STEEP).floor == 0.5
    assert Gain(FLATTEST).floor == 0.0
    assert Gain((FLATTEST + STEEP) / 2).floor == pytest.approx(0.25)


def test_the_flatter_a_size_counts_the_less_small_latency_ratios_tell_jobs_apart():
    """The paper's weights where sizes count."""
    assert LINEAR.slight == Gain(STEEP).slight == 0.0
    assert Gain(FLATTEST).slight == SLIGHT_LR
    assert Gain((FLATTEST + STEEP) / 2).slight == pytest.approx(SLIGHT_LR / 2)


def test_with_flat_sizes_a_minute_of_waiting_is_no_claim_to_a_larger_share():
    """Of two similar jobs, which scale badly, one waited a second and one a minute, of an hour's work: both get half."""
    host, told = node(1, 8), {"model_label": "m", "total_samples": 5000.0}
    speeds = {2: 1.3, 4: 1.6, 6: 1.75}
    cells = {CellKey("tenant:1:m", host.gpu_type, each): Cell().add(speed / each) for each, speed in speeds.items()}
    waiting = [job(1, *speeds, wait_s=60.0, **told), job(2, *speeds, wait_s=1.0, **told)]
    made = make_plan([host], waiting, policy="berth", knowledge=Knowledge(cells))
    assert {each.job: each.gpus for each in made.placements} == {1: 4, 2: 4}
