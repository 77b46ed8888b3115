"""Section 7: a planning's stops and reservations, applied with its lease; an overtaken one stops nobody."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.planning.rounds.planning import apply
from portal.planning.rounds.planning.lease import lease_release, lease_take
from portal.planning.rounds.planning.queued import queue_load
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, Job, JobEvent, Promise
from portal.work.jobs.selectors import parts_wanted
from portal.work.jobs.services import job_cancel, job_hold
from scheduler import model
from tests.portal import given

ELASTIC = {"gpus": [1, 2, 4], "checkpointable": True}


class Made:
    """A plan that holds a test's values and nothing else."""

    def __init__(self, stops=(), promises=(), lapsed=(), decisions=(), reservations=()):
        self.stops, self.promises, self.lapsed = tuple(stops), tuple(promises), tuple(lapsed)
        self.decisions, self.reservations, self.profiles = tuple(decisions), tuple(reservations), ()
        self.harvests = ()


def applied(**parts):
    number = lease_take(holder="me")
    record = given.planning_record(number, timezone.now())
    apply.plan_apply(made=Made(**parts), record=record, holder="me", now=timezone.now(), queued=queue_load())
    lease_release(holder="me", number=number)
    return record


def stop(attempt, cause="resize", for_job=None, to_gpus=4):
    return model.StopOrder(attempt.job_id, cause, for_job, attempt.gpus, to_gpus)


def promise(job_id, node, gpus=4, cause="resize"):
    return model.Promised(job_id, (model.Share(node.pk, gpus, gpus, 0),), cause)


def snapshot():
    return state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))


def elastic(cluster, gpus=1, **fields):
    """A running elastic job's attempt."""
    attempt = cluster.start(cluster.submit(**ELASTIC | fields), gpus=gpus, cores=gpus)
    cluster.report(attempt, "running", pid=100)
    return attempt


def stopped(cluster, attempt, exit_code=143):
    cluster.end(attempt, reason="stopped", exit_code=exit_code)


class TestStop:
    def test_the_node_is_told_why_and_the_job_waits_again_with_its_checkpoint(self, cluster):
        attempt = elastic(cluster)
        record = applied(stops=[stop(attempt)])
        wanted = parts_wanted(node_id=cluster.node.pk)["attempts"][0]
        assert (wanted["action"], wanted["stop_reason"]) == ("stop", "preempt")
        assert Job.objects.get().state == "RUNNING", "it ends when its node says so"
        stopped(cluster, attempt)
        job = Job.objects.get()
        assert (job.state, job.epoch, job.checkpoint_domain) == ("PENDING", 1, "node:n1")
        assert (job.preemptions, job.failures, job.requeues) == (1, 0, 0)
        attempt.refresh_from_db()
        assert (attempt.state, attempt.stop_cause, attempt.stop_to_gpus) == ("PREEMPTED", "resize", 4)
        assert list(
            JobEvent.objects.filter(kind__in=["stop-ordered", "preempted"]).order_by("pk").values_list("kind")
        ) == [
            ("stop-ordered",),
            ("preempted",),
        ]
        assert record.stops == [
            {"job": job.pk, "cause": "resize", "for_job": None, "from_gpus": 1, "to_gpus": 4, "ordered": True}
        ]
        assert cluster.start(job, gpus=4, cores=4).epoch == 2
        assert not given.violations()

    def test_stops_never_use_up_retries_or_requeues(self, cluster):
        attempt = elastic(cluster, retries=0, max_requeues=0)
        for _ in range(3):
            applied(stops=[stop(attempt)])
            stopped(cluster, attempt)
            attempt = cluster.start(Job.objects.get())
            cluster.report(attempt, "running", pid=7)
        job = Job.objects.get()
        assert (job.state, job.preemptions, job.epoch) == ("RUNNING", 3, 4)

    def test_a_job_that_ended_meanwhile_is_left_alone(self, cluster):
        attempt = elastic(cluster)
        cluster.end(attempt)
        record = applied(stops=[stop(attempt)], promises=[promise(attempt.job_id, cluster.node)])
        assert [entry["ordered"] for entry in record.stops] == [False]
        assert record.promises == []
        assert Job.objects.get().state == "COMPLETED"
        assert not Promise.objects.exists()

    def test_a_job_that_may_run_only_once_is_never_stopped(self, cluster):
        attempt = cluster.running()
        assert not applied(stops=[stop(attempt)]).stops[0]["ordered"]
        assert Attempt.objects.get().stop_reason == ""

    def test_a_cancelled_job_stays_cancelled(self, cluster):
        attempt = elastic(cluster)
        job_cancel(job=attempt.job, actor=cluster.owner)
        assert not applied(stops=[stop(attempt)]).stops[0]["ordered"]
        assert Attempt.objects.get().stop_reason == "cancel"
        stopped(cluster, attempt)
        assert Job.objects.get().state == "CANCELLED"

    def test_one_that_completes_while_it_is_being_stopped_is_complete(self, cluster):
        attempt = elastic(cluster)
        applied(stops=[stop(attempt)], promises=[promise(attempt.job_id, cluster.node)])
        cluster.end(attempt, reason="exit", exit_code=0)
        assert Job.objects.get().state == "COMPLETED"
        assert not Promise.objects.exists()

    def test_the_next_planning_sees_it_stopping(self, cluster):
        attempt = elastic(cluster)
        assert not snapshot().running[0].stopping
        applied(stops=[stop(attempt)])
        assert snapshot().running[0].stopping

    def test_another_tenants_job_has_no_number_in_what_is_said(self, cluster):
        attempt = elastic(cluster)
        foreign = given.Tenant.objects.create(name="other-lab")
        owner = cluster.submit(user=given.member("otto", foreign), tenant=foreign.name)
        applied(stops=[stop(attempt, "call-back", owner.pk, 0)])
        text = JobEvent.objects.get(kind="stop-ordered").text
        assert text.startswith("Called back for a job of another tenant, planning ")
        assert str(owner.pk) not in text.split("planning")[0]


