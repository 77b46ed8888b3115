"""Several jobs on one GPU, from the description to the work order; no ledger ever over what there is (section 11)."""

import html
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Sum
from django.utils import timezone

from portal.cluster.models import Gpu
from portal.cluster.services.health import gpu_cordon
from portal.cluster.services.operating import node_drain
from portal.cluster.services.sharing import gpu_mode_set, gpu_modes_balance
from portal.foundation.errors import Conflict
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import Signature, SignatureUse
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.sharing import use_of
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, GpuAllocation, Job, Promise
from portal.work.jobs.selectors import part_spec, parts_wanted
from portal.work.jobs.services.placing import DoesNotFit, attempt_start
from portal.work.jobs.services.placings import Part
from portal.work.jobs.use import tenants_use
from scheduler.estimator.measured import signature_of
from tests.portal import given

pytestmark = pytest.mark.django_db
SHARED = Gpu.Mode.SHARED


def snapshot():
    return state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))


def held(job):
    """Index, thousandths and MiB of the GPUs that the job's live attempt holds."""
    rows = GpuAllocation.objects.filter(allocation__attempt__job=job, released_at=None).order_by("gpu__index")
    return list(rows.values_list("gpu__index", "compute", "memory_mib"))


def shared_jobs(cluster, *computes, **more):
    """Let jobs share GPU 3 of the cluster's node, and submit one for each of these shares of it."""
    given.shared(cluster.node, 3)
    return [cluster.submit(**given.shareable(compute, 4096, **more)) for compute in computes]


def test_jobs_of_two_tenants_run_on_one_gpu_and_its_ledger_holds(cluster):
    jobs = shared_jobs(cluster, 0.5, 0.4, 0.2)
    other = Tenant.objects.create(name="nlp-lab")
    theirs = given.Cluster(other, given.member("nora", other), cluster.node).submit(**given.shareable(0.1, 8192))
    planning_run()
    assert [held(job) for job in (*jobs, theirs)] == [[(3, 500, 4096)], [(3, 400, 4096)], [], [(3, 100, 8192)]]
    waits = Job.objects.get(pk=jobs[2].pk)
    assert (waits.state, waits.reason) == ("PENDING", "no-shared-gpu")
    assert waits.reason_figures["shared"]["closed"] == {"compute": 1}


def test_the_page_and_rest_say_where_a_sharer_runs_and_by_which_rule(cluster, client):
    first, second = shared_jobs(cluster, 0.5, 0.25)
    planning_run()
    client.force_login(cluster.owner)
    told = [client.get(f"/api/v1/jobs/{job.pk}/explain").json()["sentence"] for job in (first, second)]
    name = cluster.node.name
    assert told[0] == f"It gets 50 % of the compute and 4 GiB of GPU 3 on {name}: nobody else is on it."
    assert f"25 % of the compute and 4 GiB of GPU 3 on {name}, beside job {first.number}:" in told[1]
    assert told[1] in html.unescape(client.get(f"/jobs/{second.pk}/").content.decode())


def test_a_job_that_does_not_share_takes_whole_gpus_alone(cluster):
    (sharer,) = shared_jobs(cluster, 0.5)
    large, small = (cluster.submit(gpus=gpus, expected_duration_s=60.0) for gpus in (3, 1))
    planning_run()
    assert held(sharer) == [(3, 500, 4096)]
    assert held(large) == [(0, 1000, None), (1, 1000, None), (2, 1000, None)]
    assert held(small) == []


@pytest.mark.parametrize("off", [True, False])
def test_without_shared_gpus_or_with_sharing_off_it_gets_a_gpu_of_its_own(cluster, off):
    if off:
        given.shared(cluster.node, 3)
        settings_update(actor=given.operator(), sharing_policy="off")
    job = cluster.submit(**given.shareable())
    planning_run()
    assert held(job) == [(0, 1000, None)]


