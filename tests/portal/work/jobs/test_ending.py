"""How attempts end, and what their jobs do next (algorithms, section 1)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.work.jobs.models import Attempt, Job, JobEvent
from portal.work.jobs.selectors import parts_wanted
from portal.work.jobs.serializers.jobs import JobSerializer
from portal.work.jobs.services import job_cancel, job_requeue, node_parts_lose
from portal.work.jobs.services.control import attempt_stop
from portal.work.jobs.services.ending import attempt_end_state
from portal.work.jobs.states import FINAL, StopReason
from tests.portal import given

OK, BAD = ("exit", 0), ("exit", 1)
STOPPED = ("stopped", None)


ENDS = [
    ([OK], "", "COMPLETED"),
    ([OK, OK], "", "COMPLETED"),
    ([BAD], "", "FAILED"),
    ([("exit", None)], "", "FAILED"),
    ([("start_failed", None)], "", "FAILED"),
    ([("out_of_memory", None)], "", "OUT_OF_MEMORY"),
    ([("time_limit", None)], "", "TIMEOUT"),
    ([("lost", None)], "", "NODE_FAIL"),
    ([("lease", None)], "", "NODE_FAIL"),
    ([("tenant_not_trusted", None)], "", "NODE_FAIL"),
    ([STOPPED], "cancel", "CANCELLED"),
    ([STOPPED], "preempt", "PREEMPTED"),
    ([STOPPED], "requeue", "PREEMPTED"),
    ([STOPPED, STOPPED], "partner", "NODE_FAIL"),
    ([OK], "cancel", "COMPLETED"),
    ([OK], "preempt", "COMPLETED"),
    ([BAD], "cancel", "FAILED"),
    ([("lost", None)], "cancel", "CANCELLED"),
    ([("out_of_memory", None)], "cancel", "OUT_OF_MEMORY"),
    ([BAD, STOPPED], "partner", "FAILED"),
    ([("out_of_memory", None), STOPPED], "partner", "OUT_OF_MEMORY"),
    ([("time_limit", None), STOPPED], "partner", "TIMEOUT"),
    ([("lost", None), STOPPED], "partner", "NODE_FAIL"),
    ([OK, STOPPED], "preempt", "PREEMPTED"),
    ([BAD, ("out_of_memory", None)], "", "OUT_OF_MEMORY"),
    ([STOPPED], "", "NODE_FAIL"),
]


def test_attempt_end_state(subtests):
    for ends, stop, expected in ENDS:
        with subtests.test(ends=ends, stop=stop):
            assert attempt_end_state(parts=ends, stop_reason=stop) == expected


def test_an_end_that_came_before_the_portal_heard_of_the_start_took_no_time(cluster):
    attempt = cluster.running()
    cluster.end(attempt, at=attempt.created_at.timestamp())
    ended = Attempt.objects.get()
    assert ended.started_at > attempt.created_at
    assert ended.ended_at == ended.started_at


@pytest.mark.parametrize("wrong_by", [timedelta(days=1), timedelta(days=-1)], ids=["a day ahead", "a day behind"])
def test_an_end_of_a_node_with_a_wrong_clock_is_when_the_portal_hears_of_it(cluster, wrong_by):
    attempt = cluster.running()
    before = timezone.now()
    cluster.end(attempt, at=(before + wrong_by).timestamp())
    assert before <= Attempt.objects.get().ended_at <= timezone.now()


def job_of(attempt):
    return Job.objects.get(pk=attempt.job_id)


@pytest.mark.parametrize(
    "reason", ["exit", "time_limit", "out_of_memory", "start_failed", "lost", "tenant_not_trusted"]
)
@pytest.mark.parametrize("exit_code", [0, 1])
def test_an_end_without_a_start_ends_the_job_too(cluster, reason, exit_code):
    """The running report was never accepted: the agent was away, or the job was too short."""
    attempt = cluster.started(max_requeues=0)
    cluster.end(attempt, reason=reason, exit_code=exit_code)
    job = job_of(attempt)
    assert job.state in FINAL, job.state
    assert not given.violations()


def test_exit_code_and_detail_are_kept(cluster):
    attempt = cluster.running()
    cluster.end(attempt, exit_code=3, detail="its own words")
    job = job_of(attempt)
    assert (job.state, job.exit_code, job.end_detail) == ("FAILED", 3, "its own words")


def test_a_signal_is_kept_and_told(cluster):
    attempt = cluster.running()
    cluster.end(attempt, signal=9)
    job = job_of(attempt)
    attempt.refresh_from_db()
    assert (job.state, job.exit_code, job.signal, job.end_detail) == ("FAILED", None, 9, "signal 9")
    assert (attempt.exit_code, attempt.signal, attempt.end_detail) == (None, 9, "")
    assert attempt.allocations.get().signal == 9
    told = JobSerializer(job, context={"request": None}).data
    assert (told["exit_code"], told["signal"]) == (None, 9)
    assert JobEvent.objects.filter(job=job, text="Attempt 1 ended: failed, signal 9.").exists()


@pytest.mark.parametrize("first", ["stopped", "failed"])
def test_of_several_parts_the_one_that_failed_tells_how_it_ended(cluster, first):
    other = given.node_make("n2")
    attempt = cluster.running(cluster.node, other)
    ends = {"stopped": {"rank": 0, "reason": "stopped", "detail": "partner"}, "failed": {"rank": 1, "signal": 11}}
    Attempt.objects.filter(pk=attempt.pk).update(stop_reason=StopReason.PARTNER)
    for name in (first, *(ends.keys() - {first})):
        cluster.end(attempt, **ends[name])
    job = job_of(attempt)
    assert (job.state, job.signal, job.end_detail) == ("FAILED", 11, "signal 11")


def test_a_job_that_was_cancelled_tells_no_signal_as_its_cause(cluster):
    attempt = cluster.running()
    attempt_stop(job_id=attempt.job_id, reason=StopReason.CANCEL)
    cluster.end(attempt, reason="stopped", detail="cancel")
    job = job_of(attempt)
    assert (job.state, job.signal, job.end_detail) == ("CANCELLED", 15, "")
    assert JobEvent.objects.filter(job=job, text="Attempt 1 ended: cancelled.").exists()


def test_retries_count_failures_and_memory(cluster):
    job = cluster.submit(retries=2)
    for reason, expected in (("exit", "PENDING"), ("out_of_memory", "PENDING"), ("exit", "FAILED")):
        attempt = cluster.start(job)
        cluster.report(attempt, "running")
        cluster.end(attempt, reason=reason, exit_code=1)
        assert job_of(attempt).state == expected
    job.refresh_from_db()
    assert (job.failures, job.requeues, job.preemptions, job.epoch) == (2, 0, 0, 3)


def test_a_time_limit_is_no_failure_to_retry(cluster):
    attempt = cluster.running(retries=5)
    cluster.end(attempt, reason="time_limit", exit_code=None)
    assert job_of(attempt).state == "TIMEOUT"


def test_preemption_counts_in_neither(cluster):
    attempt = cluster.running(checkpointable=True, retries=0, max_requeues=0)
    attempt_stop(job_id=attempt.job_id, reason=StopReason.PREEMPT)
    cluster.end(attempt, reason="stopped", exit_code=None)
    job = job_of(attempt)
    assert (job.state, job.failures, job.requeues, job.preemptions) == ("PENDING", 0, 0, 1)
    assert job.checkpoint_domain == "node:n1"
    assert JobEvent.objects.filter(job=job, kind="preempted").exists()


def test_what_was_not_trusted_never_ran_and_waits_again_though_not_requeueable(cluster):
    attempt = cluster.started()
    cluster.end(attempt, reason="tenant_not_trusted", exit_code=None)
    job = job_of(attempt)
    assert (job.state, job.requeues) == ("PENDING", 1)


def test_requeue_by_hand(cluster):
    attempt = cluster.running(restartable=True)
    job_requeue(job=attempt.job, actor=cluster.owner)
    wanted = parts_wanted(node_id=cluster.node.pk)["attempts"]
    assert (wanted[0]["action"], wanted[0]["stop_reason"]) == ("stop", "requeue")
    cluster.end(attempt, reason="stopped", exit_code=None)
    assert (job_of(attempt).state, job_of(attempt).preemptions) == ("PENDING", 1)


class TestCancelAgainstTheEnd:
    def test_cancel_then_stopped(self, cluster):
        attempt = cluster.running(restartable=True, retries=3)
        job_cancel(job=attempt.job, actor=cluster.owner)
        assert job_of(attempt).state == "RUNNING"
        cluster.end(attempt, reason="stopped", exit_code=None)
        assert job_of(attempt).state == "CANCELLED"

    @pytest.mark.parametrize(("exit_code", "expected"), [(0, "COMPLETED"), (1, "CANCELLED")])
    def test_cancel_then_its_own_end(self, cluster, exit_code, expected):
        attempt = cluster.running(restartable=True, retries=3)
        job_cancel(job=attempt.job, actor=cluster.owner)
        cluster.end(attempt, exit_code=exit_code)
        assert job_of(attempt).state == expected

    def test_cancel_then_lost(self, cluster):
        attempt = cluster.running(restartable=True)
        job_cancel(job=attempt.job, actor=cluster.owner)
        node_parts_lose(node=cluster.node, detail="rebooted")
        assert job_of(attempt).state == "CANCELLED"

    def test_cancel_outweighs_preempt_and_requeue(self, cluster):
        attempt = cluster.running(restartable=True)
        job_requeue(job=attempt.job, actor=cluster.owner)
        job_cancel(job=attempt.job, actor=cluster.owner)
        assert Attempt.objects.get().stop_reason == "cancel"

    def test_both_at_once(self, shared_cluster):
        cluster = shared_cluster
        attempts = [cluster.running(gpus=0) for _ in range(4)]
        calls = [lambda a=a: job_cancel(job=a.job, actor=cluster.owner) for a in attempts]
        calls += [lambda a=a: cluster.end(a, exit_code=1) for a in attempts]
        results = given.race(*calls)
        unexpected = [r for r in results if isinstance(r, BaseException) and getattr(r, "code", "") != "terminal_state"]
        assert not unexpected
        assert {job.state for job in Job.objects.all()} <= {"CANCELLED", "FAILED"}
        assert not given.violations()


class TestDependencies:
    def after(self, cluster, job, kind="ok", **more):
        return cluster.submit(depends_on=[{"job": job.pk, "kind": kind}], **more)

    @pytest.mark.parametrize(
        ("exit_code", "kind", "expected"), [(0, "ok", "PENDING"), (1, "ok", "CANCELLED"), (1, "any", "PENDING")]
    )
    def test_what_waits_follows(self, cluster, exit_code, kind, expected):
        attempt = cluster.running()
        waiting = self.after(cluster, attempt.job, kind)
        assert (waiting.reason, waiting.waiting_since) == ("dependency", None)
        cluster.end(attempt, exit_code=exit_code)
        waiting.refresh_from_db()
        assert waiting.state == expected

    def test_a_chain_and_an_array_are_cancelled_whole(self, cluster):
        attempt = cluster.running()
        array = self.after(cluster, attempt.job, array={"size": 300})
        last = self.after(cluster, array)
        cluster.end(attempt, exit_code=1)
        states = set(Job.objects.exclude(pk=attempt.job_id).values_list("state", flat=True))
        assert states == {"CANCELLED"}
        last.refresh_from_db()
        assert f"job {array.pk} did not complete" in last.end_detail
        assert not given.violations()

    def test_one_that_fails_while_it_is_submitted(self, shared_cluster):
        """Whichever comes first: the dependant is refused or cancelled, never left waiting for ever."""
        cluster = shared_cluster
        for _ in range(4):
            attempt = cluster.running()
            results = given.race(
                lambda a=attempt: cluster.end(a, exit_code=1), *[lambda a=attempt: self.after(cluster, a.job)] * 3
            )
            for each in results[1:]:
                if isinstance(each, Job):
                    each.refresh_from_db()
                    assert each.state == "CANCELLED", results
                else:
                    assert each.code == "dependency_failed", results


class TestSeveralNodes:
    @pytest.fixture
    def pair(self, cluster):
        cluster.other = given.node_make("n2")
        return cluster.started(cluster.node, cluster.other, gpus=2, restartable=True)

    def wanted(self, cluster):
        return [parts_wanted(node_id=n.pk)["attempts"] for n in (cluster.node, cluster.other)]

    def test_go_once_all_are_prepared(self, cluster, pair):
        assert [w[0]["go"] for w in self.wanted(cluster)] == [False, False]
        cluster.report(pair, "prepared", rank=0)
        assert [w[0]["go"] for w in self.wanted(cluster)] == [False, False]
        revisions = [parts_wanted(node_id=n.pk)["revision"] for n in (cluster.node, cluster.other)]
        cluster.report(pair, "prepared", rank=1)
        assert [w[0]["go"] for w in self.wanted(cluster)] == [True, True]
        assert all(
            parts_wanted(node_id=n.pk)["revision"] > r
            for n, r in zip((cluster.node, cluster.other), revisions, strict=True)
        )
        cluster.report(pair, "running", rank=0)
        assert job_of(pair).state == "STARTING"
        cluster.report(pair, "running", rank=1)
        assert job_of(pair).state == "RUNNING"
        cluster.end(pair, rank=0)
        assert job_of(pair).state == "RUNNING"
        cluster.end(pair, rank=1)
        assert job_of(pair).state == "COMPLETED"
        assert not given.violations()

    def test_one_ended_before_the_other_said_running(self, cluster, pair):
        cluster.report(pair, "running", rank=0)
        cluster.end(pair, rank=0)
        cluster.report(pair, "running", rank=1)
        assert job_of(pair).state == "RUNNING"

    @pytest.mark.parametrize("started", [True, False])
    def test_one_fails_and_its_partner_is_stopped(self, cluster, pair, started):
        for rank in (0, 1) if started else ():
            cluster.report(pair, "running", rank=rank)
        cluster.end(pair, rank=1, reason="exit" if started else "start_failed", exit_code=7)
        first, second = self.wanted(cluster)
        assert (first[0]["action"], first[0]["stop_reason"], second) == ("stop", "partner", [])
        cluster.end(pair, rank=0, reason="stopped", exit_code=None)
        job = job_of(pair)
        assert (job.state, job.exit_code) == ("FAILED", 7)
        assert not given.violations()

    def test_one_node_lost(self, cluster, pair):
        for rank in (0, 1):
            cluster.report(pair, "running", rank=rank)
        node_parts_lose(node=cluster.other, detail="n2 rebooted")
        assert self.wanted(cluster)[0][0]["action"] == "stop"
        assert job_of(pair).state == "RUNNING", "the partner still runs: not before it is stopped"
        cluster.end(pair, rank=0, reason="stopped", exit_code=None)
        assert (job_of(pair).state, job_of(pair).requeues) == ("PENDING", 1)
        assert not given.violations()