class TestOvertaken:
    def order(self, cluster, monkeypatch=None):
        attempt = elastic(cluster)
        number = lease_take(holder="me")
        lease_release(holder="me", number=number)
        assert lease_take(holder="the next one") == number + 1
        record = given.planning_record(number, timezone.now())
        made = Made(stops=[stop(attempt)], promises=[promise(attempt.job_id, cluster.node)])
        apply.plan_apply(made=made, record=record, holder="me", now=timezone.now(), queued=queue_load())
        return record

    def test_it_stops_nobody_and_keeps_nothing(self, cluster):
        assert self.order(cluster).status == "superseded"
        assert Attempt.objects.get().stop_reason == ""
        assert not Promise.objects.exists()

    def test_without_the_check_it_would(self, cluster, monkeypatch):
        monkeypatch.setattr(apply, "lease_confirm", lambda **_: True)
        self.order(cluster)
        assert Attempt.objects.get().stop_reason == "preempt"


class TestPromise:
    def test_it_is_given_to_a_waiting_job_and_comes_back_with_the_snapshot(self, cluster):
        job = cluster.submit(gpus=4)
        record = applied(promises=[promise(job.pk, cluster.node, cause="call-back")])
        assert record.promises[0]["job"] == job.pk
        found = snapshot().jobs[0].promise
        assert found.shares == (model.Share(cluster.node.pk, 4, 4, 0),)
        assert found.cause == "call-back"
        assert abs(found.given_s - timezone.now().timestamp()) < 60

    def test_a_job_being_resized_has_it_while_it_still_runs(self, cluster):
        attempt = elastic(cluster)
        applied(stops=[stop(attempt)], promises=[promise(attempt.job_id, cluster.node)])
        assert snapshot().running[0].description.promise is not None
        stopped(cluster, attempt)
        assert snapshot().jobs[0].promise is not None

    def test_a_running_job_that_nobody_stops_gets_none(self, cluster):
        attempt = elastic(cluster)
        assert applied(promises=[promise(attempt.job_id, cluster.node)]).promises == []

    def test_a_second_one_takes_the_firsts_place(self, cluster):
        job = cluster.submit(gpus=[2, 4])
        applied(promises=[promise(job.pk, cluster.node, 4)])
        applied(promises=[promise(job.pk, cluster.node, 2)])
        assert [row.shares[0][1] for row in Promise.objects.all()] == [2]

    @pytest.mark.parametrize("way", ["start", "cancel", "hold", "lapse"])
    def test_it_is_withdrawn(self, cluster, way):
        job = cluster.submit(gpus=1)
        applied(promises=[promise(job.pk, cluster.node, 1)])
        assert Promise.objects.exists()
        if way == "start":
            piece = model.Piece(cluster.node.pk, (0,), (0,), 0)
            placed = model.Placement(job.pk, (piece,))
            decision = model.Decision(job.pk, model.Result.PLACED, None, {}, placement=placed)
            assert applied(decisions=[decision]).placed == 1
        elif way == "cancel":
            job_cancel(job=job, actor=cluster.owner)
        elif way == "hold":
            job_hold(job=job, actor=cluster.owner)
        else:
            assert applied(lapsed=[job.pk]).lapsed == [job.pk]
        assert not Promise.objects.exists()

    def test_cancelling_a_job_that_is_being_resized_withdraws_it_at_once(self, cluster):
        attempt = elastic(cluster)
        applied(stops=[stop(attempt)], promises=[promise(attempt.job_id, cluster.node)])
        job_cancel(job=attempt.job, actor=cluster.owner)
        assert not Promise.objects.exists()

    def test_a_held_job_gets_none(self, cluster):
        job = cluster.submit(gpus=1)
        job_hold(job=job, actor=cluster.owner)
        assert applied(promises=[promise(job.pk, cluster.node, 1)]).promises == []

    def test_reservations_are_kept_for_the_pages(self, cluster):
        job = cluster.submit(gpus=4)
        kept = model.Kept(job.pk, (cluster.node.pk,), 1_800_000_000.0)
        assert applied(reservations=[kept]).reservations == [
            {"job": job.pk, "nodes": [cluster.node.pk], "until": "2027-01-15T08:00:00+00:00"}
        ]


