"""A part that took more of a shared GPU's memory than it was granted: how its job ends, and what its page says."""

from dataclasses import replace

import pytest
from django.utils import timezone

from portal.pages.dashboard.jobs.ended import ended_make, remedy_for
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Attempt, Job, JobApart
from portal.work.jobs.services.ending import attempt_end_state
from portal.work.jobs.services.placing import attempt_start
from portal.work.jobs.states import AttemptState, JobState
from tests.portal import given

pytestmark = pytest.mark.django_db
DETAIL = "out of GPU memory: used 1200 MiB of 1000 MiB granted (gpu_memory_mib)"


@pytest.mark.parametrize("others", [[], [("stopped", None)], [("exit", 0)]])
def test_the_attempt_is_out_of_memory_whatever_its_partners_did(others):
    ended = attempt_end_state(parts=[("gpu_memory_limit", None), *others], stop_reason="")
    assert ended == AttemptState.OUT_OF_MEMORY


def test_the_job_says_how_much_it_took_and_what_to_do(cluster):
    cluster.end(cluster.running(), reason="gpu_memory_limit", exit_code=None, detail=DETAIL)
    job = Job.objects.get()
    assert (job.state, job.end_detail) == (JobState.OUT_OF_MEMORY, DETAIL)
    assert "GPU memory" in remedy_for(job)
    sentence = "".join(part["text"] for part in ended_make(job, list(Attempt.objects.all()))["sentence"])
    assert sentence == "It ran out of GPU memory: used 1200 MiB of 1000 MiB granted."
    assert Attempt.objects.get().allocations.get().end_reason == "gpu_memory_limit"


def on_part_of_a_gpu(cluster, granted, **fields):
    """A job that asks for 2000 MiB of a shared GPU and was granted so many."""
    given.shared(cluster.node, 0)
    job = cluster.submit(**given.shareable(memory_mib=2000), **fields)
    place = replace(given.free_part(cluster.node), gpu_indices=(0,), gpu_compute=250, gpu_memory_mib=granted)
    attempt = attempt_start(job_id=job.pk, parts=[place], planning_number=1)
    cluster.report(attempt, "running", pid=100)
    return attempt


def test_who_was_granted_less_than_it_asked_for_waits_again_for_all_of_it_and_loses_no_retry(cluster):
    attempt = on_part_of_a_gpu(cluster, 1000, checkpointable=True)
    cluster.end(attempt, reason="gpu_memory_limit", exit_code=None, detail=DETAIL)
    job = Job.objects.get()
    assert (job.state, job.gpu_memory_whole, job.failures) == (JobState.PENDING, True, 0)


@pytest.mark.parametrize(("granted", "fields"), [(2000, {"checkpointable": True}), (1000, {})])
def test_who_took_more_than_it_asked_for_or_cannot_begin_anew_is_over(cluster, granted, fields):
    attempt = on_part_of_a_gpu(cluster, granted, **fields)
    cluster.end(attempt, reason="gpu_memory_limit", exit_code=None, detail=DETAIL)
    job = Job.objects.get()
    assert (job.state, job.gpu_memory_whole) == (JobState.OUT_OF_MEMORY, False)


def beside_of(cluster, attempt, **fields):
    """A job on the same GPU as the attempt, with a place of its own there."""
    job = cluster.submit(**given.shareable(memory_mib=2000), **fields)
    place = replace(given.free_part(cluster.node), gpu_indices=(0,), gpu_compute=250, gpu_memory_mib=2000)
    return attempt_start(job_id=job.pk, parts=[place], planning_number=1)


def test_the_pair_is_kept_apart_from_then_on_and_the_job_says_so(cluster, client):
    attempt = on_part_of_a_gpu(cluster, 1000, checkpointable=True)
    gone, there = beside_of(cluster, attempt), beside_of(cluster, attempt)
    cluster.report(there, "running", pid=101)
    cluster.end(gone, exit_code=0)
    cluster.end(attempt, reason="gpu_memory_limit", exit_code=None, detail=DETAIL)
    assert list(JobApart.objects.values_list("job", "beside")) == [(attempt.job_id, there.job_id)]
    planning_run()
    job = Job.objects.get(pk=attempt.job_id)
    assert job.reason_figures["shared"]["closed"] == {"apart": 1}
    client.force_login(cluster.owner)
    told = client.get(f"/api/v1/jobs/{job.pk}/explain").json()["sentence"]
    assert f"on 1 it is kept apart from job {there.job.number}: they ran out of GPU memory together" in told
    cluster.end(there, exit_code=0)
    planning_run()
    assert Attempt.objects.filter(job=job).count() == 2, "the other has gone"


def test_who_runs_is_kept_from_by_those_that_it_was_kept_apart_from(cluster):
    """The mark holds both ways: the other comes back, and the marked job is on the GPU."""
    attempt = on_part_of_a_gpu(cluster, 2000, checkpointable=True)
    other = cluster.submit(**given.shareable(memory_mib=2000), model="hungry")
    old = cluster.submit(**given.shareable(memory_mib=2000), model="hungry")
    JobApart.objects.create(job=attempt.job, beside=old, at=timezone.now())
    planning_run()
    assert Job.objects.get(pk=other.pk).reason_figures["shared"]["closed"] == {"apart": 1}
