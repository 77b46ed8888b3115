"""Figures over time: few points whatever the range, means where points are merged, gaps where nothing is known."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.read.series import MOST, course_since, range_of, rounds_since

ROUND = timedelta(seconds=60)


def rounds_make(count, *, fragments=lambda number: number % 2):
    """`count` ended rounds of a minute, the last ending now, with no planning left."""
    begin = timezone.now() - count * ROUND
    Round.objects.bulk_create(
        Round(
            number=number + 1,
            started_at=begin + number * ROUND,
            ended_at=begin + (number + 1) * ROUND,
            metrics={"fragments_cores": fragments(number), "raqlr_1h": float(number), "plannings": 12, "placed": 1},
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


def test_queries_do_not_grow_with_the_rounds(db):
    costs = []
    for count in (3, 1000):
        Round.objects.all().delete()
        rounds_make(count)
        now = timezone.now()
        with CaptureQueriesContext(connection) as queries:
            rounds = rounds_since(since=now - timedelta(days=7), now=now)
            course_since(since=now - timedelta(days=7), now=now, hold_s=60, rounds=rounds)
        costs.append(len(queries))
    assert costs[1] <= costs[0] <= 6


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
    course = course_since(since=now - timedelta(hours=1), now=now, hold_s=60, rounds=[])
    assert [each.figures.get("queue_length") for each in course] == [0, 1, 2, None, 3, 4, 5]


def test_few_long_rounds_are_told_by_their_plannings(db):
    rounds_make(3)
    plannings_make(Round.objects.first(), count=6, every=timedelta(seconds=5))
    now = timezone.now()
    since = now - timedelta(days=1)
    course = course_since(since=since, now=now, hold_s=60, rounds=rounds_since(since=since, now=now))
    assert [each.figures.get("queue_length") for each in course] == [0, 1, 2, 3, 4, 5]
