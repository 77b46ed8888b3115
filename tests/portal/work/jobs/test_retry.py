"""A job that failed waits again when a person asks for it; an array's failed tasks do so a few at a time."""

import pytest

from portal.foundation.errors import BerthError
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from portal.work.jobs.services import arrays
from portal.work.jobs.services.control import job_cancel, job_hold, job_release
from portal.work.jobs.services.retrying import job_retry
from tests.portal import given


@pytest.fixture
def big(cluster):
    cluster.node = given.node_make("big", gpus=0, cores=400)
    return cluster


def fresh(job):
    return Job.objects.get(pk=job.pk)


def tasks(parent, state=None):
    found = Job.objects.filter(array=parent).order_by("array_index")
    return found if state is None else found.filter(state=state)


def end_all(cluster, parent, *, fails=(), reason="exit"):
    """Run every task that waits to its end; those with an index in `fails` exit 1."""
    while task := tasks(parent, "PENDING").first():
        attempt = cluster.start(task, gpus=0)
        cluster.report(attempt, "running")
        failed = task.array_index in fails
        cluster.end(attempt, exit_code=int(failed), reason=reason if failed else "exit")


def failed(cluster, **fields):
    attempt = cluster.running(**fields)
    cluster.end(attempt, exit_code=3)
    return fresh(attempt.job)


def test_a_failed_job_waits_again_as_its_next_attempt(big):
    job = failed(big, gpus=0)
    assert (job.state, job.exit_code) == ("FAILED", 3)
    waited = job.waited_s
    job = job_retry(job=job, actor=big.owner)
    assert (job.state, job.ended_at, job.exit_code, job.end_detail) == ("PENDING", None, None, "")
    assert job.waiting_since is not None
    assert job.waited_s == waited
    assert job.events.first().text == "Retried by lena."
    planning_run()
    job = fresh(job)
    assert (job.state, job.epoch) == ("STARTING", 2)
    big.report(job.attempts.get(epoch=2), "running")
    big.end(job.attempts.get(epoch=2))
    assert fresh(job).state == "COMPLETED"
    assert not given.violations()


@pytest.mark.parametrize("end", ["time_limit", "out_of_memory", "lost"])
def test_every_failing_end_can_be_retried(big, end):
    attempt = big.running(gpus=0)
    big.end(attempt, reason=end, exit_code=None)
    assert job_retry(job=attempt.job, actor=big.owner).state == "PENDING"


def refused(job, actor, code):
    before = Job.objects.filter(pk=job.pk).values().get()
    with pytest.raises(BerthError) as error:
        job_retry(job=job, actor=actor)
    assert (error.value.code, error.value.status) == (code, 409)
    assert Job.objects.filter(pk=job.pk).values().get() == before


def test_what_has_not_failed_is_refused(big):
    running = big.running(gpus=0)
    refused(running.job, big.owner, "not_failed")
    big.end(running)
    refused(fresh(running.job), big.owner, "not_failed")
    cancelled = job_cancel(job=big.submit(gpus=0), actor=big.owner)
    refused(cancelled, big.owner, "not_failed")
    refused(big.submit(gpus=0, array={"size": 2}), big.owner, "nothing_failed")


def test_a_retry_counts_in_the_quota_of_waiting_jobs(big):
    job = failed(big, gpus=0)
    big.tenant.queued_jobs_quota = 1
    big.tenant.save()
    big.submit(gpus=0)
    refused(job, big.owner, "quota_exceeded")


def test_an_arrays_failed_tasks_are_retried_and_it_completes(big):
    parent = big.submit(gpus=0, array={"size": 6})
    end_all(big, parent, fails={1, 4})
    assert fresh(parent).state == "FAILED"
    parent = job_retry(job=parent, actor=big.owner)
    assert (parent.state, parent.ended_at, parent.array_retries) == ("RUNNING", None, 0)
    assert parent.array_counts == {"COMPLETED": 4, "PENDING": 2}
    assert [task.array_index for task in tasks(parent, "PENDING")] == [1, 4]
    end_all(big, parent)
    parent = fresh(parent)
    assert (parent.state, parent.array_counts) == ("COMPLETED", {"COMPLETED": 6})
    assert [task.epoch for task in tasks(parent)] == [1, 2, 1, 1, 2, 1]
    assert not given.violations()


def test_retries_keep_to_the_arrays_limit(big):
    parent = big.submit(gpus=0, array={"size": 7, "concurrency": 2})
    end_all(big, parent, fails=set(range(7)))
    parent = job_retry(job=parent, actor=big.owner)
    assert (parent.array_counts, parent.array_retries) == ({"FAILED": 5, "PENDING": 2}, 5)
    most = 0
    while task := tasks(parent, "PENDING").first():
        attempt = big.start(task, gpus=0)
        big.report(attempt, "running")
        most = max(most, tasks(parent).filter(state__in=["PENDING", "RUNNING"]).count())
        big.end(attempt, exit_code=1 if task.array_index == 3 else 0)
    parent = fresh(parent)
    assert (most, parent.state, parent.array_retries) == (2, "FAILED", 0)
    assert parent.array_counts == {"COMPLETED": 6, "FAILED": 1}
    assert not given.violations()


