"""A node that ends, through a real planning: which jobs begin there, and why the others do not (decision 0271)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.models import Node
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.read.plain import reason_words
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, Job
from scheduler.explaining.sentences import sentence
from tests.portal import given

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def ends(cluster):
    """The cluster, whose one node ends in an hour."""
    Node.objects.update(ends_at=timezone.now() + HOUR)
    return cluster


def planned(*jobs):
    planning_run()
    assert not given.violations()
    return [(job.state, job.reason) for job in Job.objects.filter(pk__in=[each.pk for each in jobs]).order_by("pk")]


def test_it_holds_what_ends_before_and_who_saves(ends):
    long = {"expected_duration_s": 7200}
    asked = [
        {"expected_duration_s": 1800},
        {**long, "checkpointable": True},
        {**long, "time_limit_s": 1800},
        long,
        {**long, "restartable": True},
        {},
    ]
    jobs = [ends.submit(gpus=1, cores_per_gpu=1, cores_exactly=True, **each) for each in asked]
    assert planned(*jobs) == [("STARTING", "")] * 3 + [("PENDING", "nodes-close")] * 3


def test_the_reason_says_when_and_how_to_mend_it(ends):
    job = ends.submit(gpus=1, expected_duration_s=7200)
    planned(job)
    job.refresh_from_db()
    figures = job.reason_figures
    until = Node.objects.get().ends_at
    assert figures["closes_s"] == pytest.approx(until.timestamp())
    words = sentence(job.reason, figures)
    assert words.startswith("The GPUs that are free are given back by 2")
    assert words.endswith("If it is shorter, state a shorter time limit; or let it save checkpoints.")
    assert reason_words(job.reason, figures) == "free, but given back too soon"


def test_a_restartable_job_that_was_stopped_needs_longer_each_time(ends):
    """Nobody knows its length. It ran for half an hour on an allocation before: now 50 minutes of one are too short."""
    job = ends.submit(gpus=1, expected_duration_s=2400, restartable=True)
    Node.objects.update(ends_at=timezone.now() + timedelta(minutes=50))
    assert planned(job) == [("STARTING", "")]
    attempt = Attempt.objects.get()
    Attempt.objects.all().delete()
    assert attempt.gpus == 1
    Job.objects.update(state="PENDING", attained_gpu_s=2400.0, started_at=timezone.now(), age_s=2400.0)
    assert planned(job) == [("PENDING", "nodes-close")]


def test_where_nothing_ends_all_of_them_begin(cluster):
    jobs = [cluster.submit(gpus=1, expected_duration_s=7200), cluster.submit(gpus=1)]
    assert planned(*jobs) == [("STARTING", "")] * 2


def test_the_snapshot_has_the_end(ends):
    (node,) = state_load(parameters=scheduler_parameters(knobs_current()), now=timezone.now()).nodes
    assert node.closes_s == pytest.approx(Node.objects.get().ends_at.timestamp())
