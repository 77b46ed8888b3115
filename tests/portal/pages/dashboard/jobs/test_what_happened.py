"""A job's life in sentences of plain words, made by the real services."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.pages.dashboard.jobs.happened import MOST, events_make, plain
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.listing import attempts_of
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.services.control import job_cancel, job_hold, job_release
from portal.work.jobs.services.events import event_record
from portal.work.jobs.services.preempting import Stop, attempt_preempt
from portal.work.jobs.states import StopCause

pytestmark = pytest.mark.django_db
NEVER = re.compile(r"attempt|preempt|planning|allocated|requeue|epoch", re.IGNORECASE)


def told(job):
    job = Job.objects.get(pk=job.pk)
    found = [event["text"] for event in events_make(job, list(attempts_of(job)))]
    assert not [text for text in found if NEVER.search(text)]
    return found


def test_a_job_that_is_done_has_three_sentences(cluster):
    attempt = cluster.running()
    Job.objects.update(submitted_at=timezone.now() - timedelta(minutes=4, seconds=10))
    cluster.end(attempt, exit_code=0)
    assert told(attempt.job) == ["Ended: exit code 0.", "Started on n1, after 4\u00a0min.", "Submitted."]


def test_a_placed_one_says_where_it_is_being_started(cluster):
    job = cluster.submit()
    planning_run()
    assert told(job) == ["Being started on n1: 1 GPU and 1 core.", "Submitted."] or told(job)[0].startswith(
        "Being started on n1"
    )


def test_ends_name_their_cause(cluster, subtests):
    for end, says in [
        ({"exit_code": 3}, "Ended: exit code 3."),
        ({"signal": 11}, "Ended: failed by signal 11."),
        ({"reason": "time_limit"}, "Ended: stopped at its time limit."),
        ({"reason": "out_of_memory", "detail": "2100 of 2048 MiB"}, "Ended: out of memory, 2100 of 2048 MiB."),
        ({"reason": "lost"}, "Ended: its node was lost."),
    ]:
        with subtests.test(says):
            attempt = cluster.running()
            cluster.end(attempt, **end)
            assert told(attempt.job)[0] == says


def test_a_resize_is_one_sentence(cluster):
    first = cluster.running(gpus=2, checkpointable=True)
    stop = Stop(job_id=first.job_id, cause=StopCause.RESIZE, for_job=None, to_gpus=1)
    assert attempt_preempt(stop=stop, planning_number=7)
    assert told(first.job)[0] == "Stopped to go on with 1 GPU in place of 2."
    cluster.end(first, reason="stopped", exit_code=0)
    second = cluster.start(Job.objects.get(pk=first.job_id), gpus=1)
    cluster.report(second, "running", pid=7)
    Attempt.objects.filter(pk=second.pk).update(restart_s=38.0)
    assert told(first.job)[0] == "2 to 1 GPUs, on n1. It stood still for 38\u00a0s."
    assert len(told(first.job)) == 3
    cluster.end(second, exit_code=0)
    assert told(first.job)[0] == "Run 2 ended: exit code 0."


def test_a_run_after_a_failure_is_named_by_its_number(cluster):
    first = cluster.running(retries=1)
    cluster.end(first, exit_code=1)
    assert told(first.job)[0] == "Run 1 ended: failed, exit 1; waits again (retry 1 of 1)."
    second = cluster.start(Job.objects.get(pk=first.job_id))
    cluster.report(second, "running", pid=7)
    assert told(first.job)[0] == "Run 2 started on n1."


def test_what_people_did_stands_with_their_names(cluster):
    job = cluster.submit()
    job_hold(job=job, actor=cluster.owner)
    job_release(job=Job.objects.get(pk=job.pk), actor=cluster.owner)
    job_cancel(job=Job.objects.get(pk=job.pk), actor=cluster.owner)
    assert told(job) == ["Cancelled by lena.", "Released by lena.", "Held by lena.", "Submitted."]


def test_no_more_than_the_last_are_told_in_one_query(cluster, django_assert_num_queries):
    attempt = cluster.running()
    for at in range(MOST + 20):
        event_record(job_id=attempt.job_id, kind="kept", text=f"Kept {at}.")
    runs = list(attempts_of(attempt.job))
    with django_assert_num_queries(1):
        assert len(events_make(attempt.job, runs)) == MOST


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Placed on a: 1 GPU and 2 cores, planning 65.", "Placed on a: 1 GPU and 2 cores."),
        (
            "Attempt 2 did not stop within its grace of 30 s and was killed.",
            "Run 2 did not stop within its grace of 30 s and was killed.",
        ),
        ("its planning 65 notes were kept", "Its planning 65 notes were kept"),
    ],
)
def test_texts_of_other_kinds_lose_the_words_of_the_scheduler(text, says):
    assert plain(text) == says
