"""The clock of the portal's machine is set: forward it ends nobody, back nothing waits until it has come there again."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django_celery_beat.models import PeriodicTask, PeriodicTasks

from portal.cluster.models import Node
from portal.cluster.services.contact import node_seen
from portal.foundation.beat import LivingScheduler
from portal.foundation.celery import app
from portal.operate.health import health
from portal.people.tenants.models import Tenant
from portal.planning.rounds.asking.forecasting import forecasts_refresh
from portal.planning.rounds.models import Planning, PlanningLease, Round
from portal.planning.rounds.planning import lease
from portal.planning.rounds.planning.lease import REST_MOST_S, errand, errand_rest
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.settings.leaps import leap_now, leap_problems
from portal.planning.rounds.settings.schedule import BY_AGE, FIXED_S
from portal.work.artefacts.models import JobArtefacts
from portal.work.jobs.models import Allocation, ClockMark, Job
from portal.work.jobs.services import reconciling
from portal.work.jobs.states import JobState
from tests.portal import given

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def clock(monkeypatch):
    """Sets the clock by so much against what it says without this test."""
    now = timezone.now

    def set_by(by):
        monkeypatch.setattr(timezone, "now", lambda: now() + by)

    return set_by


def heard(cluster):
    Node.objects.update(last_contact_at=timezone.now())
    cluster.node.refresh_from_db()


@pytest.fixture
def well(cluster, settings, monkeypatch):
    """A portal that plans and a beat that has started its tasks, without a broker."""
    monkeypatch.setattr(health, "ping", lambda *_: None)
    PeriodicTask.objects.update(last_run_at=timezone.now())


class TestLeases:
    def test_set_forward_it_says_nothing_about_nodes(self, cluster, clock):
        attempt = cluster.running(restartable=True)
        reconciling.leases_expire(grace_s=15)
        clock(HOUR)
        assert reconciling.leases_expire(grace_s=15) == 0
        part = Allocation.objects.get(attempt=attempt)
        assert timedelta(seconds=100) < part.lease_until - timezone.now() <= timedelta(seconds=reconciling.RETURN_S)
        assert Job.objects.get(pk=attempt.job_id).state == JobState.RUNNING

    def test_who_does_not_report_after_it_is_missed(self, cluster, clock, monkeypatch):
        attempt = cluster.running(restartable=True)
        reconciling.leases_expire(grace_s=15)
        clock(HOUR)
        reconciling.leases_expire(grace_s=15)
        Allocation.objects.update(lease_until=timezone.now() - timedelta(seconds=20))
        assert reconciling.leases_expire(grace_s=15) == 1
        assert Job.objects.get(pk=attempt.job_id).state == JobState.PENDING

    def test_set_back_a_silent_node_is_missed_after_its_lease(self, cluster, clock):
        attempt = cluster.running(restartable=True)
        reconciling.leases_expire(grace_s=15)
        clock(-HOUR)
        reconciling.leases_expire(grace_s=15)
        part = Allocation.objects.get(attempt=attempt)
        assert part.lease_until - timezone.now() == pytest.approx(timedelta(seconds=900), abs=timedelta(seconds=5))

    def test_set_back_a_silent_node_is_unreachable_soon(self, cluster, clock):
        reconciling.leases_expire(grace_s=15)
        clock(-HOUR)
        cluster.node.refresh_from_db()
        reconciling.leases_expire(grace_s=15)
        cluster.node.refresh_from_db()
        assert cluster.node.last_contact_at <= timezone.now()

    def test_a_contact_is_noted_though_the_last_one_was_ahead(self, cluster):
        Node.objects.update(last_contact_at=timezone.now() + HOUR)
        cluster.node.refresh_from_db()
        node_seen(node=cluster.node)
        cluster.node.refresh_from_db()
        assert cluster.node.last_contact_at <= timezone.now()

    def test_a_maintenance_lease_keeps_what_is_left_of_it(self, cluster, clock):
        cluster.running(restartable=True)
        reconciling.leases_expire(grace_s=15)
        reconciling.leases_maintain(hours=4)
        clock(-HOUR)
        assert reconciling.leases_follow_clock() == pytest.approx(-3600, abs=1)
        left = Allocation.objects.get().lease_until - timezone.now()
        assert left == pytest.approx(4 * HOUR, abs=timedelta(seconds=5))
        assert reconciling.leases_follow_clock() == 0, "once"
        assert Allocation.objects.get().lease_until - timezone.now() == pytest.approx(left, abs=timedelta(seconds=5))

    def test_a_clock_that_runs_on_or_is_slewed_moves_nothing(self, cluster, clock):
        cluster.running(restartable=True)
        reconciling.leases_expire(grace_s=15)
        before = Allocation.objects.get().lease_until
        clock(timedelta(seconds=2))
        assert reconciling.leases_follow_clock() == 0
        assert Allocation.objects.get().lease_until == before

    def test_another_boot_has_a_mark_of_its_own_and_those_of_long_ago_go(self, cluster):
        now = timezone.now()
        ClockMark.objects.create(boot="last week's", booted_at=now - timedelta(days=7))
        ClockMark.objects.create(boot="two years ago", booted_at=now - timedelta(days=730))
        assert reconciling.leases_follow_clock() == 0
        assert set(ClockMark.objects.values_list("boot", flat=True)) == {
            "last week's",
            reconciling.boot_name(),
        }

    def test_a_portal_that_began_in_the_future_was_not_away(self, cluster, settings, tmp_path):
        settings.DATA_DIR = tmp_path
        given.portal_started(tmp_path, -3600)
        cluster.running(restartable=True)
        Allocation.objects.update(lease_until=timezone.now() - timedelta(seconds=20))
        assert reconciling.leases_expire(grace_s=15) == 1


class TestPlannings:
    """All that was written an hour ahead is there when the clock is right again."""

    @pytest.fixture
    def ahead(self, cluster, clock):
        clock(HOUR)
        heard(cluster)
        attempt = cluster.running(gpus=1)
        waits = cluster.submit(gpus=4)
        planning_run()
        clock(timedelta(0))
        heard(cluster)
        return attempt, waits

    def test_a_nudge_is_heeded_and_a_new_round_plans_anew(self, cluster, ahead):
        job, before = cluster.submit(gpus=1), Round.objects.latest("number")
        made = planning_run(nudged_at=timezone.now())
        assert made is not None
        job.refresh_from_db()
        assert (made.status, job.state) == (Planning.Status.APPLIED, JobState.STARTING)
        assert made.round.number == before.number + 1
        assert made.replan, "a round begins with one"
        before.refresh_from_db()
        assert before.ended_at is not None
        assert PlanningLease.objects.get().thorough_at <= timezone.now()

    def test_what_began_ahead_waits_ends_and_is_predicted(self, cluster, ahead):
        attempt, waits = ahead
        planning_run()
        waits.refresh_from_db()
        assert waits.state == JobState.PENDING
        forecasts_refresh()
        cluster.end(attempt)
        planning_run()
        ended = Job.objects.get(pk=attempt.job_id)
        waits.refresh_from_db()
        assert (ended.state, waits.state) == (JobState.COMPLETED, JobState.STARTING)

    def test_a_killed_planners_lease_from_ahead_binds_nobody(self, cluster, clock):
        clock(HOUR)
        number = lease.lease_take(holder="killed")
        assert lease.lease_take(holder="living") is None
        clock(timedelta(0))
        assert lease.lease_take(holder="living") == number + 1

    def test_no_errand_rests_until_the_clock_has_come_there_again(self, clock):
        clock(HOUR)
        with errand("tune", limit_s=60) as mine:
            assert mine
        errand_rest("tune", rest_s=10 * REST_MOST_S)
        with errand("tune", limit_s=60) as mine:
            assert not mine
        clock(timedelta(0))
        with errand("tune", limit_s=60) as mine:
            assert mine


class TestBeat:
    @pytest.fixture
    def beat(self, broker_settings):
        return LivingScheduler(app=app)

    @pytest.mark.django_db(transaction=True)
    def test_tasks_that_ran_ahead_are_due_after_their_interval(self, beat):
        PeriodicTask.objects.update(last_run_at=timezone.now() - HOUR)
        while beat.tick() == 0:
            pass
        for event in beat._heap:  # as `tick` leaves them when it has sent them
            event.entry.last_run_at = event.entry.model.last_run_at = timezone.now() + HOUR
        beat.tick()
        assert max(event.entry.last_run_at for event in beat._heap) <= timezone.now()
        assert not PeriodicTask.objects.filter(enabled=True, last_run_at__gt=timezone.now() + HOUR / 2).exists()

    @pytest.mark.django_db(transaction=True)
    def test_so_are_those_that_were_noted_ahead_before_it_began(self, broker_settings):
        PeriodicTask.objects.update(last_run_at=timezone.now() + HOUR)
        beat = LivingScheduler(app=app)
        for _ in range(3):
            beat.tick()
        assert not PeriodicTask.objects.filter(enabled=True, last_run_at__gt=timezone.now() + HOUR / 2).exists()

    @pytest.mark.django_db(transaction=True)
    def test_a_change_of_the_schedule_is_seen_though_the_last_one_was_later(self, beat):
        PeriodicTasks.objects.update(last_update=timezone.now() + HOUR)
        beat._look_at_s = 0.0
        assert "jobs.reconcile" in beat.schedule
        PeriodicTask.objects.get(name="jobs.reconcile").delete()
        PeriodicTasks.objects.update(last_update=timezone.now())
        beat._look_at_s = 0.0
        assert "jobs.reconcile" not in beat.schedule


class TestHealth:
    @pytest.mark.parametrize(
        ("model", "column", "name"),
        [(PeriodicTask, "last_run_at", "beat_age_s"), (Planning, "started_at", "last_planning_age_s")],
    )
    def test_what_is_yet_to_come_is_as_old_as_it_is_known(self, well, monkeypatch, model, column, name):
        planning_run()
        model.objects.update(**{column: timezone.now() + HOUR})
        began_s, ahead_s = health.time.monotonic(), 0.0
        monkeypatch.setattr(health.time, "monotonic", lambda: began_s + ahead_s)
        assert Client().get("/healthz").json()[name] == 0
        ahead_s = 600.0
        answer = Client().get("/healthz")
        assert (answer.status_code, answer.json()[name]) == (503, 600)


DAY = timedelta(days=1)
YEAR = timedelta(days=365)


def old_artefacts(cluster):
    """A job that ended a day ago, whose artefacts its tenant keeps for a month; return how many of them are left."""
    attempt = cluster.running()
    cluster.end(attempt, exit_code=0)
    job = attempt.job
    type(job).objects.filter(pk=job.pk).update(ended_at=timezone.now() - DAY)
    JobArtefacts.objects.create(job=job, tenant=job.tenant, looked_at=timezone.now())
    Tenant.objects.update(artefact_days=30)
    return lambda: JobArtefacts.objects.filter(job=job).count()


def looked():
    reconciling.leases_expire(grace_s=15)


def run(name):
    """As the worker does."""
    app.loader.import_default_modules()
    return app.tasks[name]()


class TestDeletingForAge:
    """What a clock that is wrong for an hour would delete is there for a day, and nothing waits where time has passed."""

    @pytest.fixture
    def left(self, cluster):
        looked()
        return old_artefacts(cluster)

    def test_it_waits_a_day_after_the_clock_was_set_ahead(self, left, clock):
        clock(YEAR)
        run("artefacts.expire")  # it may come before any look
        assert left() == 1
        clock(YEAR + DAY - HOUR)
        looked()
        run("artefacts.expire")
        assert left() == 1
        (said,) = leap_problems(timezone.now())
        assert re.fullmatch(
            r"clock: it went ahead by 365 days, or Berth did not run for so long; nothing is deleted for its age before "
            r"[-\d]+ [:\d]+ UTC, so set it back before then if it is wrong",
            said,
        )
        ClockMark.objects.update(leapt_at=timezone.now() - DAY)
        run("artefacts.expire")
        assert left() == 0
        assert leap_problems(timezone.now()) == []

    def test_set_back_all_is_as_before(self, left, clock):
        clock(YEAR)
        looked()
        assert leap_now() is not None
        clock(timedelta(0))
        looked()
        assert leap_now() is None
        run("artefacts.expire")
        assert left() == 1

    @pytest.mark.parametrize("boot", ["the same", "another"])
    def test_after_a_long_time_without_berth_it_waits_too(self, left, clock, boot, monkeypatch):
        """Nothing tells whether it was switched off for a year, or begins with a wrong clock."""
        if boot == "another":
            monkeypatch.setattr(reconciling, "boot_name", lambda: "another boot")
        ClockMark.objects.update(looked_at=timezone.now() - YEAR, booted_at=timezone.now() - 2 * YEAR)
        run("artefacts.expire")
        looked()
        Job.objects.update(ended_at=timezone.now() - YEAR)
        run("artefacts.expire")
        assert left() == 1
        assert leap_problems(timezone.now())

    @pytest.mark.parametrize("by", [timedelta(hours=23), -YEAR])
    def test_less_or_back_holds_nothing_up(self, left, clock, by):
        clock(by)
        looked()
        Job.objects.update(ended_at=timezone.now() - YEAR)
        run("artefacts.expire")
        assert left() == 0

    def test_a_weekend_without_berth_is_no_news(self, left):
        ClockMark.objects.update(looked_at=timezone.now() - 3 * DAY)
        looked()
        assert leap_now() is not None
        assert leap_problems(timezone.now()) == []

    def test_each_task_that_deletes_is_one_of_berth(self):
        assert set(FIXED_S) > BY_AGE
        assert {name for name in FIXED_S if name.endswith("expire")} <= BY_AGE
