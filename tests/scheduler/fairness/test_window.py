"""Hops' service window (Hops 3.6; algorithms.md sections 4 and 6)."""

import pytest

from scheduler.fairness.window import fill
from scheduler.model import Ranked, Tenant
from scheduler.placement.ledger import Ledger
from tests.scheduler.builders import job, node, running


def picked(jobs, nodes, size=1.0, tenants=(), live=()):
    queue = [Ranked(each, rank, 1.0, 1.0, 600.0, "test") for rank, each in enumerate(jobs, 1)]
    window = fill(queue, Ledger(nodes, tenants, live), size)
    return [ranked.job.id for ranked in window.picked], window


def test_the_job_that_reaches_the_clusters_gpus_is_the_last_inside():
    jobs = [job(1, 4), job(2, 2, 8), job(3, 3), job(4, 1)]
    assert picked(jobs, [node(1, 4), node(2, 4)])[0] == [1, 2, 3]


def test_gpus_in_use_count_and_nodes_that_are_down_do_not():
    jobs = [job(number, 1) for number in range(1, 9)]
    nodes = [node(1, 4, idle=0), node(2, 4, schedulable=False)]
    assert picked(jobs, nodes)[0] == [1, 2, 3, 4]


@pytest.mark.parametrize(("size", "expected"), [(0.5, 2), (2.0, 8)])
def test_its_size_is_a_knob(size, expected):
    jobs = [job(number, 1) for number in range(1, 10)]
    found, window = picked(jobs, [node(1, 4)], size)
    assert len(found) == window.gpus == expected


def test_an_empty_cluster_has_an_empty_window():
    assert picked([job(1, 1)], [])[0] == []


def test_jobs_that_a_quota_stops_do_not_fill_the_window():
    jobs = [*(job(number, 1) for number in range(1, 9)), *(job(number, 1, tenant=2) for number in range(9, 13))]
    found, window = picked(jobs, [node(1, 4)], tenants=[Tenant(1, gpu_quota=2)], live=[running(99, 1, 1, 1)])
    assert found == [1, 2, 9, 10, 11]  # tenant 1 asks for its quota, but only one GPU of it can still be used
    assert window.sated == {3, 4, 5, 6, 7, 8}
