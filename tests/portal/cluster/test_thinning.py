"""An hour of samples as sent, a day of their means over 10 s: all of it read back as one series, by jobs' and nodes' plots."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from hypothesis import given as given_any
from hypothesis import strategies as st

from portal.cluster.models import TelemetryBlock
from portal.cluster.telemetry import BLOCK_S, batches_between, telemetry_store
from portal.cluster.telemetry_packing import telemetry_pack, telemetry_roll_up, telemetry_thin, thinned

pytestmark = pytest.mark.django_db
NOW = timezone.now().replace(microsecond=0)
START = (NOW - timedelta(hours=3)).timestamp() // BLOCK_S * BLOCK_S


def batch(start, values, *, period_s=1.0):
    gpus = {"0": {"utilisation": values, "power_w": values}}
    return {
        "start": start,
        "period_s": period_s,
        "count": len(values),
        "gpus": gpus,
        "host": {"load": values},
        "attempts": {},
    }


def read(node, *, step_s=1.0, name="power_w"):
    since, until = (datetime.fromtimestamp(START + s, UTC) for s in (0, BLOCK_S))
    return {
        one["start"] + place * one["period_s"]: value
        for _, one in batches_between(node_ids=[node.pk], since=since, until=until, step_s=step_s)
        for place, value in enumerate(one["gpus"]["0"][name])
        if value is not None
    }


@pytest.fixture
def packed(cluster):
    for first in range(0, BLOCK_S, 60):
        telemetry_store(node=cluster.node, batch=batch(START + first, [float(first + n) for n in range(60)]))
    assert telemetry_pack() == 1
    return cluster.node


def test_samples_as_sent_go_after_an_hour_and_their_tens_stand_for_them(packed):
    full = read(packed)
    assert len(full) == BLOCK_S
    tens = read(packed, step_s=10)
    assert telemetry_thin(now=datetime.fromtimestamp(START + BLOCK_S + 3599, UTC)) == 0, "not yet an hour"
    assert telemetry_thin(now=NOW) == 1
    assert telemetry_thin(now=NOW) == 0
    assert bytes(TelemetryBlock.objects.get().packed) == b""
    assert read(packed) == read(packed, step_s=10) == tens
    assert len(tens) == BLOCK_S // 10
    assert tens[START] == pytest.approx(4.5)
    assert read(packed, name="utilisation.high")[START] == 9.0
    assert len(read(packed, step_s=300)) == 2


def test_a_batch_that_comes_late_joins_the_tens(packed):
    telemetry_thin(now=NOW)
    before = read(packed)
    TelemetryBlock.objects.update(start_at=datetime.fromtimestamp(START, UTC))
    telemetry_store(node=packed, batch=batch(START - BLOCK_S + 590, [7.0] * 30))
    telemetry_store(node=packed, batch=batch(START + 595, [7.0] * 5))
    assert telemetry_pack() == 2
    after = read(packed)
    assert {at: value for at, value in after.items() if at in before and at != START + 590} == {
        at: value for at, value in before.items() if at != START + 590
    }
    assert bytes(TelemetryBlock.objects.get(start_at=datetime.fromtimestamp(START, UTC)).packed) == b""


def test_a_thinned_day_is_rolled_up_as_any_other(packed):
    telemetry_thin(now=NOW)
    assert telemetry_roll_up(now=NOW + timedelta(days=3)) == 1
    assert len(read(packed)) == 2, "its means over five minutes"


def test_a_block_of_a_version_before_is_left_whole(packed):
    TelemetryBlock.objects.update(tens=b"")
    assert telemetry_thin(now=NOW) == 0
    assert len(read(packed, step_s=10)) == BLOCK_S


@given_any(
    st.lists(st.one_of(st.none(), st.floats(0, 1e6)), min_size=1, max_size=120),
    st.floats(0, 1e6),
    st.sampled_from([0.5, 1.0, 3.0]),
)
def test_thinning_keeps_means_within_and_loses_no_stretch(values, start, period_s):
    (found,) = thinned([batch(start, values, period_s=period_s)])
    known = [value for value in values if value is not None]
    kept = [value for value in found["gpus"]["0"]["power_w"] if value is not None]
    assert bool(kept) == bool(known)
    assert all(min(known) - 1e-3 <= value <= max(known) + 1e-3 for value in kept)
    assert found["start"] <= start
    assert found["start"] + found["count"] * found["period_s"] > start + (len(values) - 1) * period_s
    for low, mean, high in zip(
        *(found["gpus"]["0"][f"utilisation{end}"] for end in (".low", "", ".high")), strict=True
    ):
        assert mean is None or low - 1e-3 <= mean <= high + 1e-3


def test_longer_periods_stay_as_they_are():
    slow = batch(START, [1.0, 2.0], period_s=10.0)
    assert thinned([slow]) == [slow]


@pytest.mark.parametrize("words", ["", "?range=24h", "?range=7d", "?range=90d"])
@pytest.mark.parametrize("figure", ["gpu", "power"])
def test_a_node_s_plots_reach_back_as_far_as_is_kept(packed, client, words, figure):
    telemetry_thin(now=NOW)
    client.force_login(packed_owner())
    answer = client.get(f"/cluster/n1/figures/{figure}{words}").json()
    ys = [y for y in answer["lines"][0]["y"] if y is not None]
    assert bool(ys) is bool(words), "three hours ago is in all ranges but the first"
    html = client.get(f"/cluster/n1/{words}").content.decode()
    assert "/cluster/n1/?range=90d" in html
    assert client.get("/cluster/n1/figures/gpu?range=2h").status_code == 400


def packed_owner():
    from portal.people.tenants.models import User

    return User.objects.get(username="lena")
