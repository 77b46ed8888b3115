"""A node with GPUs of two types, from the agent's hello to the job's environment: one node, no core of it given twice."""

import pytest
from django.utils import timezone

from portal.cluster.models import GpuType, Node
from portal.cluster.selectors import capacity_check, gpu_type_names, gpus_by_type
from portal.cluster.services.health import gpu_cordon
from portal.cluster.services.joining import node_hello
from portal.foundation.errors import BerthError
from portal.planning.estimation.selectors import knowledge_load
from portal.planning.estimation.speeds import MEASUREMENTS_LEAST, _ratios
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Allocation, Promise
from portal.work.jobs.selectors import part_spec
from scheduler import model
from scheduler.estimator.estimator import estimator_for
from tests.portal import given
from tests.portal.planning.estimation.test_records import record, send


def mixed(cluster, *, gpus=(4, 2), **changes):
    """The cluster's node says that it has these numbers of A100 and, after them, of T4."""
    told = [
        {"index": at, "uuid": f"n1-{at}", "memory_mib": 24576} | ({} if at < gpus[0] else {"gpu_type": "T4"})
        for at in range(sum(gpus))
    ]
    return node_hello(node=cluster.node, inventory=given.inventory(cluster.node, gpus=told, **changes))


def snapshot():
    return state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))


def bays():
    return {node.gpu_type: node for node in snapshot().nodes}


def held(job):
    """The node, its GPU indices and cores that the job's live attempt holds."""
    part = Allocation.objects.get(attempt__job=job, released_at=None)
    return part.node.name, sorted(part.gpu_allocations.values_list("gpu__index", flat=True)), part.core_ids


def test_each_gpu_has_its_type_and_the_node_is_one(cluster):
    node = mixed(cluster)
    assert Node.objects.count() == 1
    assert gpus_by_type()[node.pk] == {"A100": 4, "T4": 2}
    assert gpu_type_names() == ["A100", "T4"]
    capacity_check(gpus=[2], gpu_types=["T4"], cores=None, memory_mib=None)
    with pytest.raises(BerthError, match="3 GPUs of one type at least; the most there are of an allowed type is 2"):
        capacity_check(gpus=[3], gpu_types=["T4"], cores=None, memory_mib=None)


def test_a_planning_sees_two_bays_that_share_no_core(cluster):
    mixed(cluster)
    a100, t4 = bays()["A100"], bays()["T4"]
    assert (a100.idle_gpus, t4.idle_gpus) == ((0, 1, 2, 3), (4, 5))
    assert sorted(a100.idle_cores + t4.idle_cores) == list(range(8))
    assert a100.idle_memory_mib + t4.idle_memory_mib == cluster.node.memory_mib
    assert a100.cores_total + t4.cores_total == 8
    assert model.node_of(t4.id) == a100.id == cluster.node.pk
    assert (t4.most_cores, t4.most_memory_mib) == (8, cluster.node.memory_mib)


def test_jobs_of_both_types_run_there_at_once(cluster):
    node = mixed(cluster)
    fast = cluster.submit(gpus=4, gpu_types=["A100"], cores_per_gpu=1)
    small = cluster.submit(gpus=2, gpu_types=["T4"], cores_per_gpu=1)
    planning_run()
    (fast_node, fast_gpus, fast_cores), (small_node, small_gpus, small_cores) = held(fast), held(small)
    assert (fast_node, fast_gpus) == ("n1", [0, 1, 2, 3])
    assert (small_node, small_gpus) == ("n1", [4, 5])
    assert not set(fast_cores) & set(small_cores)
    part = Allocation.objects.get(attempt__job=small)
    assert part_spec(node=node, key=part.attempt.key)["gpu_type"] == "T4"
    after = snapshot()
    assert {each.job: model.number_of(each.pieces[0].node) for each in after.running} == {
        fast.pk: 0,
        small.pk: GpuType.objects.get(name="T4").pk,
    }
    assert sum(each.cores_total for each in after.nodes) == 8
    assert all(each.idle_gpus == () for each in after.nodes)