def test_a_shared_gpu_of_another_type_or_with_too_little_memory_is_no_reason_to_wait(cluster):
    given.shared(cluster.node, 3)
    Gpu.objects.filter(node=cluster.node, index=3).update(memory_mib=2048)
    job = cluster.submit(**given.shareable(0.5, 4096))
    planning_run()
    assert held(job) == [(0, 1000, None)]


def test_the_work_order_names_what_was_granted(cluster):
    (job,) = shared_jobs(cluster, 0.25)
    planning_run()
    attempt = Attempt.objects.get(job=job)
    spec = part_spec(node=cluster.node, key=attempt.key)
    assert (spec["gpus"], spec["gpu_compute"], spec["gpu_memory_mib"]) == ([3], 250, 4096)
    assert attempt.gpu_compute == 250


def test_the_next_planning_sees_who_is_there_and_leaves_them(cluster):
    jobs = shared_jobs(cluster, 0.5, 0.4, restartable=True)
    planning_run()
    (node,) = snapshot().nodes
    (gpu,) = node.shared
    assert (gpu.index, gpu.compute_left, gpu.memory_left_mib) == (3, 100, 24576 - 8192)
    assert (node.gpus_total, node.idle_gpus) == (3, (0, 1, 2))
    live = snapshot().running
    assert [(each.gpu_units, each.gpus, each.movable, each.elastic) for each in live] == [
        (0.5, 1, False, False),
        (0.4, 1, False, False),
    ]
    assert {each.job for each in gpu.holders} == {job.pk for job in jobs}


def test_a_tenants_use_and_quota_count_thousandths(cluster):
    Tenant.objects.filter(pk=cluster.tenant.pk).update(gpu_quota=1)
    jobs = shared_jobs(cluster, 0.5, 0.3, 0.1, 0.2)
    planning_run()
    assert [bool(held(job)) for job in jobs] == [True, True, True, False]
    assert Job.objects.get(pk=jobs[3].pk).reason == "tenant-quota"
    assert tenants_use(Tenant.objects.all())[cluster.tenant.pk].gpus == 0.9
    with pytest.raises(DoesNotFit, match="tenant-quota"):
        attempt_start(job_id=jobs[3].pk, parts=[part(cluster, 200)], planning_number=9)


def part(cluster, compute, memory_mib=1024, *, core=7, index=3):
    return Part(cluster.node.pk, (index,), (core,), 0, gpu_compute=compute, gpu_memory_mib=memory_mib)


def test_placing_refuses_what_the_cluster_no_longer_has(cluster):
    jobs = shared_jobs(cluster, 0.9, 0.2)
    attempt_start(job_id=jobs[0].pk, parts=[part(cluster, 900, core=0)], planning_number=1)
    for wanted, words in (
        (part(cluster, 200), "too little left"),
        (part(cluster, 50, 24576), "too little left"),
        (part(cluster, 50, index=0), "exclusive by now"),
        (Part(cluster.node.pk, (3,), (7,), 0), "shared by now"),
    ):
        with pytest.raises(DoesNotFit, match=words):
            attempt_start(job_id=jobs[1].pk, parts=[wanted], planning_number=2)
    assert held(jobs[1]) == []


def test_the_database_refuses_what_would_be_over_a_gpu(cluster):
    (job,) = shared_jobs(cluster, 0.9)
    planning_run()
    row = GpuAllocation.objects.get(allocation__attempt__job=job)
    for compute, memory_mib in ((101, 1), (1, 24576 - 4095)):
        with pytest.raises(IntegrityError, match="gpu_parts_fit"), transaction.atomic():
            insert(row, compute, memory_mib)
    for compute, memory_mib in ((0, 1), (1001, 1), (50, None), (50, 0)):
        with pytest.raises(IntegrityError), transaction.atomic():
            insert(row, compute, memory_mib)
    insert(row, 100, 24576 - 4096)
    sums = GpuAllocation.objects.filter(gpu=row.gpu).aggregate(Sum("compute"), Sum("memory_mib"))
    assert sums == {"compute__sum": 1000, "memory_mib__sum": 24576}


