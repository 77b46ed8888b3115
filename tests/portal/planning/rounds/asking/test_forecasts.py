"""Predicted starts in the background: stored as ranges, scored as first given, by one worker at a time (section 7)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.pages.dashboard.parts.record import record_words
from portal.pages.dashboard.queue import divided
from portal.planning.rounds.asking import forecasting
from portal.planning.rounds.asking.experience import experience_read
from portal.planning.rounds.asking.forecasting import forecasts_refresh, forecasts_settle, records_expire
from portal.planning.rounds.models import ErrandLease, ForecastRecord, Planning, StartForecast
from portal.planning.rounds.planning.lease import errand, lease_take
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read import forecasts
from portal.planning.rounds.read.explained import explanation
from portal.planning.rounds.read.forecasts import forecast_record, forecasts_of, ranges_trust, start_told
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job
from scheduler.asking.starts.ranges import StartRange
from tests.portal import given

pytestmark = pytest.mark.django_db


@pytest.fixture
def jobs(cluster):
    """A full node and two jobs that wait for it."""
    cluster.running(gpus=4, expected_duration_s=600)
    return [cluster.submit(gpus=4, expected_duration_s=300) for _ in range(2)]


def test_waiting_jobs_get_a_range(jobs):
    assert forecasts_refresh() == 2
    first, second = (forecasts_of([job.pk])[job.pk] for job in jobs)
    assert timezone.now() < first.earliest_at <= first.median_at <= first.latest_at
    assert second.median_at >= first.median_at
    assert start_told(first, first.at).earliest_at == first.earliest_at


def fixed(monkeypatch, offsets):
    """Predict these offsets in s from now for every job."""

    def forecast(state, now_s, *_, **__):
        moments = [None if each is None else now_s + each for each in offsets]
        return {job.id: StartRange(*moments, draws=5) for job in state.jobs}

    monkeypatch.setattr(forecasting, "forecast", forecast)


def test_the_range_as_first_given_is_kept_beside_the_present_one(jobs, monkeypatch):
    fixed(monkeypatch, (60, 90, 120))
    forecasts_refresh()
    first = StartForecast.objects.get(job=jobs[0])
    fixed(monkeypatch, (10, 20, None))
    forecasts_refresh()
    now = StartForecast.objects.get(job=jobs[0])
    assert (now.first_at, now.first_median_at) == (first.first_at, first.first_median_at)
    assert now.median_at < first.median_at
    assert now.latest_at is None


def test_a_range_beyond_what_was_simulated_is_none(jobs, monkeypatch):
    fixed(monkeypatch, (60, 90, 120))
    forecasts_refresh()
    fixed(monkeypatch, (None, None, None))
    assert forecasts_refresh() == 0
    assert not StartForecast.objects.exists()


def test_starts_are_scored_by_the_first_range(cluster, jobs, monkeypatch):
    assert forecast_record() == {"starts": 0, "held": None, "median_error_s": None, "by_horizon": []}
    fixed(monkeypatch, (-5, 0, 30))
    forecasts_refresh()
    StartForecast.objects.filter(job=jobs[1]).update(
        first_earliest_at=timezone.now() + timedelta(seconds=100),
        first_median_at=timezone.now() + timedelta(seconds=100),
    )
    nodes = [cluster.node.__class__.objects.get(pk=cluster.node.pk)]
    for job in jobs:
        cluster.start(job, *nodes, gpus=0)
    assert forecasts_settle() == 2
    record = forecast_record()
    assert (record["starts"], record["held"]) == (2, 0.5)
    assert 40 < record["median_error_s"] < 60
    assert not StartForecast.objects.exists()
    assert forecasts_settle() == 0


def test_a_job_that_ends_waiting_is_no_start(jobs, monkeypatch):
    fixed(monkeypatch, (60, 90, 120))
    forecasts_refresh()
    Job.objects.filter(pk=jobs[0].pk).update(state="CANCELLED", waiting_since=None, ended_at=timezone.now())
    assert forecasts_settle() == 0
    assert list(StartForecast.objects.values_list("job", flat=True)) == [jobs[1].pk]


def test_one_worker_at_a_time_and_never_beside_a_planning(jobs, monkeypatch):
    monkeypatch.setattr(forecasting, "PATIENCE_S", 0.3)
    with errand("forecast", limit_s=60) as mine:
        assert mine
        assert forecasts_refresh() is None
    lease_take(holder="planner")
    assert forecasts_refresh() is None
    assert not StartForecast.objects.exists()


def test_a_killed_workers_lease_ends(jobs):
    ErrandLease.objects.create(name="forecast", holder="dead", until=timezone.now() - timedelta(seconds=1))
    assert forecasts_refresh() == 2
    assert ErrandLease.objects.get().until is None


def test_a_long_forecast_is_followed_by_a_rest(jobs, monkeypatch):
    """100 000 jobs: a run takes its limit. It has a tenth of a core at most, and does not come at each of beat's minutes."""
    monkeypatch.setattr(forecasting, "SHARE", 1e-9)
    assert forecasts_refresh() == 2
    assert ErrandLease.objects.get().holder == ""
    assert forecasts_refresh() is None
    ErrandLease.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert forecasts_refresh() == 2


def told(job):
    return explanation(job)["predicted_start_missing"]


