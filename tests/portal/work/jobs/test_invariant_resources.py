"""Invariants 1 and 10: what one attempt holds no other does, and quotas hold however many start at once.

Each mechanism is also taken away, to show that the violation is then possible and the test would find it.
"""

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.cluster.models import Gpu
from portal.foundation.errors import Conflict
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Attempt, GpuAllocation, Job
from portal.work.jobs.services import placing, submission
from portal.work.jobs.services.placing import DoesNotFit, attempt_start, attempts_start
from portal.work.jobs.services.placings import Part, Placing
from tests.portal import given

THREADS = 8


def part(cluster, *, gpus=(0,), cores=(0,), memory_mib=0):
    return Part(node_id=cluster.node.pk, gpu_indices=gpus, core_ids=cores, memory_mib=memory_mib)


def begin(cluster, *, job=None, **held):
    job = job or cluster.submit()
    return attempt_start(job_id=job.pk, parts=[part(cluster, **held)], planning_number=1)


def refused(cluster, **held):
    before = list(Job.objects.values_list("pk", "state", "epoch"))
    job = cluster.submit()
    with pytest.raises(DoesNotFit) as error:
        begin(cluster, job=job, **held)
    assert list(Job.objects.exclude(pk=job.pk).order_by("pk").values_list("pk", "state", "epoch")) == sorted(before)
    assert not Attempt.objects.filter(job=job).exists()
    job.refresh_from_db()
    assert (job.state, job.epoch) == ("PENDING", 0)
    return str(error.value)


def test_a_held_gpu_is_refused(cluster):
    begin(cluster)
    assert "constraint" in refused(cluster, cores=(1,))
    assert not given.violations()


@pytest.mark.parametrize("by", ["constraint", "check"])
def test_one_that_is_refused_takes_nothing_from_the_rest(cluster, by):
    begin(cluster, cores=(7,))
    bad = {"gpus": (0,), "cores": (1,)} if by == "constraint" else {"gpus": (1,), "cores": (7,)}
    wanted = [{"gpus": (1,), "cores": (0,)}, bad, {"gpus": (2,), "cores": (2,)}]
    jobs = [cluster.submit() for _ in wanted]
    placings = [Placing(job.pk, [part(cluster, **held)]) for job, held in zip(jobs, wanted, strict=True)]
    refused = attempts_start(placings=placings, planning_number=1)
    assert list(refused) == [jobs[1].pk]
    assert [Job.objects.get(pk=job.pk).state for job in jobs] == ["STARTING", "PENDING", "STARTING"]
    assert not given.violations()


def test_what_one_takes_the_next_of_the_same_planning_does_not_get(cluster):
    jobs = [cluster.submit() for _ in range(2)]
    placings = [Placing(job.pk, [part(cluster, gpus=(n,), cores=(0,))]) for n, job in enumerate(jobs)]
    assert list(attempts_start(placings=placings, planning_number=1)) == [jobs[1].pk]
    Tenant.objects.update(gpu_quota=2)
    jobs = [cluster.submit() for _ in range(2)]
    placings = [Placing(job.pk, [part(cluster, gpus=(n,), cores=(n,))]) for n, job in enumerate(jobs, 1)]
    assert {pk: str(why) for pk, why in attempts_start(placings=placings, planning_number=2).items()} == {
        jobs[1].pk: "tenant-quota"
    }


def test_without_the_index_a_gpu_is_held_twice(cluster):
    given.drop_index("one_exclusive_allocation_a_gpu")
    begin(cluster)
    begin(cluster, cores=(1,))
    assert any("held 2 times" in each for each in given.violations())


@pytest.mark.parametrize("kept", [True, False])
def test_exclusive_never_beside_shared(cluster, kept, monkeypatch):
    Gpu.objects.filter(node=cluster.node, index=0).update(mode="shared")
    assert "shared by now" in refused(cluster)
    monkeypatch.setattr("portal.work.jobs.services.placing._Fresh._gpus_check", lambda *_: None)
    if kept:
        assert "allocation_mode_matches" in refused(cluster)
        return
    given.drop_trigger("allocation_mode_matches", "jobs_gpuallocation")
    attempt = begin(cluster)
    assert GpuAllocation.objects.get(allocation__attempt=attempt).gpu.mode == "shared"


@pytest.mark.parametrize("kept", [True, False])
def test_mode_changes_only_when_free(cluster, kept):
    attempt = begin(cluster)
    gpu = Gpu.objects.filter(node=cluster.node, index=0)
    if not kept:
        given.drop_trigger("gpu_mode_when_free", "cluster_gpu")
        assert gpu.update(mode="shared") == 1
        return
    with pytest.raises(IntegrityError), transaction.atomic():
        gpu.update(mode="shared")
    cluster.report(attempt, "running")
    cluster.end(attempt)
    assert gpu.update(mode="shared") == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"cores": (0, 1)}, {"gpus": (1,), "cores": (1, 2)}),
        ({"memory_mib": 10_000}, {"gpus": (1,), "cores": (1,), "memory_mib": 6_001}),
        ({}, {"gpus": (1,), "cores": (8,)}),
        ({}, {"gpus": (4,), "cores": (1,)}),
    ],
    ids=["cores", "memory", "no such core", "no such GPU"],
)
def test_cores_and_memory_are_summed(cluster, first, second):
    begin(cluster, **first)
    refused(cluster, **second)


