"""Gavel and Gavel as Hops ran it, in simulation: rounds, leases, restarts, medians."""

from __future__ import annotations

import pytest

from tests.scheduler.builders import node
from tests.scheduler.simulator.cases import PerGpu, by_job, run, traced

ROUND = {"replan_s": 360}


class ByType:
    """A law: units a second by GPU type."""

    def __init__(self, **speeds):
        self.speeds = speeds

    def rate(self, spots):
        return self.speeds[spots[0].gpu_type] * sum(spot.gpus for spot in spots)


def gavel(jobs, nodes, *, policy="gavel", knobs=ROUND, **more):
    return run(jobs, nodes, policy=policy, knobs=knobs, **{"restart_s": 0.0, **more})


def movable(number, *requirement, **more):
    return traced(number, *requirement, movable=True, **more)


def test_section_5_jobs_take_turns_in_rounds():
    """Two jobs of two rounds each on one GPU. The first round begins at the first re-plan; after one round each both have
    had as much, so the second keeps its lease and only the first is started anew.
    """
    made = by_job(gavel([movable(1, 1, work=720.0), movable(2, 1, work=720.0)], [node(1, 1)]))
    assert (made[1].started_s, made[2].started_s) == (360.0, 720.0)
    assert (made[2].ended_s, made[1].ended_s) == (1440.0, 1800.0)
    assert (made[1].restarts, made[2].restarts) == (1, 0)


def test_section_5_leases_are_renewed_without_a_restart():
    made = by_job(gavel([movable(1, 1, work=2000.0), movable(2, 1, work=2000.0)], [node(1, 2)], restart_s=60.0))
    assert made[1].ended_s == made[2].ended_s == 2360.0


def test_a_restart_costs_what_the_world_says():
    made = by_job(gavel([movable(1, 1, work=720.0), movable(2, 1, work=720.0)], [node(1, 1)], restart_s=60.0))
    assert (made[1].restarts, made[1].ran_s, made[1].ended_s) == (1, 780.0, 1860.0)


def test_between_rounds_nothing_is_given_out():
    """Job 1 ends at 400 s; job 2, there since 370 s, waits for the next round at 720 s all the same."""
    made = by_job(gavel([movable(1, 1, work=40.0), movable(2, 1, work=100.0, at_s=370.0)], [node(1, 1)]))
    assert (made[1].ended_s, made[2].started_s) == (400.0, 720.0)


def test_section_4_1_time_on_the_types_that_suit():
    """Job 1 is four times as fast on a100, job 2 on v100: each has its own type, though both came to a100 first."""
    knows = {
        1: {("a100", 1, 1): 4.0, ("v100", 1, 1): 1.0},
        2: {("a100", 1, 1): 1.0, ("v100", 1, 1): 4.0},
    }
    jobs = [
        movable(1, 1, work=1440.0, law=ByType(a100=4.0, v100=1.0), known=knows[1]),
        movable(2, 1, work=1440.0, law=ByType(a100=1.0, v100=4.0), known=knows[2]),
    ]
    made = by_job(gavel(jobs, [node(1, 1), node(2, 1, gpu_type="v100")]))
    assert made[1].ended_s == made[2].ended_s == 720.0


def test_over_hours_the_rounds_keep_to_the_fractions():
    """Three jobs of one GPU and one of two on two GPUs: equal GPU time, so the large one runs half as often."""
    jobs = [*(movable(number, 1, work=1e6) for number in (1, 2, 3)), movable(4, 2, work=1e6, law=PerGpu())]
    made = by_job(gavel(jobs, [node(1, 2)], until_s=40 * 360.0))
    shares = [made[number].gpu_s for number in (1, 2, 3, 4)]
    assert max(shares) <= 1.25 * min(shares)


def test_a_job_of_several_sizes_has_the_median():
    made = by_job(gavel([movable(1, 1, 2, 4, 8, law=PerGpu(), work=720.0)], [node(1, 8)]))
    assert (made[1].gpus_first, made[1].ended_s) == (2, 720.0)


def test_who_may_not_be_stopped_runs_on_and_its_gpus_are_not_counted():
    jobs = [traced(1, 1, work=3000.0), movable(2, 1, work=720.0), movable(3, 1, work=720.0)]
    made = by_job(gavel(jobs, [node(1, 2)]))
    assert (made[1].restarts, made[1].ended_s) == (0, made[1].started_s + 3000.0)
    assert made[2].restarts + made[3].restarts > 0


def test_hops_4_2_between_equals_the_latency_ratio_decides():
    """Both have waited alike; the shorter one's latency ratio is higher. Under Gavel the first to come is first."""
    jobs = [
        movable(1, 1, work=3000.0, expected_duration_s=3000.0),
        movable(2, 1, work=300.0, expected_duration_s=300.0),
    ]
    assert by_job(gavel(jobs, [node(1, 1)]))[1].started_s == 360.0
    assert by_job(gavel(jobs, [node(1, 1)], policy="gavel-hops"))[2].started_s == 360.0


@pytest.mark.parametrize("policy", ["gavel", "gavel-hops"])
def test_the_same_input_gives_the_same_run(policy):
    jobs = [movable(number, 1 + number % 2, work=500.0 * number, at_s=40.0 * number) for number in range(1, 9)]
    one, two = (gavel(jobs, [node(1, 2), node(2, 2)], policy=policy, restart_s=20.0) for _ in range(2))
    assert one.jobs == two.jobs
