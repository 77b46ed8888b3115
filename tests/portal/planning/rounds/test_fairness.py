"""Section 3 in the database: which waiting counts, over which attempts, and when a job's age is fixed."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.models import GpuType
from portal.planning.estimation.models import Signature, ThroughputCell
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.read.selectors import latency_ratio, waited_s
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.services.control import job_hold, job_release
from scheduler.estimator.lengths import OF_CLUSTER
from scheduler.fairness.lrf import age_of
from scheduler.model import Sample
from tests.portal import given

MINUTE = 60.0


def fresh(job):
    return Job.objects.get(pk=job.pk)


def pass_time(job, seconds=10 * MINUTE):
    """As if this time had gone by since: each open stretch of waiting grows by it."""
    row = fresh(job)
    if row.waiting_since:
        Job.objects.filter(pk=job.pk).update(waiting_since=row.waiting_since - timedelta(seconds=seconds))


def waited_min(job):
    return round(waited_s(fresh(job)) / MINUTE)


def test_waiting_counts_while_it_could_have_run(cluster):
    job = cluster.submit(gpus=4)
    cluster.start(cluster.submit(gpus=4), gpus=4)
    planning_run()
    pass_time(job)
    assert waited_min(job) == 10


def test_being_held_does_not_count(cluster):
    job = cluster.submit(gpus=4)
    pass_time(job)
    job_hold(job=job, actor=cluster.owner)
    planning_run()
    pass_time(job)
    assert waited_min(job) == 10
    job_release(job=fresh(job), actor=cluster.owner)
    cluster.start(cluster.submit(gpus=4), gpus=4)
    planning_run()
    pass_time(job, 5 * MINUTE)
    assert waited_min(job) == 15


def test_waiting_for_a_dependency_does_not_count(cluster):
    attempt = cluster.running(gpus=1)
    job = cluster.submit(gpus=4, depends_on=[attempt.job_id])
    planning_run()
    pass_time(job)
    assert waited_min(job) == 0
    cluster.end(attempt)
    cluster.start(cluster.submit(gpus=4), gpus=4)
    planning_run()
    pass_time(job)
    assert waited_min(job) == 10


def test_being_over_the_quota_does_not_count(cluster):
    cluster.running(gpus=2, cores=2)
    job = cluster.submit(gpus=2)
    cluster.tenant.gpu_quota = 3
    cluster.tenant.save()
    planning_run()
    assert fresh(job).reason == "tenant-quota"
    pass_time(job)
    assert waited_min(job) == 0
    cluster.tenant.gpu_quota = None
    cluster.tenant.save()
    cluster.start(cluster.submit(gpus=2), gpus=2)
    planning_run()
    assert fresh(job).reason != "tenant-quota"
    pass_time(job)
    assert waited_min(job) == 10


def test_it_is_frozen_while_running_and_goes_on_over_all_attempts(cluster):
    job = cluster.submit(gpus=1, restartable=True)
    pass_time(job)
    attempt = cluster.start(job)
    cluster.report(attempt, "running", pid=1)
    pass_time(job)
    assert waited_min(job) == 10
    assert fresh(job).waiting_since is None
    cluster.end(attempt, reason="lost", exit_code=None)
    assert fresh(job).state == "PENDING"
    cluster.start(cluster.submit(gpus=4), gpus=4, cores=4)
    planning_run()
    pass_time(job)
    assert waited_min(job) == 20


def test_the_age_follows_what_is_learnt_until_the_first_start_and_then_stays(cluster):
    def finish(seconds):
        """A job of the same owner that declared 100 s and took this time."""
        attempt = cluster.running(gpus=1, expected_duration_s=100.0)
        cluster.end(attempt)
        Job.objects.filter(pk=attempt.job_id).update(ran_s=seconds)

    job = cluster.submit(gpus=4, expected_duration_s=100.0, restartable=True)
    cluster.start(cluster.submit(gpus=2), gpus=2, cores=2)
    planning_run()
    assert (fresh(job).age_s, fresh(job).age_source) == (100.0, "declared")
    finish(300.0)
    planning_run()
    assert fresh(job).age_s == 300.0, "its owner's jobs take three times what they declare"
    other = given.node_make("n2")
    planning_run()
    started = Attempt.objects.get(job=job)
    assert fresh(job).age_s == 300.0
    cluster.report(started, "running", pid=1, node=other)
    for _ in range(3):
        finish(10_000.0)
    cluster.end(started, reason="lost", exit_code=None, node=other)
    planning_run()
    assert fresh(job).age_s == 300.0, "fixed at its first start"


def test_a_guessed_age_gives_way_once_the_jobs_speed_is_known(cluster):
    """A new label tells its samples and nobody its speed: the hour that is assumed must not stand for the job's whole life."""
    job = cluster.submit(gpus=[1, 2], samples=36_000, model="new", checkpointable=True)
    planning_run()
    started = Attempt.objects.get(job=job)
    assert fresh(job).age_s == 3600.0
    name = f"tenant:{cluster.tenant.pk}:new"
    signature = Signature.objects.create(name=name, tenant=cluster.tenant, used_at=timezone.now())
    ThroughputCell.objects.create(signature=signature, gpu_type=GpuType.objects.get(), gpus=1, count=9, mean=100.0)
    state = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    (live,) = state.running
    found = age_of(live.description, state.history, tick_s=5, samples_per_s={"a100": 100.0}, gpus_by_type={"a100": 4})
    assert (found.age_s, found.source) == (240.0, "samples"), "while it runs"
    cluster.report(started, "running", pid=1)
    cluster.end(started, reason="lost", exit_code=None)
    planning_run()
    assert Attempt.objects.filter(job=job).count() == 2
    assert (fresh(job).age_s, fresh(job).age_source) == (240.0, "samples"), "from its next start on"
    ThroughputCell.objects.update(mean=1.0)
    (live,) = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current())).running
    assert not live.description.age_guessed, "and then it stays"


def test_the_ratio_on_pages_has_no_cap(cluster):
    job = cluster.submit(gpus=4, expected_duration_s=30.0)
    cluster.start(cluster.submit(gpus=4), gpus=4, cores=4)
    planning_run()
    pass_time(job, 30.0 * 250)
    assert latency_ratio(fresh(job)) == pytest.approx(250, rel=0.01)


def test_what_a_job_took_is_its_run_time_without_the_waits_between_attempts(cluster):
    attempt = cluster.running(gpus=1, expected_duration_s=100.0)
    cluster.end(attempt)
    now = timezone.now()
    Job.objects.update(started_at=now - timedelta(hours=10), ended_at=now, ran_s=150.0)
    history = state_load(now=now, parameters=scheduler_parameters(knobs_current())).history
    assert history.told == {cluster.owner.pk: Sample([1.5])}
    assert history.like[OF_CLUSTER,] == Sample([150.0])
