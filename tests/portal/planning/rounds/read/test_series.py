"""Figures over time: few points whatever the range, means where points are merged, gaps where nothing is known."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.pages.dashboard.rounds.metrics import PLOTS, Span, metrics_figure
from portal.people.tenants.models import User
from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.read.series import MOST, course_begin, course_since, range_of, rounds_since

ROUND = timedelta(seconds=60)


def rounds_make(count, *, fragments=lambda number: number % 2):
    """`count` ended rounds of a minute, the last ending now, with no planning left."""
    begin = timezone.now() - count * ROUND
    Round.objects.bulk_create(
        Round(
            number=number + 1,
            started_at=begin + number * ROUND,
            ended_at=begin + (number + 1) * ROUND,
            metrics={
                "fragments_cores": fragments(number),
                "raqlr_1h": float(number),
                "plannings": 12,
                "placed": 1,
                "types": {"A100": {"gpus": number % 2, "cores": 0.25}},
            },
        )
        for number in range(count)
    )


def plannings_make(round_, *, count, every):
    begin = timezone.now() - count * every
    Planning.objects.bulk_create(
        Planning(
            number=number + 1,
            round=round_,
            started_at=begin + number * every,
            status="applied",
            policy="hops",
            metrics={"queue_length": number},
        )
        for number in range(count)
    )


def test_ranges_are_named():
    assert range_of(None) == ("1h", timedelta(hours=1))
    assert range_of("7d") == ("7d", timedelta(days=7))
    with pytest.raises(BerthError) as error:
        range_of("2h")
    assert error.value.field == "range"


def test_figures_go_on_after_a_clock_that_was_ahead(db):
    now = timezone.now()
    noted = [now + ROUND * minutes for minutes in (50, 70, -9, -3)]  # it was set back by an hour and more
    for number, at in enumerate(noted, 1):
        Round.objects.create(number=number, started_at=at, ended_at=at + ROUND, metrics={"raqlr": float(number)})
        more = {"status": "applied", "policy": "hops", "metrics": {"queue_length": number}}
        Planning.objects.create(number=number, round_id=Round.objects.get(number=number).pk, started_at=at, **more)
    assert [each.number for each in rounds_since(since=now - timedelta(hours=1), now=now)] == [3, 4]
    olga = User(username="olga")
    span = Span("1h", olga, ("queue_length",))
    assert [each.figures.get("queue_length") for each in span.course if each.figures] == [3, 4]
    for name in PLOTS:
        for line in metrics_figure(name, "1h", olga)["lines"]:
            assert line["x"] == sorted(line["x"]), name
            assert line["x"][-1] <= timezone.now().timestamp()


def test_a_day_of_rounds_is_merged_by_means_and_not_by_picking(db):
    """Every other round has one fragment: picking would show only ones or only noughts."""
    rounds_make(1440)
    now = timezone.now()
    found = rounds_since(since=now - timedelta(hours=24), now=now)
    assert len(found) <= MOST + 1
    assert sum(each.rounds for each in found) >= 1438
    assert {round(each.figures["fragments_cores"], 1) for each in found if each.rounds == 6} == {0.5}
    whole = next(each for each in found if each.rounds == 6)
    assert whole.figures["raqlr_1h"] == whole.number + 4  # it looks back by itself: the last round's
    assert (whole.figures["plannings"], whole.figures["placed"]) == (72, 6)
    assert whole.until - whole.start == pytest.approx(6 * ROUND, abs=timedelta(seconds=1))


def test_only_figures_that_are_asked_for_are_read_and_they_are_the_same(db):
    rounds_make(1440)
    now = timezone.now()
    since, names = now - timedelta(hours=24), ("fragments_cores", "raqlr_1h")
    with CaptureQueriesContext(connection) as whole:
        every = rounds_since(since=since, now=now)
    with CaptureQueriesContext(connection) as thin:
        some = rounds_since(since=since, now=now, names=names)
        none = rounds_since(since=since, now=now, names=())
    assert [each.figures for each in some] == [{name: each.figures[name] for name in names} for each in every]
    assert [(each.start, each.until, each.figures) for each in none] == [(each.start, each.until, {}) for each in every]
    assert [any('AS "metrics"' in each["sql"] for each in queries) for queries in (whole, thin)] == [True, False]


def test_types_of_merged_rounds_are_means(db):
    rounds_make(1440)
    now = timezone.now()
    found = rounds_since(since=now - timedelta(hours=24), now=now, names=["types"])
    whole = next(each for each in found if each.rounds == 6)
    assert whole.figures == {"types": {"A100": {"gpus": pytest.approx(0.5), "cores": pytest.approx(0.25)}}}


def test_queries_do_not_grow_with_the_rounds(db):
    costs = []
    for count in (30, 1000):
        Round.objects.all().delete()
        rounds_make(count)
        now = timezone.now()
        with CaptureQueriesContext(connection) as queries:
            course_since(since=now - timedelta(days=7), now=now, hold_s=60, names=["queue_length"])
        costs.append(len(queries))
    assert costs[1] <= costs[0] <= 6


@pytest.mark.parametrize("count", [0, 1, 3, 30, 3000])
def test_a_course_begins_where_it_is_told_to(db, count):
    """Some of 3000 rounds are read, and the first is one of them."""
    rounds_make(count)
    plannings_make(
        Round.objects.create(number=count + 1, started_at=timezone.now()), count=500, every=timedelta(seconds=7)
    )
    now = timezone.now()
    for days in (1 / 24, 1, 7, 90):
        since = now - timedelta(days=days)
        course = course_since(since=since, now=now, hold_s=60, names=["queue_length"])
        assert course_begin(since=since, now=now) == course[0].start
    assert course_begin(since=now, now=now) is None


def test_the_present_round_stands_last_so_far(db):
    rounds_make(2)
    present = Round.objects.create(number=3, started_at=timezone.now() - timedelta(seconds=30))
    plannings_make(present, count=6, every=timedelta(seconds=5))
    now = timezone.now()
    last = rounds_since(since=now - timedelta(hours=1), now=now)[-1]
    assert (last.number, last.rounds) == (3, 1)
    assert last.figures["queue_length"] == pytest.approx(2.5, abs=0.3)


def test_an_hour_is_told_by_plannings_with_a_gap_where_there_were_none(db):
    round_ = Round.objects.create(number=1, started_at=timezone.now() - timedelta(hours=1))
    plannings_make(round_, count=6, every=timedelta(seconds=5))
    Planning.objects.filter(number__lte=3).update(started_at=timezone.now() - timedelta(minutes=30))
    now = timezone.now()
    course = course_since(since=now - timedelta(hours=1), now=now, hold_s=60, names=["queue_length"])
    assert [each.figures.get("queue_length") for each in course] == [0, 1, 2, None, 3, 4, 5]


def test_few_long_rounds_are_told_by_their_plannings(db):
    rounds_make(3)
    plannings_make(Round.objects.first(), count=6, every=timedelta(seconds=5))
    now = timezone.now()
    since = now - timedelta(days=1)
    course = course_since(since=since, now=now, hold_s=60, names=["queue_length"])
    assert [each.figures.get("queue_length") for each in course] == [0, 1, 2, 3, 4, 5]
