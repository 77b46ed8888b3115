"""The instance that memory between plannings is measured on."""

import pytest

from research.workloads.moved_on import LATER_S, moved_on
from research.workloads.queues import Instance, instance_draw
from scheduler.estimator.estimator import Estimator
from tests.scheduler.builders import job, node


def test_a_part_of_the_queue_and_of_the_nodes_is_another():
    first = instance_draw(gpus=160, jobs=200, seed=1, workload="mixed")
    later = moved_on(first, 0.05, 1)
    stayed = {each.id for each in first.jobs} & {each.id for each in later.jobs}
    assert (len(later.jobs), len(stayed)) == (200, 190)
    waited = {each.id: each.wait_s for each in first.jobs}
    assert all(each.wait_s == waited[each.id] + LATER_S for each in later.jobs if each.id in stayed)
    changed = [b for a, b in zip(first.nodes, later.nodes, strict=True) if a != b]
    assert len(changed) <= round(0.05 * len(first.nodes))
    assert all(len(each.idle_gpus) <= each.gpus_total for each in later.nodes)
    assert all(later.estimator.per_gpu(each, later.nodes[0], 1, 1).per_gpu > 0 for each in later.jobs)
    assert moved_on(first, 0.05, 1).jobs == later.jobs


def test_only_a_drawn_instance_moves_on():
    with pytest.raises(TypeError, match="not one of"):
        moved_on(Instance((node(1),), (job(1, 1),), Estimator((None,))), 0.5, 1)
