"""The effect of a knob's last change: the week before against the week after, from jobs that ended."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.people.tenants.services import tenant_create
from portal.planning.rounds.settings.effects import effects_of, ended_by_hour
from portal.work.jobs.models import Attempt, Job
from tests.portal import given

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 24, 14, 49, 20, tzinfo=UTC)
CHANGED = NOW - timedelta(days=12)


@pytest.fixture
def history():
    """Return a function that writes jobs which ended evenly in the days from `first` to `last` before or after the change."""
    tenant = tenant_create(name="vision-lab", actor=None)
    owner = given.member("mia", tenant)

    def write(first, last, count, *, wait_s, run_s=600.0, cores=4, spread=0.2):
        step = timedelta(days=last - first) / count
        ends = [CHANGED + timedelta(days=first) + step * (place + 0.5) for place in range(count)]
        parts = [1 + spread * (2 * (place * 7 % 10) / 9 - 1) for place in range(count)]  # even, and no drift
        common = {"tenant": tenant, "owner": owner, "name": "j", "gpus": [1], "state": "COMPLETED"}
        jobs = Job.objects.bulk_create(
            Job(**common, submitted_at=end, started_at=end, ended_at=end, waited_s=wait_s * part, ran_s=run_s * part)
            for end, part in zip(ends, parts, strict=True)
        )
        Attempt.objects.bulk_create(
            Attempt(
                job=job,
                epoch=1,
                gpus=1,
                cores=cores,
                rendezvous_port=1,
                created_at=job.ended_at,
                started_at=job.ended_at,
                ended_at=job.ended_at,
                state="COMPLETED",
            )
            for job in jobs
        )

    return write


def effect(**changes):
    return effects_of(changes or {"borrowing": CHANGED}, NOW)[next(iter(changes), "borrowing")]


def words(told):
    return {text.replace("\u00a0", " "): tone for text, tone in told["told"]}


def test_what_is_clear_is_told_better_green_and_worse_amber(history):
    history(-7, 0, 100, wait_s=1000, cores=8)
    history(0.1, 7, 100, wait_s=500, run_s=700, cores=4)
    assert words(effect()) == {"waiting \u221250 %": "run", "longest wait \u221250 %": "run", "runs +17 %": "wait"}
    assert "cores held \u221250\u00a0%" in effect()["all"]
    assert "100 jobs before, 100 after" in effect()["all"]


def test_within_noise_it_is_plain(history):
    history(-7, 0, 100, wait_s=1000, spread=0.9)
    history(0.1, 7, 100, wait_s=1040, spread=0.9)
    assert words(effect()) == {"waiting +4 %": "", "runs \u00b10 %": ""}


def test_below_three_days_or_fifty_jobs_it_is_too_early(history):
    history(-7, 0, 100, wait_s=1000)
    history(0.1, 7, 49, wait_s=100)
    assert effect()["early"] == "too few jobs to say", "its week is over"
    assert effect(sigma=NOW - timedelta(days=2))["early"] == "too early to say"
    history(1, 2, 1, wait_s=100)
    assert not effect()["early"]


def test_only_the_week_before_and_the_week_after_count(history):
    history(-30, -7.1, 300, wait_s=9)
    history(-7, 0, 100, wait_s=1000)
    history(0.1, 7, 100, wait_s=1000)
    history(7.1, 11, 300, wait_s=9)
    assert words(effect())["waiting \u00b10 %"] == ""


def test_a_change_of_long_ago_or_none_is_not_looked_at(history):
    assert effects_of({"sigma": NOW - timedelta(days=200)}, NOW) == {}
    assert effects_of({}, NOW) == {}


def test_all_knobs_together_take_two_queries(history):
    history(-7, 7, 100, wait_s=1000)
    with CaptureQueriesContext(connection) as captured:
        effects_of({f"knob{day}": NOW - timedelta(days=day) for day in range(1, 30)}, NOW)
    assert len(captured) == 2


def test_each_end_is_counted_in_its_own_hour(history):
    hour = int(CHANGED.timestamp()) // 3600
    tenant = tenant_create(name="speech-co", actor=None)
    common = {"tenant": tenant, "owner": given.member("mia", tenant), "name": "j", "gpus": [1], "state": "COMPLETED"}
    for offset in (0, 0.001, 1799.5, 3599.99):
        at = datetime.fromtimestamp(hour * 3600 + offset, UTC)
        Job.objects.create(**common, submitted_at=at, started_at=at, ended_at=at)
    found = {row["hour"]: row["count"] for row in ended_by_hour([(hour - 2, hour + 3)])}
    assert found == {hour: 4}