def planned():
    planning_run()
    return Planning.objects.order_by("-number").first()


def test_a_job_without_a_range_is_told_why(client, cluster, jobs, monkeypatch):
    for module in (forecasts, divided):
        monkeypatch.setattr(module, "RANGES_MOST", 1)
    planned()
    assert told(jobs[0]).startswith("Not computed for this job yet")
    fixed(monkeypatch, (None, None, None))
    forecasts_refresh()
    assert "it is number 2 in order of priority, and start ranges are computed for the first 1" in told(jobs[1])
    client.force_login(cluster.owner)
    shown = client.get(f"/jobs/{jobs[1].pk}/").content.decode()
    assert '<p class="b-big">Not known yet</p>\n<p class="b-sub">Not computed for this job: it is number 2' in shown
    client.force_login(given.operator())
    assert "Start ranges are computed for the first 1 jobs" in client.get("/queue/").content.decode()
    fixed(monkeypatch, (60, 90, 120))
    forecasts_refresh()
    assert told(jobs[0]) is None
    StartForecast.objects.filter(job=jobs[0]).delete()
    assert "it did not start" in told(jobs[0])


def test_who_is_kept_from_starting_by_others_needs_no_range(cluster, jobs):
    waits = cluster.submit(depends_on=[jobs[0].pk])
    planned()
    assert told(waits) is None


def test_the_record_is_told_by_horizon(jobs):
    now = timezone.now()
    for middle_s, late_s, started_s in ((60, 90, 80), (60, 90, 100), (600, 900, 700), (7200, None, 9000)):
        ForecastRecord.objects.create(
            job_number=1,
            given_at=now,
            earliest_at=now,
            started_at=now + timedelta(seconds=started_s),
            median_at=now + timedelta(seconds=middle_s),
            latest_at=late_s and now + timedelta(seconds=late_s),
        )
    record = forecast_record()
    assert [(each["from_s"], each["until_s"], each["starts"], each["held"]) for each in record["by_horizon"]] == [
        (0.0, 300.0, 2, 0.5),
        (300.0, 3600.0, 1, 1.0),
        (3600.0, None, 1, 1.0),
    ]
    assert record_words(record).replace("\u00a0", " ") == (
        "Past start ranges on this cluster held 75 % of the time (4 starts, median error 1 min): "
        "50 % of those less than 5 min ahead (2 starts), 100 % up to 1 h ahead (1 start), "
        "100 % further than 1 h ahead (1 start)."
    )


def test_lists_say_how_the_latest_ranges_fared_and_promise_nothing(db):
    """The share that ranges are made for is said only while too few starts are known."""
    now = timezone.now()
    assert ranges_trust() == "ranges are made to hold 80\u00a0% of starts"
    for number in range(forecasts.MARKS + 5):
        ForecastRecord.objects.create(
            job_number=number,
            given_at=now,
            earliest_at=now,
            latest_at=now + timedelta(seconds=60 if number % 2 else 6),
            started_at=now + timedelta(seconds=20 + number),
        )
        if number == forecasts.MARKS - 2:
            assert "made to hold" in ranges_trust()
    assert ranges_trust() == "ranges held 10 of the last 20 starts"


def test_records_are_kept_as_long_as_plannings():
    now = timezone.now()
    for days in (6, 8):
        ForecastRecord.objects.create(
            job_number=1, given_at=now, earliest_at=now, started_at=now - timedelta(days=days)
        )
    assert records_expire() == 1


def test_what_was_drawn_is_kept_and_makes_the_next_ranges(cluster, jobs):
    """The record holds the ranges as drawn: those that started with their wait, those that wait with theirs so far."""
    forecasts_refresh()
    first = StartForecast.objects.get(job=jobs[0])
    low_s, middle_s, high_s = first.drawn
    assert 0 < low_s <= middle_s <= high_s
    StartForecast.objects.update(first_at=timezone.now() - timedelta(seconds=500))
    cluster.start(jobs[0], cluster.node, gpus=0)
    assert forecasts_settle() == 1
    assert ForecastRecord.objects.get().drawn == first.drawn
    ForecastRecord.objects.create(
        job_number=7, given_at=timezone.now(), earliest_at=timezone.now(), started_at=timezone.now()
    )
    known = experience_read(now=timezone.now(), parameters=scheduler_parameters(knobs_current())).foretold
    assert sorted(each.started for each in known) == [False, True]  # an answer older than `drawn` tells nothing
    assert all(490 < each.waited_s < 600 for each in known)


def test_what_others_take_of_the_machine_does_not_cut_draws_off(monkeypatch):
    """The simulation's limit is of its own processor time; only beside the lease does time on the wall count."""
    wall, own = [100.0], [5.0]
    monkeypatch.setattr(forecasting.time, "monotonic", lambda: wall[0])
    monkeypatch.setattr(forecasting.time, "thread_time", lambda: own[0])
    clock = forecasting.own_clock()
    wall[0], own[0] = 130.0, 6.0
    assert clock() == pytest.approx(4.0)  # 30 of 60 s on the wall: half of the limit
    own[0] = 12.0
    assert clock() == pytest.approx(7.0)
    wall[0] = 161.0
    assert clock() > forecasting.LIMIT_S
