"""Stored telemetry that cannot be read any more: the log says so once a minute, and nothing else stops."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.cluster import telemetry
from portal.cluster.models import TelemetryBlock, TelemetryFrame, TelemetryMean
from portal.cluster.telemetry import BLOCK_S, batches_between, frame_pack, frames_of, telemetry_store
from portal.cluster.telemetry_packing import telemetry_pack, telemetry_roll_up
from tests.portal import given
from tests.portal.cluster.test_thinning import batch

pytestmark = pytest.mark.django_db
NOW = timezone.now().replace(microsecond=0)
START = (NOW - timedelta(hours=1)).timestamp() // BLOCK_S * BLOCK_S
HOW = {
    "cut off": lambda packed: packed[: len(packed) // 2],
    "one byte": lambda packed: packed[:9] + bytes([packed[9] ^ 0xFF]) + packed[10:],
    "its length": lambda packed: (len(packed) - 6).to_bytes(4, "big") + packed[4:],
    "another thing": lambda _: b"\0\0\0\4" + b"x" * 40,
}


@pytest.fixture(params=HOW)
def how(request, monkeypatch):
    monkeypatch.setattr(telemetry, "_told_at_s", None)
    return HOW[request.param]


def damage(rows, name, how):
    row = rows.order_by("pk").first()
    rows.filter(pk=row.pk).update(**{name: how(bytes(getattr(row, name)))})


def stored(cluster, *, start=START):
    """A minute of two nodes, ten seconds a row."""
    nodes = [cluster.node, given.node_make("n2")]
    for first in range(0, 60, 10):
        for node in nodes:
            telemetry_store(node=node, batch=batch(start + first, [float(first + n) for n in range(10)]))
    return nodes


def count(node, *, start=START, step_s=1.0):
    since, until = (datetime.fromtimestamp(start + s, UTC) for s in (0, BLOCK_S))
    return sum(one["count"] for _, one in batches_between(node_ids=[node.pk], since=since, until=until, step_s=step_s))


@pytest.mark.slow
def test_a_damaged_row_is_left_out_and_all_nodes_are_packed(cluster, how, caplog):
    mine, other = stored(cluster)
    damage(TelemetryFrame.objects.filter(node=mine), "packed", how)
    assert (count(mine), count(other)) == (50, 60)
    assert telemetry_pack() == 2
    assert not TelemetryFrame.objects.exists(), "else rows would grow in number for ever"
    assert (count(mine), count(other)) == (50, 60)
    assert caplog.text.count("Stored telemetry cannot be read") == 1, "once a minute: a page asks each second"


def test_a_damaged_block_or_day_stops_no_roll_up_and_no_page(cluster, how):
    old = START - 3 * 86_400
    mine, other = stored(cluster, start=old)
    assert telemetry_pack() == 2
    damage(TelemetryBlock.objects.filter(node=mine), "means", how)
    assert telemetry_roll_up() == 2
    assert count(other, start=old, step_s=300) >= 1
    damage(TelemetryMean.objects.filter(node=other), "packed", how)
    assert count(other, start=old, step_s=300) == 0
    telemetry_store(node=other, batch=batch(old + 90, [1.0] * 10))
    telemetry_roll_up()
    assert count(other, start=old, step_s=300) >= 1, "the day goes on with what comes"
    reader = Client()
    reader.force_login(cluster.owner)
    assert reader.get(f"/cluster/{mine.name}/").status_code == 200


def test_frames_before_the_damage_are_read():
    frames = [frame_pack({"at": n}) for n in range(3)]
    assert list(frames_of(b"".join(frames))) == [{"at": 0}, {"at": 1}, {"at": 2}]
    assert list(frames_of(frames[0] + frames[1][:-1])) == [{"at": 0}]