def test_a_missing_gpu_is_refused(cluster):
    Gpu.objects.filter(index=0).update(missing_since=timezone.now())
    assert "missing" in refused(cluster)


@pytest.mark.parametrize(
    "change",
    [{"drained_at": timezone.now()}, {"dead_at": timezone.now()}, {"last_contact_at": None}],
    ids=["drained", "dead", "unreachable"],
)
def test_a_node_that_is_not_up_gets_nothing(cluster, change):
    type(cluster.node).objects.filter(pk=cluster.node.pk).update(**change)
    refused(cluster)


def test_tenants_who_do_not_trust_each_other_share_no_account(cluster, settings):
    settings.DEMO = False
    type(cluster.node).objects.update(trusts_tenants=False)
    begin(cluster)
    other = given.Tenant.objects.create(name="speech-lab")
    job = cluster.submit(user=given.member("otto", other))
    with pytest.raises(DoesNotFit, match="tenant-not-trusted"):
        begin(cluster, job=job, gpus=(1,), cores=(1,))
    begin(cluster, gpus=(1,), cores=(1,))


def memory_race(cluster, monkeypatch):
    jobs = [cluster.submit(gpus=0) for _ in range(THREADS)]
    given.gated(monkeypatch, placing, "_part_check", THREADS)
    calls = [
        lambda core=core, job=job: begin(cluster, job=job, gpus=(), cores=(core,), memory_mib=5_000)
        for core, job in enumerate(jobs)
    ]
    return given.race(*calls)


def test_memory_holds_under_a_race(shared_cluster, monkeypatch):
    results = memory_race(shared_cluster, monkeypatch)
    assert sum(isinstance(each, Attempt) for each in results) == 3, results
    assert all(isinstance(each, (Attempt, DoesNotFit)) for each in results), results
    assert not given.violations()


def test_without_the_locks_memory_is_oversold(shared_cluster, monkeypatch):
    given.locks_remove(monkeypatch)
    memory_race(shared_cluster, monkeypatch)
    assert any("oversold" in each for each in given.violations())


def gpu_quota_race(cluster, monkeypatch):
    given.Tenant.objects.update(gpu_quota=3)
    nodes = [given.node_make(f"q{i}", gpus=1) for i in range(THREADS)]
    jobs = [cluster.submit() for _ in range(THREADS)]
    given.gated(monkeypatch, placing, "_quota_check", THREADS)
    return given.race(*[lambda n=n, j=j: cluster.start(j, n) for n, j in zip(nodes, jobs, strict=True)])


def test_gpu_quota_holds_under_a_race(shared_cluster, monkeypatch):
    results = gpu_quota_race(shared_cluster, monkeypatch)
    assert Attempt.objects.filter(ended_at=None).count() == 3, results
    assert sum(isinstance(each, DoesNotFit) for each in results) == THREADS - 3, results


def test_without_the_tenant_lock_the_gpu_quota_breaks(shared_cluster, monkeypatch):
    given.locks_remove(monkeypatch)
    gpu_quota_race(shared_cluster, monkeypatch)
    assert Attempt.objects.filter(ended_at=None).count() > 3


def submit_race(cluster, monkeypatch):
    given.Tenant.objects.update(queued_jobs_quota=3)
    given.gated(monkeypatch, submission, "_quota_check", THREADS)
    return given.race(*[cluster.submit] * THREADS)


def test_queued_jobs_quota_holds_under_a_race(shared_cluster, monkeypatch):
    results = submit_race(shared_cluster, monkeypatch)
    assert Job.objects.count() == 3, results
    assert [each.code for each in results if isinstance(each, Conflict)] == ["quota_exceeded"] * (THREADS - 3)


def test_without_the_tenant_lock_the_queued_jobs_quota_breaks(shared_cluster, monkeypatch):
    given.locks_remove(monkeypatch)
    submit_race(shared_cluster, monkeypatch)
    assert Job.objects.count() > 3


def test_core_quota(cluster):
    cluster.submit()
    given.Tenant.objects.update(core_quota=2)
    begin(cluster, cores=(0, 1))
    assert refused(cluster, gpus=(1,), cores=(2,)) == "tenant-quota"


def test_an_array_counts_its_unstarted_tasks_against_the_queue(cluster):
    given.Tenant.objects.update(queued_jobs_quota=500)
    cluster.submit(array={"size": 400})
    with pytest.raises(Conflict) as error:
        cluster.submit(array={"size": 101})
    assert error.value.code == "quota_exceeded"
    cluster.submit(array={"size": 100})
