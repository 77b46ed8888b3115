"""Recorded metrics: RAQLR of several h with each planning, and a round's figures, weighted by time (section 10)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read.history import raqlr_course
from portal.planning.rounds.record.metrics import raqlr_by_hours, round_close, round_metrics
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.tasks import expire
from portal.work.jobs.models import Job


def ended(cluster, *, hours_ago, waited_s, age_s=100.0):
    job = cluster.submit()
    at = timezone.now() - timedelta(hours=hours_ago)
    Job.objects.filter(pk=job.pk).update(state="COMPLETED", ended_at=at, waited_s=waited_s, age_s=age_s)


def record(round_, number, at, *, placed=0, status="applied", **metrics):
    return Planning.objects.create(
        number=number, round=round_, started_at=at, status=status, policy="hops", placed=placed, metrics=metrics
    )


def test_raqlr_over_1_6_and_24_hours(cluster):
    for hours_ago, waited_s in ((0.5, 100.0), (0.9, 300.0), (5, 400.0), (30, 9999.0)):
        ended(cluster, hours_ago=hours_ago, waited_s=waited_s)
    ended(cluster, hours_ago=0.1, waited_s=7.0, age_s=None)  # never planned: it has no age, so no LR
    found = raqlr_by_hours(now=timezone.now())
    assert (found["raqlr_1h"], found["raqlr_jobs_1h"]) == (pytest.approx(2.0), 2)
    assert (found["raqlr_6h"], found["raqlr_jobs_6h"]) == (pytest.approx(8 / 3), 3)
    assert found["raqlr_jobs_24h"] == 3


def test_an_array_is_one_job_in_every_raqlr(cluster):
    """Planning, tile, plot, REST and Prometheus: the array's mean is one of two numbers, not three of four."""
    now = timezone.now()
    ended(cluster, hours_ago=0.5, waited_s=100.0)
    cluster.submit(array={"size": 3})
    tasks = Job.objects.exclude(array=None)
    tasks.update(state="COMPLETED", ended_at=now - timedelta(hours=0.2), waited_s=900.0, age_s=100.0)
    found = raqlr_by_hours(now=now)
    assert (found["raqlr_1h"], found["raqlr_jobs_1h"]) == (pytest.approx(5.0), 2)
    assert raqlr_course(hours=6, at=[now]) == [(pytest.approx(5.0), 2)]
    recorded = planning_run().metrics
    assert (recorded["raqlr"], recorded["raqlr_jobs"]) == (pytest.approx(5.0), 2)
    assert (recorded["raqlr_24h"], recorded["raqlr_jobs_24h"]) == (pytest.approx(5.0), 2)


def test_nothing_ended_is_no_data_and_no_nought(cluster):
    found = raqlr_by_hours(now=timezone.now())
    assert (found["raqlr_24h"], found["raqlr_jobs_24h"]) == (None, 0)


def test_a_planning_records_all_of_section_10(cluster):
    ended(cluster, hours_ago=2, waited_s=50.0)
    cluster.submit(gpus=2)
    cluster.submit(gpus=4)
    metrics = planning_run().metrics
    assert (metrics["gpu_active_rate"], metrics["queue_length"]) == (0.5, 1)
    assert metrics["fragments_cores"] + metrics["fragments_scattered"] == 0  # 4 of 2 idle: no demand
    assert (metrics["raqlr_1h"], metrics["raqlr_6h"]) == (None, 0.5)
    assert {"cpu_active_rate", "utilisation", "fragment_rate", "live_lr_mean", "live_lr_max"} <= set(metrics)


def test_a_rounds_figures_are_weighted_by_time(db):
    begin = timezone.now() - timedelta(seconds=60)
    round_ = Round.objects.create(number=1, started_at=begin)
    record(round_, 1, begin, placed=3, fragments_cores=4, fragments_scattered=0, utilisation=None)
    record(round_, 2, begin + timedelta(seconds=15), fragments_cores=0, fragments_scattered=2, utilisation=80.0)
    record(round_, 3, begin + timedelta(seconds=30), status="failed")
    found = round_metrics(round_=round_, until=begin + timedelta(seconds=60), tick_s=30)
    assert (found["fragments_cores"], found["fragments_scattered"]) == (pytest.approx(1.0), pytest.approx(1.5))
    assert (found["utilisation"], found["plannings"], found["placed"]) == (80.0, 2, 3)


def test_what_is_not_known_weighs_nothing(db):
    """The portal was away for an hour: the last planning's figures do not count for all of it."""
    begin = timezone.now() - timedelta(hours=1)
    round_ = Round.objects.create(number=1, started_at=begin)
    record(round_, 1, begin, fragments_cores=4)
    record(round_, 2, begin + timedelta(minutes=58), fragments_cores=0)
    found = round_metrics(round_=round_, until=timezone.now(), tick_s=30)
    assert found["fragments_cores"] == pytest.approx(2.0, rel=0.01)  # two minutes of 4, two of 0


def test_the_next_round_closes_the_last_with_its_figures_once(cluster):
    planning_run()
    first = Round.objects.get()
    assert (first.metrics, first.ended_at) == ({}, None)
    Round.objects.update(started_at=timezone.now() - timedelta(hours=1))
    planning_run()
    first.refresh_from_db()
    assert first.ended_at is not None
    assert first.metrics["plannings"] == 1
    assert first.metrics["gpus_total"] == 4
    before = first.ended_at
    round_close(round_=first, now=timezone.now(), tick_s=30)
    first.refresh_from_db()
    assert first.ended_at == before


def test_plannings_expire_first_and_rounds_later(cluster):
    planning_run()
    old = timezone.now() - timedelta(days=8)
    Planning.objects.update(started_at=old)
    Round.objects.update(started_at=old)
    assert expire() == 1
    assert Round.objects.count() == 1
    settings_update(actor=None, round_keep_days=7)
    expire()
    assert Round.objects.count() == 0