def insert(row, compute, memory_mib):
    other = given.Cluster(row.allocation.attempt.job.tenant, row.allocation.attempt.job.owner, row.gpu.node)
    attempt = other.start(other.submit(gpus=0), gpus=0)
    values = {"mode": SHARED, "compute": compute, "memory_mib": memory_mib, "created_at": timezone.now()}
    GpuAllocation.objects.create(allocation=attempt.allocations.get(), gpu=row.gpu, **values)


def test_a_cordoned_shared_gpu_gets_nobody_new(cluster):
    (job,) = shared_jobs(cluster, 0.5)
    planning_run()
    gpu_cordon(node=cluster.node, index=3, actor=None, reason="dust")
    second = cluster.submit(**given.shareable())
    planning_run()
    assert (bool(held(job)), held(second)) == (True, [])
    assert Job.objects.get(pk=second.pk).reason_figures["shared"]["gpus"] == 0


# ---- which GPUs are shared -------------------------------------------------------------------------------------------


def test_an_operator_changes_an_idle_gpu_and_no_other(cluster):
    operator = given.operator()
    assert gpu_mode_set(node=cluster.node, index=2, mode="shared", actor=operator).mode == SHARED
    job = cluster.submit(**given.shareable())
    planning_run()
    assert held(job) == [(2, 250, 4096)]
    with pytest.raises(Conflict, match="cordon the GPU, and try again"):
        gpu_mode_set(node=cluster.node, index=2, mode="exclusive", actor=operator)
    assert cluster.node.events.filter(kind="GPU sharing").count() == 1


def shared_indices():
    return list(Gpu.objects.filter(mode=SHARED).order_by("node", "index").values_list("node__name", "index"))


def test_a_share_of_each_types_gpus_is_shared_the_last_first(cluster):
    given.node_make("n2")
    assert gpu_modes_balance(share=0.3) == 2
    assert shared_indices() == [("n2", 2), ("n2", 3)]
    assert gpu_modes_balance(share=0.3) == 0
    assert gpu_modes_balance(share=0.7) == 3
    assert shared_indices() == [("n1", 3), ("n2", 0), ("n2", 1), ("n2", 2), ("n2", 3)]
    assert gpu_modes_balance(share=0.25) == 3
    assert shared_indices() == [("n2", 2), ("n2", 3)]
    assert gpu_modes_balance(share=0) == 2
    assert shared_indices() == []


def test_what_an_operator_set_counts_and_stays(cluster):
    gpu_mode_set(node=cluster.node, index=0, mode="shared", actor=None)
    gpu_mode_set(node=cluster.node, index=3, mode="exclusive", actor=None)
    gpu_modes_balance(share=0.5)
    assert shared_indices() == [("n1", 0), ("n1", 2)]
    gpu_modes_balance(share=0)
    assert shared_indices() == [("n1", 0)]


def test_a_gpu_that_a_job_holds_is_not_changed(cluster):
    cluster.start(cluster.submit(gpus=4), gpus=4)
    settings_update(actor=given.operator(), shared_gpus=0.5)
    planning_run()
    assert shared_indices() == []


def promised(cluster, gpus):
    """A waiting job with a promise of this number of the node's GPUs."""
    job = cluster.submit(gpus=gpus)
    shares = [[cluster.node.pk, gpus, 1, 0]]
    return Promise.objects.create(job=job, shares=shares, cause="call_back", planning_number=1, given_at=timezone.now())


def test_gpus_that_are_promised_stay_whole(cluster):
    """Three of four are promised: one may be shared, and no other node has to give more."""
    promised(cluster, 3)
    given.node_make("n2")
    assert gpu_modes_balance(share=1.0) == 5
    assert shared_indices() == [("n1", 3), ("n2", 0), ("n2", 1), ("n2", 2), ("n2", 3)]
    with pytest.raises(Conflict, match="kept for a waiting job"):
        gpu_mode_set(node=cluster.node, index=0, mode="shared", actor=None)


