"""The grace of a job: how long it has from SIGTERM to SIGKILL, and what becomes of one that needed more."""

import pytest
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, Job, JobEvent
from portal.work.jobs.selectors import part_spec, parts_wanted

ELASTIC = {"gpus": [1, 2, 4], "checkpointable": True}


def running(cluster, **fields):
    attempt = cluster.start(cluster.submit(**ELASTIC | fields), gpus=1)
    cluster.report(attempt, "running", pid=7)
    return attempt


def graces(cluster, attempt):
    """What the node is told: with the wanted parts, and with all else about this one."""
    (wanted,) = parts_wanted(node_id=cluster.node.pk)["attempts"]
    return wanted["grace_s"], part_spec(node=cluster.node, key=attempt.key)["grace_s"]


def stopped(cluster, attempt, reason, **end):
    """The attempt as the node tells its end, after the portal asked to stop it."""
    Attempt.objects.filter(pk=attempt.pk).update(stop_reason=reason, stop_at=timezone.now())
    cluster.end(attempt, reason="stopped", exit_code=None, signal=9, **end)
    return Job.objects.get(pk=attempt.job_id)


def is_elastic(cluster, job):
    """Whether a re-plan may change the job when it runs again."""
    attempt = cluster.start(job, gpus=1)
    cluster.report(attempt, "running", pid=8)
    (live,) = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current())).running
    return live.elastic


@pytest.mark.parametrize(("asked", "given"), [({}, 30), ({"grace_s": 300}, 300), ({"grace_s": 5}, 5)])
def test_a_node_is_told_the_jobs_own_grace(cluster, asked, given):
    assert graces(cluster, running(cluster, **asked)) == (given, given)


def test_the_operators_limit_holds_for_new_jobs_and_for_older_ones(cluster):
    attempt = running(cluster, grace_s=600)
    settings_update(actor=None, grace_most_s=90)
    assert graces(cluster, attempt) == (90, 90)
    with pytest.raises(BerthError, match="at most 90") as refused:
        cluster.submit(grace_s=91)
    assert refused.value.field == "grace_s"
    assert cluster.submit(grace_s=90).grace_s == 90


def test_a_grace_of_nothing_is_refused(cluster):
    with pytest.raises(BerthError, match="grace_s"):
        cluster.submit(grace_s=0)


def test_a_job_that_outlived_its_grace_is_not_resized_again_and_says_so(cluster):
    attempt = running(cluster, grace_s=40)
    job = stopped(cluster, attempt, "preempt", overran=True)
    assert (job.state, job.overran_epoch) == ("PENDING", 1)
    event = JobEvent.objects.get(job=job, kind="overran")
    assert event.text == "Attempt 1 did not stop within its grace of 40 s and was killed; it is not resized again."
    assert is_elastic(cluster, job) is False


@pytest.mark.parametrize(
    ("reason", "end"), [("preempt", {"overran": False}), ("preempt", {}), ("unwell", {"overran": True})]
)
def test_one_that_stopped_in_time_or_could_not_is_resized_as_before(cluster, reason, end):
    """An agent of before says nothing of it; and where its GPU failed the job may have hung through no fault of its own."""
    job = stopped(cluster, running(cluster), reason, **end)
    assert job.overran_epoch is None
    assert not JobEvent.objects.filter(job=job, kind="overran").exists()
    assert is_elastic(cluster, job) is True


def test_a_job_of_one_size_is_told_that_it_was_killed_and_no_more(cluster):
    job = stopped(cluster, running(cluster, gpus=1, restartable=True), "requeue", overran=True)
    assert JobEvent.objects.get(job=job, kind="overran").text.endswith("within its grace of 30 s and was killed.")
