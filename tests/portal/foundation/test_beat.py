"""Beat sends what is due and notes it, all of one moment in one transaction, as soon as the database can take it."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from portal.foundation.beat import LivingScheduler
from portal.foundation.celery import app

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def due(broker_settings):
    """Beat's scheduler, and the tasks that have not run for a day."""
    tasks = PeriodicTask.objects.filter(enabled=True, interval__isnull=False)
    tasks.update(last_run_at=timezone.now() - timedelta(days=1))
    return LivingScheduler(app=app), tasks.filter(last_run_at__lt=timezone.now() - timedelta(hours=12))


def tick_until_idle(scheduler):
    while scheduler.tick() == 0:
        pass


def test_what_is_due_at_one_moment_is_noted_in_one_transaction(due):
    scheduler, late = due
    count = late.count()
    assert count > 20
    with CaptureQueriesContext(connection) as asked:
        tick_until_idle(scheduler)
    assert late.count() == 0
    assert PeriodicTask.objects.get(name="jobs.reconcile").total_run_count == 1
    assert sum(query["sql"].startswith("BEGIN") for query in asked.captured_queries) <= 1
    of_beat = [query["sql"] for query in asked.captured_queries if "celery_beat" in query["sql"]]
    assert len(of_beat) <= count + 15, "one statement a task; the rest reads the schedule"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite's own way to refuse to write")
def test_what_could_not_be_noted_is_noted_later(due):
    scheduler, late = due
    scheduler.tick()  # which reads the schedule, and may write it
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        tick_until_idle(scheduler)
        assert late.count() > 20
        cursor.execute("PRAGMA query_only = OFF")
    scheduler.tick()
    assert late.count() == 0


def test_a_new_interval_is_seen_within_a_second(due):
    scheduler, _ = due
    tick_until_idle(scheduler)
    PeriodicTask.objects.get(name="jobs.reconcile").delete()
    assert "jobs.reconcile" in scheduler.schedule, "it has just looked"
    scheduler._look_at_s = 0.0
    assert "jobs.reconcile" not in scheduler.schedule
