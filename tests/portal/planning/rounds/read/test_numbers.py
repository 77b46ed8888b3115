"""Sentences name jobs as people do: an array's task as 58_40, never by its row's id."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.planning.rounds.read.explained import explanation
from portal.planning.rounds.read.figures import JobNumbers
from portal.planning.rounds.read.needs import start_need
from portal.work.jobs.models import Job
from scheduler.explaining.places import QUEUES
from scheduler.explaining.sentences import sentence

QUEUE = next(iter(QUEUES))
NEEDS = {"min_gpus": 1, "gpus": [1], "gpu_types": []}


@pytest.fixture
def task(cluster):
    """The second task of an array; its id is not what anybody calls it."""
    array = cluster.submit(array={"size": 3})
    return Job.objects.get(array=array, array_index=1)


def keeper(job):
    return {"job": job, "nodes": ["n1"], "gpus": 1, "until_s": None, "cause": "promise"}


def named(job):
    """Each reason whose figures name jobs, with figures that name this one."""
    return {
        "lost-to-higher-priority": {"needs": NEEDS, "lost_to": {"own_jobs": [job], "other_tenants_jobs": 0}},
        "dependency": {"depends_on": [job]},
        "reserved": {"needs": NEEDS, "keepers": [keeper(job)], "more": 0},
        "outside-window": {
            "needs": NEEDS,
            "place": 3,
            "queue": QUEUE,
            "queue_length": 9,
            "considered": 4,
            "window_gpus": 4,
            "blocked_by": {"place": 2, "queue": QUEUE, "job": job},
        },
    }


@pytest.mark.parametrize("reason", named(0))
def test_a_sentence_says_a_tasks_number(task, reason):
    figures = named(task.pk)[reason]
    told = JobNumbers().told(figures)
    words = f"{sentence(reason, told)} {start_need(reason, told) or ''}"
    assert task.number in words
    assert f"job {task.pk} " not in words
    assert figures == named(task.pk)[reason]  # what was given is not changed


def test_the_explanation_says_a_tasks_number(cluster, task):
    job = cluster.submit()
    Job.objects.filter(pk=job.pk).update(
        reason="lost-to-higher-priority", reason_figures=named(task.pk)["lost-to-higher-priority"]
    )
    job.refresh_from_db()
    said = explanation(job)
    assert f"job {task.number}," in said["sentence"]
    assert said["figures"]["lost_to"]["own_jobs"] == [task.pk]  # REST names ids, as elsewhere


def test_many_figures_cost_one_query(cluster, task):
    every = [*named(task.pk).values(), *named(cluster.submit().pk).values(), {}]
    with CaptureQueriesContext(connection) as captured:
        numbers = JobNumbers(every)
        for figures in every:
            numbers.told(figures)
    assert len(captured) == 1


def test_who_is_masked_or_gone_stays_so(cluster):
    gone = {"lost_to": {"own_jobs": [999_999]}, "blocked_by": {"job": None}, "keepers": [keeper(None), keeper("5_1")]}
    told = JobNumbers().told(gone)
    assert told == gone
