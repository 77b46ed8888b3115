"""A lost attempt that had ended well, which its node can tell only now: the job ends so, unless anything of it began anew."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.services.joining import node_hello
from portal.work.jobs.models import Allocation, Attempt, Job, JobEvent
from portal.work.jobs.services.control import job_cancel, job_hold, job_requeue
from portal.work.jobs.services.reconciling import leases_expire
from portal.work.jobs.states import JobState
from tests.portal import given

pytestmark = pytest.mark.django_db
GRACE_S = 15


def lost(attempt):
    """Let the attempt's parts be missed: their nodes were cut off for longer than its lease."""
    Allocation.objects.filter(attempt=attempt).update(lease_until=timezone.now() - timedelta(seconds=GRACE_S + 1))
    leases_expire(grace_s=GRACE_S)
    assert job_of(attempt).state in {"PENDING", "NODE_FAIL"}
    return attempt


def job_of(attempt):
    return Job.objects.get(pk=attempt.job_id)


def refusals(answer):
    return [each["code"] for each in answer["refused"]]


def test_it_is_not_run_again(cluster):
    attempt = lost(cluster.running(restartable=True))
    before = list(Attempt.objects.values())
    assert refusals(cluster.end(attempt, exit_code=0)) == []
    job = job_of(attempt)
    assert (job.state, job.exit_code, job.end_detail, job.waiting_since) == ("COMPLETED", 0, "", None)
    assert job.ended_at is not None
    assert JobEvent.objects.filter(job=job).order_by("pk").last().text == (
        "Attempt 1 had ended well before its node could tell: the job is not run again."
    )
    assert list(Attempt.objects.values()) == before, "an attempt ends exactly once"
    assert refusals(cluster.end(attempt, exit_code=0)) == ["ended"], "told once more"
    assert not given.violations()


def test_nor_after_a_reboot_before_which_it_had_ended(cluster):
    attempt = cluster.running(restartable=True)
    node_hello(node=cluster.node, inventory=given.inventory(cluster.node, boot_id="boot-2"))
    assert job_of(attempt).state == "PENDING"
    assert refusals(cluster.end(attempt, exit_code=0)) == []
    assert job_of(attempt).state == "COMPLETED"


def test_nor_where_its_owner_holds_it_meanwhile(cluster):
    attempt = lost(cluster.running(restartable=True))
    job_hold(job=job_of(attempt), actor=cluster.owner)
    assert refusals(cluster.end(attempt, exit_code=0)) == []
    assert job_of(attempt).state == "COMPLETED"


def test_who_waits_for_it_starts_and_its_array_counts_it(cluster):
    attempt = cluster.running(restartable=True)
    follower = cluster.submit(depends_on=[attempt.job_id])
    lost(attempt)
    cluster.end(attempt, exit_code=0)
    assert Job.objects.get(pk=follower.pk).state == "PENDING"

    array = cluster.submit(array={"size": 2}, restartable=True)
    task = Job.objects.filter(array=array).first()
    attempt = cluster.start(task)
    cluster.report(attempt, "running")
    lost(attempt)
    cluster.end(attempt, exit_code=0)
    array.refresh_from_db()
    assert array.array_counts == {"COMPLETED": 1, "PENDING": 1}


@pytest.mark.parametrize(
    "told",
    [{"exit_code": 1}, {"exit_code": None, "reason": "lease"}, {"exit_code": 0, "reason": "stopped"}, {"epoch": 7}],
    ids=["it failed", "its lease was over", "it was stopped", "another epoch"],
)
def test_another_word_changes_nothing(cluster, told):
    attempt = lost(cluster.running(restartable=True))
    assert refusals(cluster.end(attempt, **told)) == ["stale_epoch" if "epoch" in told else "ended"]
    assert job_of(attempt).state == "PENDING"


def begins_anew(cluster, attempt):
    cluster.start(attempt.job)


def begins_anew_and_is_lost_again(cluster, attempt):
    """What the second attempt wrote may stand in the place of what the first had finished."""
    lost(cluster.start(attempt.job))


def is_cancelled(cluster, attempt):
    job_cancel(job=job_of(attempt), actor=cluster.owner)


