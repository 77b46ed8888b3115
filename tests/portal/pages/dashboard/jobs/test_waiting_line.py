"""The line of time of a waiting job: round clock times, few enough for a phone, with their day on a long axis."""

import itertools
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core.cache import cache
from django.test import Client

from portal.pages.dashboard.jobs.waiting.line import Axis, axis_make, line_make, ticks_of
from portal.planning.rounds.models import StartForecast
from portal.planning.rounds.planning.run import planning_run

NOW = datetime(2026, 3, 2, 6, 47, tzinfo=UTC)
NOW_S = NOW.timestamp()


def shown(svg):
    return re.findall(r'class="b-way-tick" x="([\d.]+)%".*?data-format="([a-z-]+)" data-at="([^"]+)">([^<]+)<', svg)


@pytest.mark.parametrize("ahead_s", [60, 25 * 60, 3600, 5 * 3600, 20 * 3600, 9 * 86400, 400 * 86400])
def test_an_axis_of_any_length_has_some_round_times(ahead_s):
    axis = axis_make(submitted_s=NOW_S - 23 * 60, now_s=NOW_S, last_s=NOW_S + ahead_s)
    times, dated = ticks_of(axis)
    assert 1 <= len(times) <= (4 if dated else 7)
    steps = {late - early for early, late in itertools.pairwise(times)}
    assert len(steps) <= 1
    assert all(axis.start_s <= at <= axis.end_s and at % min(steps, default=60) == 0 for at in times)
    assert dated == (axis.end_s - axis.start_s > 18 * 3600)
    places = [axis.at(at) for at in times]
    least = 28 if dated else 12  # per cent of 350 px: their texts take 95 px and 30 px
    assert all(right - left > least for left, right in itertools.pairwise(places))


def test_times_stand_where_they_are_and_name_their_instant():
    axis = Axis(NOW_S - 1380, NOW_S + 1620)
    svg = line_make(axis, now_s=NOW_S, submitted_s=axis.start_s, way=None, start=(NOW_S + 1500, NOW_S + 1620))
    rows = shown(svg)
    assert [text for *_, text in rows] == ["06:30", "06:40", "06:50", "07:00", "07:10"]
    for place, form, at, text in rows:
        instant = datetime.fromisoformat(at)
        assert (form, text) == ("bare-clock", instant.strftime("%H:%M"))
        assert float(place) == pytest.approx(axis.at(instant.timestamp()), abs=0.01)
    words = re.sub(r"<[^>]+>", "", svg)
    assert "now 06:47" in words
    assert "starts 07:12\u201307:14" in words
    assert "starts 07:12\u2013later" in re.sub(
        r"<[^>]+>",
        "",
        line_make(axis, now_s=NOW_S, submitted_s=0, way=None, start=(NOW_S + 1500, NOW_S + 9000), ends=False),
    )


def test_a_long_axis_tells_days():
    axis = Axis(NOW_S, NOW_S + 3 * 86400)
    rows = shown(line_make(axis, now_s=NOW_S, submitted_s=NOW_S, way=None, start=None))
    assert {form for _, form, *_ in rows} == {"clock"}


@pytest.mark.django_db
def test_the_page_of_a_waiting_job_has_clock_times(cluster):
    cache.clear()
    cluster.started(gpus=2)
    job = cluster.submit(gpus=4)
    planning_run()
    job.refresh_from_db()
    now = job.submitted_at
    early, late = now + timedelta(minutes=25), now + timedelta(minutes=27)
    first = {"first_at": now, "first_earliest_at": early, "first_median_at": late, "first_latest_at": late}
    StartForecast.objects.create(job=job, epoch=0, at=now, earliest_at=early, median_at=late, latest_at=late, **first)
    client = Client()
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert len(shown(page)) >= 3
    assert f'data-at="{early.isoformat()}">{early:%H:%M}<' in page