class TestRestart:
    """Section 6: S, measured per job."""

    @pytest.mark.parametrize(("cause", "expected_s"), [("resize", 3600.0), ("call-back", 600.0), ("preempt", 600.0)])
    def test_a_jobs_time_in_the_queue_counts_only_when_it_was_to_go_straight_on(self, cluster, cause, expected_s):
        attempt = elastic(cluster)
        applied(stops=[stop(attempt, cause)])
        now = timezone.now()
        ago = lambda seconds: now - timedelta(seconds=seconds)  # noqa: E731
        Attempt.objects.filter(pk=attempt.pk).update(stop_at=ago(3600), created_at=ago(6000), started_at=ago(5600))
        cluster.end(attempt, reason="stopped", exit_code=143, at=ago(3200).timestamp())
        second = cluster.start(Job.objects.get(), gpus=4, cores=4)
        Attempt.objects.filter(pk=second.pk).update(created_at=ago(200))
        cluster.report(second, "running", pid=9)
        job = Job.objects.get()
        assert job.restart_s == pytest.approx(expected_s, abs=100)
        live = snapshot().running[0]
        assert (live.restarts, live.restart_s) == (1, job.restart_s)
        assert live.first_started_s == job.started_at.timestamp()

    def test_a_lost_node_is_no_measure_of_it(self, cluster):
        attempt = elastic(cluster)
        cluster.end(attempt, reason="lost", exit_code=None)
        second = cluster.start(Job.objects.get())
        cluster.report(second, "running", pid=9)
        assert Job.objects.get().restart_s is None

    def test_who_gave_back_stands_at_the_head_until_it_starts_again(self, cluster):
        attempt = elastic(cluster)
        applied(stops=[stop(attempt, "call-back", None, 0)])
        stopped(cluster, attempt)
        assert snapshot().jobs[0].gave_back
        second = cluster.start(Job.objects.get())
        cluster.report(second, "running", pid=9)
        applied(stops=[stop(second, "preempt", None, 0)])
        stopped(cluster, second)
        assert not snapshot().jobs[0].gave_back


class TestAtOnce:
    """Invariants 1, 2 and 4 while a stop meets the job's own end, a cancel or a report, each in its own connection."""

    def raced(self, cluster, other):
        attempt = elastic(cluster)
        number = lease_take(holder="me")
        record = given.planning_record(number, timezone.now())
        made = Made(stops=[stop(attempt)], promises=[promise(attempt.job_id, cluster.node)])
        order = lambda: apply.plan_apply(made=made, record=record, holder="me", now=timezone.now(), queued=queue_load())  # noqa: E731
        results = given.race(order, lambda: other(attempt))
        assert not [each for each in results if isinstance(each, BaseException)], results
        assert not given.violations()
        return attempt, Job.objects.get()

    @pytest.mark.parametrize("_", range(3))
    def test_its_own_end(self, shared_cluster, _):
        _, job = self.raced(shared_cluster, shared_cluster.end)
        assert (job.state, job.preemptions) == ("COMPLETED", 0)
        assert not Promise.objects.exists(), "nothing is kept for a job that is over"

    @pytest.mark.parametrize("_", range(3))
    def test_a_cancel(self, shared_cluster, _):
        cancel = lambda attempt: job_cancel(job=attempt.job, actor=shared_cluster.owner)  # noqa: E731
        attempt, job = self.raced(shared_cluster, cancel)
        attempt.refresh_from_db()
        assert (job.state, attempt.stop_reason) == ("RUNNING", "cancel")
        assert not Promise.objects.exists()
        stopped(shared_cluster, attempt)
        assert Job.objects.get().state == "CANCELLED"


def test_the_events_of_a_stop_say_each_thing_once(cluster):
    """Seen: the same line twice, "Attempt 1 ended: preempted, preempt; waits again."."""
    attempt = elastic(cluster)
    applied(stops=[stop(attempt)])
    stopped(cluster, attempt)
    said = list(JobEvent.objects.filter(job=attempt.job_id).order_by("-id").values_list("text", flat=True)[:2])
    assert said == ["Waits again.", "Attempt 1 ended: preempted."]
