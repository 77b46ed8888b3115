"""Section 8: running jobs keep the cores that their attempt wanted, though the owner's start rule may say another number by now."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.models import Node
from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, Job, Promise
from portal.work.jobs.services.cores import core_tuning_record
from tests.portal import given


def snapshot():
    return state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))


def hours_pass(hours=5):
    """All earlier acts were done this long ago: the next planning is a re-plan, and nobody is too new for it."""
    past = timedelta(hours=hours)
    for attempt in Attempt.objects.all():
        attempt.created_at -= past
        attempt.started_at = attempt.created_at
        attempt.save()
    for job in Job.objects.exclude(started_at=None):
        Job.objects.filter(pk=job.pk).update(started_at=job.started_at - past)
    for each in Round.objects.all():
        Round.objects.filter(pk=each.pk).update(started_at=each.started_at - past)


@pytest.fixture
def running(cluster):
    """An elastic job on both GPUs of a node with cores for it, placed by a planning when its owner's rule said 3."""
    cluster.node = given.node_make("wide", gpus=2, cores=24)
    job = cluster.submit(gpus=[1, 2], gpu_types=["A100"], category="cv", checkpointable=True)
    planning_run()
    attempt = Attempt.objects.runs().get(job=job)
    for rank in range(attempt.allocations.count()):
        cluster.report(attempt, "running", rank=rank, pid=100)
    return job


@pytest.fixture
def tuned(cluster, running):
    """And now the rule says 12."""
    earlier = cluster.submit(category="cv")
    core_tuning_record(job=earlier, cores_per_gpu=12)
    Job.objects.filter(pk=earlier.pk).update(state="CANCELLED", ended_at=timezone.now(), waiting_since=None)
    return running


def test_a_change_of_the_owners_rule_leaves_a_running_attempt_its_own(cluster, tuned):
    (live,) = snapshot().running
    assert live.description.cores == 3
    later = cluster.submit(category="cv")
    assert [job.cores for job in snapshot().jobs if job.id == later.pk] == [12], "the owner's next starts by the rule"


def test_and_no_planning_stops_it_for_that(cluster, tuned):
    given.node_make("other", gpus=2, cores=24)
    hours_pass()
    made = planning_run()
    assert (made.replan, Planning.objects.get(number=made.number).stops) == (True, [])


def test_what_is_promised_to_it_was_reckoned_with_the_same(cluster, tuned):
    """Stopped to go on elsewhere, it goes on with the cores that its promise was made with, and keeps to them."""
    (live,) = snapshot().running
    Promise.objects.create(
        job=tuned,
        shares=[[cluster.node.pk, 1, 3, 0]],
        cause="resize",
        planning_number=1,
        given_at=timezone.now(),
        cores_wanted=live.description.cores,
    )
    attempt = Attempt.objects.runs().get(job=tuned)
    cluster.end(attempt, reason="stopped", exit_code=None)
    Job.objects.filter(pk=tuned.pk).update(state="PENDING", waiting_since=timezone.now())
    (waiting,) = snapshot().jobs
    assert waiting.cores == 3


def test_an_attempt_from_before_it_was_kept_goes_by_the_rule(tuned):
    Attempt.objects.update(cores_wanted=None)
    assert snapshot().running[0].description.cores == 12


@pytest.mark.parametrize(("tunes", "cores"), [(True, 6), (False, 24)])
def test_on_a_node_that_does_not_tune_a_job_gets_what_it_asked_though_others_tune(cluster, tunes, cores):
    """It would have run with half of what it needs to its end: the start rule counts on tuning, and nobody tunes there."""
    Node.objects.update(drained_at=timezone.now())
    given.node_make("wide", gpus=2, cores=32, tunes_cores=tunes)
    job = cluster.submit(gpus=[2], gpu_types=["A100"], category="cv", cores_per_gpu=12)
    planning_run()
    attempt = Attempt.objects.runs().get(job=job)
    assert (attempt.cores, attempt.allocations.get().node.name) == (cores, "wide")
