"""Bars of a figure that holds from planning to planning: means by time and the most, the same at any time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.read.bars import Held, bars_of, fragment_bars
from scheduler.metrics import over_round

START = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def held(*stretches):
    return [
        Held(start, end, float(cores), float(scattered), float(sum(kept)), float(cores + scattered + sum(kept)))
        for start, end, cores, scattered, *kept in stretches
    ]


def test_a_bar_is_the_mean_by_time_and_the_most():
    bars = bars_of(held((0, 60, 4, 0), (60, 100, 0, 1, 5), (100, 200, 2, 2)), step_s=100, first=0, count=3)
    assert [(bar.cores, bar.scattered, bar.kept, bar.most) for bar in bars] == [
        (2.4, 0.4, 2.0, 6.0),
        (2.0, 2.0, 0.0, 4.0),
        (None, None, None, None),
    ]


def test_what_is_not_known_is_no_nought():
    (bar,) = bars_of(held((0, 10, 5, 0)), step_s=100, first=0, count=1)
    assert bar.cores == 5.0, "of the ten seconds that are known"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=30),
    st.integers(1, 50),
)
def test_all_bars_together_are_the_whole(lengths, step_s):
    stretches, at = [], 0
    for length, cores, scattered in lengths:
        stretches.append((at, at + length, cores, scattered))
        at += length
    bars = bars_of(held(*stretches), step_s=step_s, first=0, count=-(-at // step_s))
    whole = sum(cores * (end - start) for start, end, cores, _ in stretches)
    inside = [min(at, (n + 1) * step_s) - n * step_s for n in range(len(bars))]
    assert sum(bar.cores * seconds for bar, seconds in zip(bars, inside, strict=True)) == pytest.approx(whole)
    assert max(bar.most for bar in bars) == max(cores + scattered for _, _, cores, scattered in stretches)
    assert all(bar.cores + bar.scattered <= bar.most + 1e-9 for bar in bars)


@pytest.fixture
def plannings(db):
    """Every five seconds for two hours, with bursts between; each 50th finds 9 scattered GPUs for one second."""
    round_ = Round.objects.create(number=1, started_at=START)
    rows, number = [], 0
    for tick in range(1440):
        for offset in (0, 1) if tick % 50 == 0 else (0,):
            number += 1
            metrics = {"fragments_cores": 1, "fragments_scattered": 9 if tick % 50 == 0 and not offset else 0}
            at = START + timedelta(seconds=5 * tick + offset)
            rows.append(
                Planning(number=number, round=round_, started_at=at, status="applied", policy="hops", metrics=metrics)
            )
    Planning.objects.bulk_create(rows)
    return rows


def seen(now):
    bars = fragment_bars(hours=1, now=now, count=36, hold_s=60)
    return {bar.at: (round(bar.cores, 6), round(bar.scattered, 6), bar.most) for bar in bars}


def test_a_load_later_shows_the_same_bars(plannings):
    """Seconds later each bar but the first and the one under way stands as it was; one planning a bar was picked before."""
    now = START + timedelta(hours=2)
    first, later = seen(now), seen(now + timedelta(seconds=17))
    common = sorted(set(first) & set(later))[1:-1]
    assert len(common) >= 34
    assert {at: first[at] for at in common} == {at: later[at] for at in common}
    assert {most for _, _, most in (first[at] for at in common)} == {1.0, 10.0}


def test_a_peak_of_a_second_is_in_the_mean_and_in_the_most(plannings):
    found = [bar for bar in seen(START + timedelta(hours=2)).values() if bar[2] == 10.0]
    assert found
    assert all(bar[1] == pytest.approx(0.09) for bar in found), "9 GPUs for one second of a hundred"


def test_a_round_keeps_the_most(db):
    plannings = [
        (0.0, {"fragments_cores": 1, "fragments_scattered": 2}),
        (5.0, {"fragments_cores": 0, "fragments_scattered": 1}),
    ]
    assert over_round(plannings, 10.0)["fragments_most"] == 3
    assert over_round([(0.0, over_round(plannings, 10.0))], 10.0)["fragments_most"] == 3
    assert over_round([(0.0, {})], 1.0)["fragments_most"] is None


def test_a_day_is_told_by_its_rounds(db):
    now = START + timedelta(hours=24)
    Round.objects.bulk_create(
        Round(
            number=n + 1,
            started_at=START + timedelta(minutes=6 * n),
            ended_at=START + timedelta(minutes=6 * n + 6),
            metrics={"fragments_cores": 2.0, "fragments_scattered": 1.0, "fragments_most": 5 if n % 7 == 0 else 3},
        )
        for n in range(240)
    )
    bars = fragment_bars(hours=24, now=now, count=36, hold_s=60)
    whole = [bar for bar in bars if bar.cores is not None]
    assert len(whole) >= 35
    assert {(round(bar.cores, 6), round(bar.scattered, 6)) for bar in whole} == {(2.0, 1.0)}
    assert {bar.most for bar in whole} == {5.0}
