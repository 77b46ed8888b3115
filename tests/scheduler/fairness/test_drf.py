"""Weighted shares (CODA V-C; algorithms.md section 4)."""

import pytest

from scheduler.fairness.arrays import UNDIVIDED, cpu_shares, divide, gpu_shares, least_units
from scheduler.model import ArrayHistory, Tenant
from tests.scheduler.builders import job, node, running


def test_gpu_share_is_of_all_gpus_and_cores_do_not_count_in_it():
    live = [running(1, 1, 1, gpus=4, cores=4), running(2, 2, 1, gpus=0, cores=28), running(3, 1, 2, gpus=2)]
    shares = gpu_shares([node(1), node(2)], live, [Tenant(1), Tenant(2)], {})
    assert (shares.of(1), shares.of(2), shares.of(3)) == (6 / 16, 0, 0)


def test_cpu_share_is_of_the_unreserved_cores_and_gpu_jobs_cores_do_not_count_in_it():
    nodes = [node(1, 8, cores=32), node(2, 0, cores=16)]
    live = [running(1, 1, 1, gpus=4, cores=20), running(2, 2, 2, cores=6)]
    shares = cpu_shares(nodes, live, [], divide(nodes, ArrayHistory()))
    assert (shares.capacity, shares.of(1), shares.of(2)) == (8 + 16, 0, 6 / 24)
    assert cpu_shares(nodes, live, [], UNDIVIDED).capacity == 48


def test_a_tenant_of_weight_2_may_hold_twice_as_much():
    live = [running(1, 1, 1, gpus=4), running(2, 2, 1, gpus=2)]
    shares = gpu_shares([node(1)], live, [Tenant(1, weight=2.0)], {})
    assert shares.of(1) == shares.of(2)


def test_gpu_types_count_by_their_weight():
    nodes = [node(1, 4, gpu_type="h100"), node(2, 8, gpu_type="k80")]
    live = [running(1, 1, 1, gpus=2), running(2, 2, 2, gpus=4)]
    shares = gpu_shares(nodes, live, [], {"h100": 4.0, "k80": 0.5})
    assert (shares.capacity, shares.of(1), shares.of(2)) == (20, 8 / 20, 2 / 20)


def test_a_waiting_jobs_requirement_counts_at_the_mean_weight_of_what_it_may_use():
    counts, weights = {"a": 6, "b": 2}, {"a": 1.0, "b": 5.0}
    assert least_units(job(1, 2, 4), counts, weights) == pytest.approx(2 * 2.0)
    assert least_units(job(1, 2, gpu_types=frozenset({"b"})), counts, weights) == 10
    assert least_units(job(1, 2), {}, weights) == 2


def test_an_empty_cluster_has_no_shares():
    assert gpu_shares([], [], [], {}).of(1) == 0
