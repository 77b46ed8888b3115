"""Configurations (Hops 3.6; algorithms.md section 5)."""

import math
from dataclasses import dataclass

import pytest

from scheduler.errors import InvalidJob
from scheduler.estimator.estimator import Estimator
from scheduler.estimator.layers import ASSUMED_RHO, AssumedLayer, Estimate
from scheduler.estimator.scaling import TypeSpeeds
from scheduler.model import Tenant
from scheduler.placement.configurations import generate
from scheduler.placement.ledger import Ledger
from tests.scheduler.builders import job, node

ASSUMED = Estimator((AssumedLayer(TypeSpeeds({})),))


@dataclass(frozen=True)
class Measured:
    """A layer that knows a job's sensitivity and one throughput."""

    rho: float = 1.1
    value: float = 100.0

    def per_gpu(self, job, node, gpus, nodes):
        return Estimate(self.value / (self.rho if nodes > 1 else 1.0), "type", in_samples=True)

    def sensitivity(self, job):
        return self.rho


def shapes(asked, nodes, estimator=ASSUMED, tenants=()):
    """[{node: (GPUs, cores)}] in the order of generation."""
    ledger = Ledger(nodes, tenants, ())
    return [{s.node: (s.gpus, s.cores) for s in each.shares} for each in generate(asked, ledger, estimator)]


def test_nothing_fits():
    assert shapes(job(1, 4), [node(1, idle=3)]) == []
    assert shapes(job(1, 1, memory_mib=10), [node(1, idle_memory_mib=9)]) == []
    assert shapes(job(1, 2), [node(1, idle_cores=1)]) == []
    assert shapes(job(1, 1), [node(1, schedulable=False)]) == []


def test_aggregated_for_each_size_and_node_full_nodes_included():
    assert shapes(job(1, 2, 4), [node(1, 4), node(2, 4, idle=3)]) == [{1: (2, 2)}, {2: (2, 2)}, {1: (4, 4)}]


def test_hard_cores_are_had_in_full_or_not_at_all():
    """As CODA's FIFO and DRF take what tenants ask: `least_cores` of each GPU, on one node and spread."""
    nodes = [node(1, 4, cores=8), node(2, 4, cores=7)]
    assert shapes(job(1, 2, cores=4, least_cores=4), nodes) == [{1: (2, 8)}]
    assert shapes(job(1, 2, cores=4), nodes) == [
        {1: (2, 8)},
        {1: (2, 7)},
        {1: (2, 4)},
        {1: (2, 3)},
        *({2: (2, cores)} for cores in (7, 4, 3)),
    ]
    assert shapes(job(1, 8, cores=4, least_cores=2), [node(1, 4, cores=8), node(2, 4, cores=8)]) == [
        {1: (4, 8), 2: (4, 8)}
    ]
    assert shapes(job(1, 8, cores=4, least_cores=2), nodes) == []


def test_only_allowed_types_and_the_checkpoints_domain():
    nodes = [node(1, gpu_type="a"), node(2, gpu_type="b", storage_domain="nfs"), node(3, gpu_type="b")]
    assert shapes(job(1, 1, gpu_types=frozenset({"b"})), nodes) == [{2: (1, 1)}, {3: (1, 1)}]
    assert shapes(job(1, 1, checkpoint_domain="nfs"), nodes) == [{2: (1, 1)}]
    assert shapes(job(1, 1, checkpoint_domain="node:3"), nodes) == [{3: (1, 1)}]


def test_not_where_another_tenant_runs_under_the_same_account():
    barred = node(1, single_account=True, trusts_tenants=False, tenants=frozenset({2}))
    assert shapes(job(1, 1), [barred]) == []
    assert shapes(job(1, 1, tenant=2), [barred]) == [{1: (1, 1)}]


def test_a_second_configuration_leaves_other_gpus_their_cores():
    found = generate(job(1, 1, cores=4), Ledger([node(1, 4, cores=8)], (), ()), ASSUMED)
    assert [each.cores for each in found] == [4, 2]
    assert found[1].throughput == pytest.approx(found[0].throughput / 2)


def test_a_lack_of_wanted_cores_never_makes_a_job_unplaceable():
    found = generate(job(1, 2, cores=10), Ledger([node(1, 2, cores=3)], (), ()), ASSUMED)
    assert [each.cores for each in found] == [3]
    assert found[0].throughput == pytest.approx(2**0.9 * 3 / 20)
    assert [each[1][1] for each in shapes(job(1, 1, cores=9), [node(1, 8, cores=4)])] == [4, 1]


def test_quotas_cap_sizes_and_cores():
    quotas = [Tenant(1, gpu_quota=2, core_quota=5)]
    assert shapes(job(1, 1, 2, 4, cores=4), [node(1)], tenants=quotas) == [{1: (1, 4)}, {1: (2, 5)}]


def test_sensitive_jobs_are_spread_only_when_r1_exceeds_the_largest_node_of_the_type():
    nodes = [node(1, 4), node(2, 4), node(3, 4)]
    assert shapes(job(1, 4, 8), nodes) == [{1: (4, 4)}, {2: (4, 4)}, {3: (4, 4)}]
    assert shapes(job(1, 6), nodes) == [{1: (4, 4), 2: (2, 2)}, {2: (4, 4), 3: (2, 2)}]
    away = [*nodes, node(4, 8, schedulable=False)]
    assert shapes(job(1, 6), away) == []  # the 8-GPU node will be back


def test_low_sensitivity_fills_fragments_with_the_fewest_nodes():
    nodes = [node(1, 4, idle=1), node(2, 4, idle=1), node(3, 4, idle=2), node(4, 4, idle=3)]
    low, high = Estimator((Measured(rho=1.4),)), Estimator((Measured(rho=1.41),))
    assert shapes(job(1, 4), nodes, high) == []
    # from node 1: 1+1+2 (three nodes, dropped); from 2: 1+2+1 (dropped); from 3: 2+2.
    assert shapes(job(1, 4), nodes, low) == [{3: (2, 2), 4: (2, 2)}]


def test_spread_jobs_get_at_most_two_cores_a_gpu_and_their_part_of_the_memory():
    found = generate(job(1, 6, cores=5, memory_mib=100), Ledger([node(1, 4), node(2, 4)], (), ()), ASSUMED)
    assert [(s.gpus, s.cores, s.memory_mib) for s in found[0].shares] == [(4, 8, 67), (2, 4, 34)]


def test_throughput_is_the_slowest_nodes_times_the_gpus():
    """Section 2: T(config) = min_i(per_gpu_throughput_i) * sum_i d_i."""
    estimator = Estimator((AssumedLayer(TypeSpeeds({"fast": 2.0})),))
    fast, slow = node(1, gpu_type="fast"), node(2)
    assert estimator.throughput(job(1, 4), [fast], 4).value == pytest.approx(2 * 4 * 4**-0.1)
    assert estimator.throughput(job(1, 4), [fast, slow], 4).value == pytest.approx(4 * 4**-0.1 / ASSUMED_RHO)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_a_throughput_that_is_none_names_the_job(value):
    with pytest.raises(InvalidJob, match="job 7: throughput on n1 is"):
        generate(job(7, 1), Ledger([node(1)], (), ()), Estimator((Measured(value=value),)))