def test_the_nodes_of_a_reservation_stay_whole_until_it_is_over(cluster):
    record = given.planning_record(1, timezone.now())
    record.status = Planning.Status.APPLIED
    until = timezone.now() + timedelta(minutes=5)
    record.reservations = [{"job": 1, "nodes": [cluster.node.pk], "until": until.isoformat()}]
    record.save()
    assert gpu_modes_balance(share=1.0) == 0
    Planning.objects.update(reservations=[record.reservations[0] | {"until": timezone.now().isoformat()}])
    assert gpu_modes_balance(share=1.0) == 4


def test_the_planning_changes_gpus_by_the_knob_and_places_on_them(cluster):
    settings_update(actor=given.operator(), shared_gpus=0.25)
    job = cluster.submit(**given.shareable())
    planning_run()
    assert held(job) == [(3, 250, 4096)]
    settings_update(actor=given.operator(), shared_gpus=0)
    planning_run()
    assert shared_indices() == [("n1", 3)], "a job runs there"


def test_a_drained_node_offers_no_shared_gpu(cluster):
    node_drain(node=cluster.node, actor=None, reason="x")
    shared_jobs(cluster, 0.5)
    planning_run()
    assert Job.objects.get().reason_figures["shared"]["gpus"] == 0


# ---- what policies know of use ---------------------------------------------------------------------------------------

RISING = [100 * each / 63 for each in range(64)]


def used_before(cluster, model, shape):
    """Say what the last run of the model used: `shape` in per cent, of 4 GiB and of the SMs."""
    kind = cluster.node.gpu_type
    signature = Signature.objects.create(
        name=signature_of(cluster.tenant.pk, model, 0), tenant=cluster.tenant, used_at=timezone.now()
    )
    series = {"gpu_memory_mib": [40.96 * each for each in shape], "gpu_utilisation": [None, *shape[1:]]}
    SignatureUse.objects.create(signature=signature, gpu_type=kind, at=timezone.now(), series=series, count=1)


def test_cbp_goes_by_what_models_used_and_grants_that(cluster):
    settings_update(actor=given.operator(), sharing_policy="cbp")
    given.shared(cluster.node, 3)
    used_before(cluster, "up", RISING)
    used_before(cluster, "down", RISING[::-1])
    fields = given.shareable(0.2, 8192, restartable=True)
    jobs = [cluster.submit(**fields, model=model) for model in ("up", "up", "down")]
    planning_run()
    p80 = 3277
    assert [held(job) for job in jobs] == [[(3, 200, p80)], [], [(3, 200, p80)]]
    assert Job.objects.get(pk=jobs[1].pk).reason_figures["shared"]["closed"] == {"correlated": 1}


def test_who_may_not_run_again_or_is_waited_for_gets_all_that_it_asks_for(cluster):
    settings_update(actor=given.operator(), sharing_policy="cbp")
    given.shared(cluster.node, 2, 3)
    used_before(cluster, "up", RISING)
    for fields in ({}, {"restartable": True, "latency_class": "latency"}):
        job = cluster.submit(**given.shareable(0.9, 8192, model="up", **fields))
        planning_run()
        assert held(job)[0][1:] == (900, 8192)


