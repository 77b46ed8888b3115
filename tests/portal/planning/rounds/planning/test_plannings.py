"""Invariants 6 and 7: plannings never overlap, an overtaken one applies nothing, and a killed process loses nothing."""

import gc
from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from portal.foundation.events import relay
from portal.foundation.events.models import OutboxMessage
from portal.planning.rounds.models import Planning, PlanningLease
from portal.planning.rounds.planning import apply
from portal.planning.rounds.planning import run as planning
from portal.planning.rounds.planning.lease import lease_confirm, lease_release, lease_take, planned_since
from portal.planning.rounds.planning.queued import queue_load
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.services import ending as ending_module
from portal.work.jobs.services import leases, placing
from portal.work.jobs.services import parts as parts_module
from portal.work.jobs.services import submission as submission_module
from scheduler.model import Plan
from scheduler.planning.plan import plan
from tests.portal import given
from tests.real_ends import real_end


class Killed(BaseException):
    """Stands for kill -9 at a point: nothing catches it, and uncommitted rows are gone."""


def take(holder="me"):
    return lease_take(holder=holder)


def test_a_planning_places_and_records(cluster):
    first, second, third = [cluster.submit(gpus=n, cores_per_gpu=1) for n in (1, 2, 4)]
    made = planning_run()
    assert (made.status, made.placed, made.dropped) == ("applied", 2, 0)
    assert [Job.objects.get(pk=job.pk).state for job in (first, second)] == ["STARTING"] * 2
    third.refresh_from_db()
    assert (third.state, third.reason) == ("PENDING", "lost-to-higher-priority")
    assert not given.violations()


