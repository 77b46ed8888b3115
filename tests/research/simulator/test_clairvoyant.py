"""The relaxed clairvoyant schedules on workloads whose best schedule can be found by hand."""

from dataclasses import dataclass

import pytest

from research.simulator.clairvoyant import LATENCY_RATIO, LEAST_WORK, clairvoyant
from scheduler.model import Job, Node
from scheduler.simulator.world.truth import Steady, TracedJob, World

HOUR_S = 3600.0


@dataclass(frozen=True)
class Scaling:
    """Speed by GPUs, and by type: b is twice as fast as a."""

    power: float = 1.0

    def rate(self, spots):
        gpus = sum(spot.gpus for spot in spots)
        return gpus**self.power * min(spot.speed for spot in spots) * (2.0 if spots[0].gpu_type == "b" else 1.0)


def a_node(number, gpu_type, gpus):
    return Node(number, f"n{number}", gpu_type, gpus, cores_total=16, memory_total_mib=1000)


def a_job(number, hours, *sizes, at_h=0.0, law=None):
    job = Job(number, 1, sizes, submitted_s=at_h * HOUR_S, cores=1, movable=True)
    return TracedJob(job, hours * HOUR_S, law or Steady())


def figures(jobs, order, *nodes):
    return clairvoyant(jobs, World(nodes or [a_node(1, "a", 1)]), order)


def test_least_work_goes_first_and_stops_who_has_more_of_it():
    """1 h and 3 h on one GPU, the short one coming at 1 h: it ends at 2 h, the long one at 4 h."""
    found = figures([a_job(1, 3, 1), a_job(2, 1, 1, at_h=1)], LEAST_WORK)
    assert found["mean_jct_h"] == pytest.approx((4 + 1) / 2)
    assert (found["makespan_h"], found["mean_wait_h"]) == (pytest.approx(4), pytest.approx(0.5))


def test_in_latency_ratio_order_nobody_waits_for_much_longer_than_others_for_its_length():
    """Two of an hour and one of ten on one GPU: fairly, all wait about as long for their length."""
    jobs = [a_job(1, 10, 1), a_job(2, 1, 1), a_job(3, 1, 1)]
    fair, soon = figures(jobs, LATENCY_RATIO), figures(jobs, LEAST_WORK)
    assert fair["mean_jct_h"] > soon["mean_jct_h"] == pytest.approx((1 + 2 + 12) / 3)
    assert fair["jobs"] == soon["jobs"] == 3


def test_nodes_do_not_scatter_what_is_idle():
    """Four nodes of one GPU are a pool of four."""
    nodes = [a_node(number, "a", 1) for number in range(1, 5)]
    assert figures([a_job(1, 4, 4, law=Scaling())], LEAST_WORK, *nodes)["mean_jct_h"] == pytest.approx(1.0)


def test_a_job_alone_takes_all_that_makes_it_faster():
    nodes = a_node(1, "a", 4), a_node(2, "b", 2)
    found = figures([a_job(1, 8, 1, 2, 4, law=Scaling())], LEAST_WORK, *nodes)
    assert found["mean_jct_h"] == pytest.approx(2.0)  # 4 of a are as fast as 2 of b


def test_where_larger_is_less_frugal_jobs_share():
    """Two jobs that gain little from a second GPU run beside each other on two."""
    jobs = [a_job(number, 1, 1, 2, law=Scaling(0.1)) for number in (1, 2)]
    assert figures(jobs, LEAST_WORK, a_node(1, "a", 2))["mean_wait_h"] == 0


def test_cpu_jobs_and_those_that_nothing_holds_are_left_out():
    found = figures([a_job(1, 1, 0), a_job(2, 1, 8), a_job(3, 1, 1)], LEAST_WORK)
    assert (found["jobs"], found["mean_jct_h"]) == (1, pytest.approx(1.0))
    assert figures([], LEAST_WORK)["mean_jct_h"] is None


def test_orders_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match="'fifo' is not one of least-work, latency-ratio"):
        figures([a_job(1, 1, 1)], "fifo")