@pytest.mark.parametrize(("seen", "rule"), [(True, "forecast"), (False, "no trend")])
def test_cbp_pp_looks_at_the_gpus_memory_of_the_last_minute(cluster, seen, rule):
    settings_update(actor=given.operator(), sharing_policy="cbp-pp")
    first, second = shared_jobs(cluster, 0.2, 0.2)
    Job.objects.filter(pk=second.pk).update(state="HELD")
    planning_run()
    if seen:
        memory = [1000.0 + 10 * each for each in range(20)]
        batch = {"start": timezone.now().timestamp() - 25, "period_s": 1.0, "count": 20}
        given.measured(node=cluster.node, batch=batch | {"gpus": {"3": {"memory_mib": memory}}})
    Job.objects.filter(pk=second.pk).update(state="PENDING")
    planning_run()
    assert bool(held(first))
    assert bool(held(second)) == seen
    if not seen:
        assert Job.objects.get(pk=second.pk).reason_figures["shared"]["closed"] == {rule: 1}


def test_gaps_are_filled_and_what_was_hardly_seen_is_not_compared():
    use = use_of({"gpu_memory_mib": [None, 1, None, 3, 4, 5, 6], "gpu_utilisation": [50] * 7})
    assert use == {"memory_mib": [1, 1, 1, 3, 4, 5, 6], "gpu": [0.5] * 7, "pcie_mb_s": [0.0] * 7}
    assert use_of({"gpu_memory_mib": [1, 2, 3, None, 5], "gpu_utilisation": [50] * 5}) is None
    assert use_of({}) is None


def harvest_by(cluster, used_mib, *, asked=4096, **fields):
    """Let one that holds 20 of 24 GiB run, whose like used 4 GiB, say what it uses, and let another wait for `asked` MiB."""
    given.shared(cluster.node, 3)
    fields = {"restartable": True, **fields}
    first = cluster.submit(**given.shareable(0.2, 20480, model="up", **fields))
    planning_run()
    assert held(first) == [(3, 200, 20480)]
    used_before(cluster, "up", RISING)
    used_before(cluster, "down", RISING[::-1])
    settings_update(actor=given.operator(), sharing_policy="cbp", sharing_slowdown=None)
    key = Attempt.objects.get(job=first).key
    if used_mib is not None:
        batch = {"start": timezone.now().timestamp() - 25, "period_s": 1.0, "count": 20}
        given.measured(node=cluster.node, batch=batch | {"attempts": {key: {"gpu_memory_mib": [used_mib] * 20}}})
    second = cluster.submit(**given.shareable(0.2, asked, model="down"))
    planning_run()
    return first, second


def test_a_running_job_gives_back_memory_that_another_needs_and_its_node_and_its_page_hear_of_it(cluster, client):
    first, second = harvest_by(cluster, 1000.0, asked=8192)
    assert (held(first), held(second)) == ([(3, 200, 24576 - 8192)], [(3, 200, 8192)])
    (wanted,) = [each for each in parts_wanted(node_id=cluster.node.pk)["attempts"] if each["job"] == first.pk]
    assert wanted["gpu_memory_mib"] == 24576 - 8192
    client.force_login(cluster.owner)
    assert "It holds 16 GiB of GPU memory now, before 20 GiB:" in client.get(f"/jobs/{first.pk}/").content.decode()
    assert "gave back memory" in html.unescape(client.get(f"/jobs/{second.pk}/").content.decode())


@pytest.mark.parametrize(
    ("used_mib", "fields"),
    [(None, {}), (20000.0, {}), (1000.0, {"latency_class": "latency"}), (1000.0, {"restartable": False})],
)
def test_nothing_is_taken_from_who_uses_it_is_waited_for_cannot_run_again_or_tells_nothing(cluster, used_mib, fields):
    first, second = harvest_by(cluster, used_mib, asked=8192, **fields)
    assert (held(first), held(second)) == ([(3, 200, 20480)], [])


def test_who_was_ended_for_memory_that_was_taken_from_it_comes_back_with_all_that_it_asks_for(cluster):
    first, _ = harvest_by(cluster, 1000.0, asked=8192)
    cluster.end(Attempt.objects.get(job=first), reason="gpu_memory_limit", exit_code=None, detail="out of GPU memory")
    first.refresh_from_db()
    assert (first.state, first.gpu_memory_whole) == ("PENDING", True)