def test_the_cycle_collector_rests_during_a_planning_and_goes_on_after_it(cluster, monkeypatch):
    seen = []
    monkeypatch.setattr(planning, "snapshot_load", lambda **_: seen.append(gc.isenabled()) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        planning_run()
    assert seen == [False]
    assert gc.isenabled()


def test_the_plan_is_gone_when_the_cycle_collector_comes_back(cluster, monkeypatch):
    """It would walk over all that is young, and 100 000 decisions are."""
    cluster.submit(gpus=1)
    alive, collector, enable = [], gc.isenabled(), gc.enable
    monkeypatch.setattr(gc, "enable", lambda: alive.append(plans_alive()) or enable())
    before = plans_alive()
    planning_run()
    assert collector
    assert alive == [before]


def plans_alive():
    return sum(type(each) is Plan for each in gc.get_objects())  # isinstance would ask a dead weak proxy for its class


class TestLease:
    def test_one_holder_and_word_is_left(self, cluster):
        number = take()
        assert take("other") is None
        assert lease_release(holder="me", number=number) is True, "the other one's nudge is handed on"
        assert take("other") == number + 1
        assert lease_release(holder="other", number=number + 1) is False

    def test_a_killed_holder_is_replaced_after_its_time(self, cluster):
        number = take()
        PlanningLease.objects.update(until=timezone.now() - timedelta(seconds=1))
        assert take("other") == number + 1
        assert not lease_confirm(holder="me", number=number)
        assert not lease_release(holder="me", number=number)
        assert lease_confirm(holder="other", number=number + 1)

    def test_eight_at_once_one_gets_it(self, shared_cluster):
        results = given.race(*[lambda n=n: take(f"holder-{n}") for n in range(8)])
        assert [each for each in results if each is not None] == [1], results
        lease = PlanningLease.objects.get()
        assert lease.again, (lease.holder, lease.until, lease.number, timezone.now())

    def test_without_the_condition_two_hold_it(self, cluster):
        first = take()
        PlanningLease.objects.update(until=None)  # the condition looks at it
        assert take("other") == first + 1

    def test_a_nudge_older_than_the_last_look_is_heeded_already(self, cluster):
        before = timezone.now()
        planning_run()
        assert planned_since(before)
        assert planning_run(nudged_at=before) is None
        assert planning_run(nudged_at=timezone.now()) is not None

    def test_plannings_at_once_place_each_job_once(self, shared_cluster):
        cluster = shared_cluster
        for _ in range(4):
            cluster.submit(cores_per_gpu=1)
        results = given.race(*[planning_run] * 4)
        assert not [each for each in results if isinstance(each, BaseException)], results
        planning_run()
        assert Attempt.objects.count() == 4
        assert not given.violations()


class TestOvertaken:
    def overtaken(self, monkeypatch):
        original = planning.plan

        def slow(*arguments, **keywords):
            made = original(*arguments, **keywords)
            PlanningLease.objects.update(until=timezone.now() - timedelta(seconds=1))
            assert take("the next one")
            return made

        monkeypatch.setattr(planning, "plan", slow)

    def test_it_applies_nothing(self, cluster, monkeypatch):
        job = cluster.submit()
        self.overtaken(monkeypatch)
        assert planning_run().status == Planning.Status.SUPERSEDED
        assert not Attempt.objects.exists()
        job.refresh_from_db()
        assert (job.state, job.reason) == ("PENDING", "not-planned-yet")

    def test_without_the_check_it_would_apply(self, cluster, monkeypatch):
        cluster.submit()
        self.overtaken(monkeypatch)
        monkeypatch.setattr(apply, "lease_confirm", lambda **_: True)
        assert planning_run().status == Planning.Status.APPLIED
        assert Attempt.objects.exists()


def made_plan():
    parameters = scheduler_parameters(knobs_current())
    now = timezone.now()
    state = state_load(now=now, parameters=parameters)
    return plan(state, now.timestamp(), parameters, np.random.default_rng(1), lambda: 0.0), now


def test_applying_again_changes_nothing(cluster):
    cluster.submit()
    cluster.submit(gpus=4)
    made, now = made_plan()
    number = take()
    record = given.planning_record(number, now)
    apply.plan_apply(made=made, record=record, holder="me", now=now, queued=queue_load())
    before = [list(model.objects.order_by("pk").values()) for model in (Job, Attempt, placing.Allocation)]
    again = given.planning_record(number, now)
    apply.plan_apply(made=made, record=again, holder="me", now=now, queued=queue_load())
    assert [list(model.objects.order_by("pk").values()) for model in (Job, Attempt, placing.Allocation)] == before
    assert (record.status, record.placed) == ("applied", 1)
    assert (again.status, again.placed) == ("superseded", 0)


def test_a_stale_plan_drops_what_no_longer_fits_and_places_the_rest(cluster):
    gone, stays = cluster.submit(gpus=1), cluster.submit(gpus=1)
    made, now = made_plan()
    Job.objects.filter(pk=gone.pk).update(state="HELD", waiting_since=None)
    record = given.planning_record(take(), now)
    apply.plan_apply(made=made, record=record, holder="me", now=now, queued=queue_load())
    assert (record.placed, record.dropped) == (1, 1)
    stays.refresh_from_db()
    assert stays.state == "STARTING"


def test_a_failed_planning_is_recorded_and_gives_the_lease_back(cluster, monkeypatch):
    def broken(**_):
        raise RuntimeError("disk full")

    monkeypatch.setattr(planning, "plan_apply", broken)
    with pytest.raises(RuntimeError):
        planning_run()
    record = Planning.objects.get()
    assert (record.status, record.error) == ("failed", "RuntimeError: disk full")
    assert take() == record.number + 1


def kill_at(monkeypatch, module, name, *, after=False, call=1):
    """Kill the process at the `call`-th call of module.name, before or after what it does."""
    original = getattr(module, name)
    calls = []

    def killed(*arguments, **keywords):
        calls.append(name)
        if len(calls) == call and not after:
            raise Killed
        found = original(*arguments, **keywords)
        if len(calls) == call:
            raise Killed
        return found

    monkeypatch.setattr(module, name, killed)


PLANNING_POINTS = [
    (planning, "snapshot_load", False),
    (planning, "plan", True),
    (apply, "attempts_start", False),
    (apply, "attempts_start", True),
    (placing, "gpus_take", True),
    (apply, "waiting_note", True),
    (planning, "_save", False),
]
REPORT_POINTS = [
    (parts_module, "part_end", False),
    (parts_module, "attempt_settle", False),
    (parts_module, "attempt_settle", True),
    (ending_module, "job_move", False),
    (ending_module, "job_move", True),
]


class TestKilled:
    """Invariant 7: after any death the next process goes on from the database, and from nothing else."""

    @pytest.mark.parametrize(("module", "name", "after"), PLANNING_POINTS)
    def test_a_planner(self, shared_cluster, monkeypatch, module, name, after):
        cluster = shared_cluster
        jobs = [cluster.submit(cores_per_gpu=1) for _ in range(3)]
        with monkeypatch.context() as patched:
            # kill -9 gives no lease back either
            patched.setattr(planning, "lease_release", lambda **_: False)
            kill_at(patched, module, name, after=after)
            with pytest.raises(Killed):
                planning_run()
        assert not given.violations()
        assert planning_run() is None, "the dead planner's lease still holds"
        PlanningLease.objects.update(until=timezone.now() - timedelta(seconds=1))
        planning_run()
        assert set(Job.objects.values_list("state", flat=True)) == {"STARTING"}
        assert Attempt.objects.count() == len(jobs)
        assert not given.violations()

    @pytest.mark.parametrize(("module", "name", "after"), REPORT_POINTS)
    def test_a_portal_in_a_report(self, shared_cluster, monkeypatch, module, name, after):
        cluster = shared_cluster
        attempt = cluster.running()
        message = given.report(given.key_of(attempt), "ended", sequence=9, **real_end())
        with monkeypatch.context() as patched:
            kill_at(patched, module, name, after=after)
            with pytest.raises(Killed):
                given.heard(node=cluster.node, reports=[message], holding=[])
        assert Job.objects.get().state == "RUNNING"
        assert not given.violations()
        assert given.heard(node=cluster.node, reports=[message], holding=[])["accepted"], "the agent sends it again"
        assert Job.objects.get().state == "COMPLETED"

    @pytest.mark.parametrize(("name", "after"), [("event_record", True), ("plan_nudge", False), ("plan_nudge", True)])
    def test_a_portal_in_a_submit(self, shared_cluster, monkeypatch, name, after):
        cluster = shared_cluster
        description = {"command": "true", "gpus": 1}

        def submit():
            return submission_module.job_submit(user=cluster.owner, description=description, idempotency_key="k")

        with monkeypatch.context() as patched:
            kill_at(patched, submission_module, name, after=after)
            with pytest.raises(Killed):
                submit()
        assert (Job.objects.count(), OutboxMessage.objects.count()) == (0, 0), "neither the job nor its nudge"
        first = submit()
        assert submit().pk == first.pk, "the retry of a lost answer makes no second job"
        assert OutboxMessage.objects.filter(topic="plan").count() == 1

    def test_a_reconciler_between_two_lost_parts(self, shared_cluster, monkeypatch):
        cluster = shared_cluster
        attempts = [cluster.running(restartable=True) for _ in range(3)]
        placing.Allocation.objects.update(lease_until=timezone.now() - timedelta(hours=1))
        with monkeypatch.context() as patched:
            kill_at(patched, leases, "part_lose", call=2)
            with pytest.raises(Killed):
                leases.leases_expire(grace_s=1)
        assert not given.violations()
        assert leases.leases_expire(grace_s=1) == len(attempts) - 1

    def test_a_relay_between_publishing_and_deleting(self, shared_cluster, monkeypatch, broker_settings):
        shared_cluster.submit()
        rows = OutboxMessage.objects.count()
        with monkeypatch.context() as patched:
            kill_at(patched, relay.Publisher, "publish", after=True)
            with pytest.raises(Killed):
                relay.drain()
        assert OutboxMessage.objects.count() == rows
        assert relay.drain() == rows
        assert not OutboxMessage.objects.exists()