@pytest.mark.parametrize("asked", [{"gpus": 1, "gpu_types": ["T4"], "cores_per_gpu": 1}, {"gpus": 0, "cores": 2}])
def test_who_needs_more_than_a_part_gets_it_when_the_node_has_it(cluster, asked):
    """By idle GPUs the T4's part would be half of the node's 16 000 MiB."""
    mixed(cluster, gpus=(1, 1))
    job = cluster.submit(memory_mib=15000, **asked)
    planning_run()
    assert held(job)[0] == "n1"


def test_why_it_waits_is_told_of_the_type(cluster):
    mixed(cluster)
    first = cluster.submit(gpus=2, gpu_types=["T4"])
    planning_run()
    second = cluster.submit(gpus=1, gpu_types=["T4"])
    planning_run()
    second.refresh_from_db()
    assert held(first)[1] == [4, 5]
    assert (second.reason, second.reason_figures["offered"]["idle_gpus"]) == (
        "not-enough-idle-gpus",
        {"T4": 0},
    )


def test_a_promise_keeps_to_its_type(cluster):
    node = mixed(cluster)
    job = cluster.submit(gpus=2)
    number = GpuType.objects.get(name="T4").pk
    rows = [[node.pk, 2, 2, 0, number]]
    Promise.objects.create(job=job, shares=rows, cause="resize", planning_number=1, given_at=timezone.now())
    promise = snapshot().jobs[0].promise
    assert promise.shares == (model.Share(model.bay_id(node.pk, number), 2, 2, 0),)
    assert len(bays()["T4"].idle_cores) >= 2
    planning_run()
    assert held(job)[1] == [4, 5]


def test_a_cordoned_bay_leaves_its_cores_to_the_other(cluster):
    mixed(cluster, gpus=(4, 1))
    gpu_cordon(node=cluster.node, index=4, reason="fan", actor=None)
    found = snapshot().nodes
    assert [len(each.idle_cores) for each in found] == [8, 0]


def test_the_type_that_a_node_goes_by_stays_while_it_has_one_gpu_of_it(cluster):
    mixed(cluster, gpus=(1, 3), gpu_type="A100")
    told = [{"index": 0, "uuid": "n1-0", "memory_mib": 1, "gpu_type": "A100"}] + [
        {"index": at, "uuid": f"n1-{at}", "memory_mib": 1} for at in (1, 2, 3)
    ]
    node = node_hello(node=cluster.node, inventory=given.inventory(cluster.node, gpus=told, gpu_type="T4"))
    assert node.gpu_type.name == "A100"
    assert gpus_by_type()[node.pk] == {"T4": 3, "A100": 1}
    node = node_hello(node=cluster.node, inventory=given.inventory(cluster.node, gpus=told[1:], gpu_type="T4"))
    assert node.gpu_type.name == "T4"
    assert gpus_by_type()[node.pk] == {"T4": 3}


def test_a_speed_measured_on_a_bay_is_the_bay_s_and_says_nothing_of_the_node(cluster):
    mixed(cluster)
    job = cluster.submit(gpus=2, gpu_types=["T4"], cores_per_gpu=1, model="vgg")
    planning_run()
    attempt = Allocation.objects.get(attempt__job=job).attempt
    assert send(attempt, *[record(400.0)] * MEASUREMENTS_LEAST)["code"] is None
    state = snapshot()
    asked = model.Job(id=job.pk, tenant=job.tenant_id, requirement=(2,), model_label="vgg")
    estimator = estimator_for(knowledge_load([asked]), {}, state.nodes)
    found = {each.gpu_type: estimator.per_gpu(asked, each, 2, 1) for each in state.nodes}
    assert (found["T4"].source, found["T4"].per_gpu) == ("entity", 100.0)
    assert found["A100"].source == "assumed"
    assert list(_ratios()) == []