def is_profiled(cluster, attempt):
    made = Attempt.objects.get(pk=cluster.start(attempt.job).pk)
    kind = {
        "kind": Attempt.Kind.PROFILE,
        "profile_of": "job:1",
        "profile_type": cluster.node.gpu_type,
        "time_limit_s": 60,
    }
    Attempt.objects.filter(pk=made.pk).update(**kind, epoch=1)
    Job.objects.filter(pk=attempt.job_id).update(state=JobState.PENDING, epoch=1)


@pytest.mark.parametrize("happens", [begins_anew, begins_anew_and_is_lost_again, is_cancelled, is_profiled])
def test_once_it_began_anew_or_is_over_it_stays_so(cluster, happens):
    attempt = lost(cluster.running(restartable=True))
    happens(cluster, attempt)
    before = job_of(attempt).state
    assert refusals(cluster.end(attempt, exit_code=0)) == ["ended"]
    assert job_of(attempt).state == before
    assert not given.violations()


def test_what_its_node_said_of_the_end_stays(cluster):
    attempt = cluster.running(restartable=True)
    cluster.end(attempt, reason="lease", exit_code=None)
    assert job_of(attempt).state == "PENDING"
    assert refusals(cluster.end(attempt, exit_code=0)) == ["ended"]
    assert job_of(attempt).state == "PENDING"


def test_an_end_by_itself_outweighs_a_stop_that_was_asked_for(cluster):
    """As it does where the node tells in time: the order came when the job had ended."""
    attempt = cluster.running(restartable=True)
    job_requeue(job=job_of(attempt), actor=cluster.owner)
    lost(attempt)
    assert refusals(cluster.end(attempt, exit_code=0)) == []
    assert job_of(attempt).state == "COMPLETED"


def test_an_end_stays(cluster):
    attempt = cluster.running()
    node_hello(node=cluster.node, inventory=given.inventory(cluster.node, boot_id="boot-2"))
    assert job_of(attempt).state == "NODE_FAIL"
    assert refusals(cluster.end(attempt, exit_code=0)) == ["ended"]
    assert job_of(attempt).state == "NODE_FAIL"


def test_nor_where_its_other_part_had_ended_well_before(cluster):
    other = given.node_make("n2")
    attempt = cluster.running(cluster.node, other, restartable=True)
    cluster.end(attempt, exit_code=0, rank=0)
    lost(attempt)
    assert refusals(cluster.end(attempt, exit_code=0, rank=1)) == []
    assert job_of(attempt).state == "COMPLETED"


def test_the_word_of_a_profile_ends_no_job(cluster):
    attempt = cluster.running(restartable=True)
    kind = {
        "kind": Attempt.Kind.PROFILE,
        "profile_of": "job:1",
        "profile_type": cluster.node.gpu_type,
        "time_limit_s": 60,
    }
    Attempt.objects.update(**kind)
    Job.objects.update(state=JobState.PENDING)
    lost(attempt)
    assert refusals(cluster.end(attempt, exit_code=0)) == ["ended"]
    assert job_of(attempt).state == "PENDING"


@pytest.mark.parametrize("asked", [False, True], ids=["by itself", "asked to stop"])
def test_one_part_says_nothing_of_another_that_was_lost(cluster, asked):
    other = given.node_make("n2")
    attempt = cluster.running(cluster.node, other, restartable=True)
    if asked:
        job_requeue(job=job_of(attempt), actor=cluster.owner)
    lost(attempt)
    assert refusals(cluster.end(attempt, exit_code=0, rank=0)) == ["ended"]
    assert refusals(cluster.end(attempt, exit_code=0, rank=1)) == ["ended"]
    assert job_of(attempt).state == "PENDING"


def test_a_planning_at_the_same_moment_and_the_word_agree(shared_cluster):
    """Either it ends so, and nothing begins; or it has begun anew, and the word comes too late."""
    cluster = shared_cluster
    for _ in range(4):
        attempt = lost(cluster.running(restartable=True))
        given.race(lambda a=attempt: cluster.start(a.job), lambda a=attempt: cluster.end(a, exit_code=0))
        begun = Attempt.objects.live().filter(job=attempt.job_id).exists()
        assert job_of(attempt).state == ("STARTING" if begun else "COMPLETED")
        assert not given.violations()
        for again in Attempt.objects.live().filter(job=attempt.job_id):
            cluster.end(again, exit_code=0)
