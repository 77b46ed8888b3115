"""Activity, RAQLR and fragments (algorithms.md sections 3 and 10)."""

import pytest

from scheduler import metrics
from scheduler.model import Ended
from scheduler.placement.ledger import Ledger
from tests.scheduler.builders import job, node


def test_raqlr_is_the_mean_over_the_jobs_that_ended_in_h_hours():
    """Hops eq. 7."""
    ended = [Ended(3600.0, 60.0, 600.0), Ended(7000.0, 600.0, 600.0), Ended(0.0, 9999.0, 1.0)]
    assert metrics.raqlr(ended, 7200.0, 1) == (pytest.approx(1.0), 1)
    assert metrics.raqlr(ended, 7200.0, 1.5) == (pytest.approx(0.55), 2)


def test_raqlr_without_jobs_has_no_value():
    assert metrics.raqlr([], 7200.0, 1) == (None, 0)


def test_rates_and_means_of_nothing_have_no_value():
    assert metrics.rate(0, 0) is None
    assert metrics.rate(1, 4) == 0.25
    assert metrics.mean_over_active([]) is None
    assert metrics.mean_over_active([None, 0.5, 0.7]) == pytest.approx(0.6)
    assert metrics.live_latency_ratio([]) == (None, None)


def counted(jobs, nodes):
    found = metrics.fragments(jobs, Ledger(nodes, (), ()))
    return found.short_of_cores, found.scattered


def test_no_demand_is_no_fragment():
    assert counted([], [node(1, 4)]) == (0, 0)
    assert counted([job(1)], [node(1, 4)]) == (0, 0)
    assert counted([job(1, 8)], [node(1, 4)]) == (0, 0)
    assert counted([job(1, 2, gpu_types=frozenset({"b"}))], [node(1, 4, gpu_type="a", idle_cores=0)]) == (0, 0)


def test_kind_1_is_short_of_cores_on_the_node():
    assert counted([job(1, 2)], [node(1, 4, idle=3, idle_cores=1), node(2, 4, idle=0)]) == (3, 0)


def test_kind_2_is_enough_of_the_type_but_not_where_it_could_be_used():
    nodes = [node(1, 4, idle=1), node(2, 4, idle=1), node(3, 4, idle=3, gpu_type="b")]
    assert counted([job(1, 2, gpu_types=frozenset({"a100"}))], nodes) == (0, 2)


def test_each_idle_gpu_counts_once_in_the_first_kind():
    nodes = [node(1, 4, idle=2, idle_cores=0), node(2, 4, idle=2)]
    assert counted([job(1, 2), job(2, 4)], nodes) == (2, 2)


def test_nodes_that_take_no_jobs_have_no_idle_gpus():
    assert counted([job(1, 2)], [node(1, 4, schedulable=False), node(2, 4, idle=1)]) == (0, 0)