def test_many_failed_tasks_are_few_waiting_rows(big, monkeypatch):
    monkeypatch.setattr(arrays, "TASKS_AHEAD", 4)
    parent = big.submit(gpus=0, array={"size": 9})
    end_all(big, parent, fails=set(range(9)))
    parent = job_retry(job=parent, actor=big.owner)
    assert (parent.array_counts, parent.array_retries) == ({"FAILED": 5, "PENDING": 4}, 5)
    end_all(big, parent)
    assert (fresh(parent).state, fresh(parent).array_retries) == ("COMPLETED", 0)


def test_some_are_retried_while_others_still_run(big):
    parent = big.submit(gpus=0, array={"size": 3})
    attempt = big.start(tasks(parent).first(), gpus=0)
    big.report(attempt, "running")
    big.end(attempt, exit_code=1)
    assert job_retry(job=parent, actor=big.owner).array_counts == {"PENDING": 3}
    refused(parent, big.owner, "nothing_failed")


def test_a_state_alone_can_be_retried(big):
    parent = big.submit(gpus=0, array={"size": 3})
    for reason in ("out_of_memory", "exit", "exit"):
        attempt = big.start(tasks(parent, "PENDING").first(), gpus=0)
        big.report(attempt, "running")
        big.end(attempt, exit_code=1, reason=reason)
    parent = job_retry(job=parent, actor=big.owner, states=["OUT_OF_MEMORY"])
    assert parent.array_counts == {"PENDING": 1, "FAILED": 2}


def test_one_task_is_retried_and_its_array_lives_again(big):
    parent = big.submit(gpus=0, array={"size": 2, "concurrency": 1})
    end_all(big, parent, fails={0, 1})
    task = job_retry(job=tasks(parent).last(), actor=big.owner)
    assert (task.state, fresh(parent).state, fresh(parent).array_counts) == (
        "PENDING",
        "RUNNING",
        {"FAILED": 1, "PENDING": 1},
    )
    other = job_retry(job=tasks(parent).first(), actor=big.owner)
    assert (other.state, other.retry_asked_at is not None, fresh(parent).array_retries) == ("FAILED", True, 1)
    refused(other, big.owner, "retry_asked")
    end_all(big, parent)
    assert fresh(parent).state == "COMPLETED"


def test_a_held_array_keeps_its_retries_until_it_is_released(big):
    parent = big.submit(gpus=0, array={"size": 3, "concurrency": 1})
    attempt = big.start(tasks(parent).first(), gpus=0)
    big.report(attempt, "running")
    big.end(attempt, exit_code=1)
    job_hold(job=parent, actor=big.owner)
    job_retry(job=parent, actor=big.owner)
    assert tasks(parent, "PENDING").count() == 0
    job_release(job=fresh(parent), actor=big.owner)
    end_all(big, parent)
    assert fresh(parent).array_counts == {"COMPLETED": 3}


def test_a_cancelled_array_is_not_retried(big):
    parent = big.submit(gpus=0, array={"size": 3})
    attempt = big.start(tasks(parent).first(), gpus=0)
    big.report(attempt, "running")
    big.end(attempt, exit_code=1)
    job_retry(job=parent, actor=big.owner)
    parent = job_cancel(job=fresh(parent), actor=big.owner)
    assert (parent.state, parent.array_retries) == ("CANCELLED", 0)
    refused(parent, big.owner, "not_failed")


def test_two_who_retry_at_once_retry_once(shared_cluster):
    cluster = shared_cluster
    cluster.node = given.node_make("big", gpus=0, cores=40)
    parent = cluster.submit(gpus=0, array={"size": 5})
    end_all(cluster, parent, fails={0, 1, 2})
    results = given.race(*[lambda: job_retry(job=fresh(parent), actor=cluster.owner)] * 2)
    assert sum(isinstance(each, BerthError) for each in results) == 1, results
    assert fresh(parent).array_counts == {"COMPLETED": 2, "PENDING": 3}
    assert not given.violations()


def test_a_retry_says_what_stays_cancelled(client, cluster):
    """An afterok job is cancelled when what it waits for fails, and a retry of that does not bring it back."""
    attempt = cluster.running()
    waits = cluster.submit(depends_on=[attempt.job_id])
    cluster.end(attempt, exit_code=3)
    waits.refresh_from_db()
    assert waits.state == "CANCELLED"
    client.force_login(cluster.owner)
    assert "A retry of that job does not bring this one back" in client.get(f"/jobs/{waits.pk}/").content.decode()
    job_retry(job=Job.objects.get(pk=attempt.job_id), actor=cluster.owner)
    waits.refresh_from_db()
    assert waits.state == "CANCELLED"
    said = attempt.job.events.order_by("-id").first().text
    assert f"Jobs that were cancelled because it failed stay cancelled: #{waits.pk}." in said
