"""Telemetry is stored packed, read back as it came, rolled up after a day and expired."""

from datetime import UTC, datetime, timedelta

from django.utils import timezone

from portal.cluster.models import Node, TelemetryBlock, TelemetryMean
from portal.cluster.telemetry import BLOCK_S, batches_between, telemetry_roll_up, telemetry_store
from tests.portal import given

START = 1_700_000_000 // BLOCK_S * BLOCK_S


def batch(start, values=(10.0, 20.0), **more):
    return {
        "boot_id": "boot-1",
        "start": float(start),
        "period_s": 1.0,
        "count": len(values),
        "gpus": {"0": {"utilisation": list(values), "power_w": None}},
        "host": {"cpu_cores": [1.0] * len(values)},
    } | more


def test_a_block_takes_ten_minutes_of_batches_in_order(cluster):
    sent = [batch(START + 5 * n, values=[n] * 5) for n in range(4)] + [batch(START + BLOCK_S)]
    for each in sent:
        telemetry_store(node=cluster.node, batch=each)
    assert TelemetryBlock.objects.count() == 2
    since, until = (datetime.fromtimestamp(START + s, UTC) for s in (0, 2 * BLOCK_S))
    read = [frame for _, frame in batches_between(node_ids=[cluster.node.pk], since=since, until=until)]
    assert read == [{k: v for k, v in each.items() if k != "boot_id"} for each in sent]


def test_the_last_sample_is_live_and_a_missing_measure_is_absent(cluster):
    telemetry_store(node=cluster.node, batch=batch(START, values=[10.0, 30.0]))
    live = Node.objects.get().live
    assert live["gpus"] == {"0": {"utilisation": 30.0}}
    assert live["at"] == START + 1


def test_batches_at_once_lose_none(shared_cluster):
    node = shared_cluster.node
    results = given.race(*[lambda n=n: telemetry_store(node=node, batch=batch(START + n)) for n in range(6)])
    assert results == [None] * 6
    since = datetime.fromtimestamp(START, UTC)
    assert len(list(batches_between(node_ids=[node.pk], since=since, until=since))) == 6


def test_only_old_blocks_go(cluster):
    telemetry_store(node=cluster.node, batch=batch(START))
    telemetry_store(node=cluster.node, batch=batch(timezone.now().timestamp()))
    assert telemetry_roll_up() == 1
    assert TelemetryBlock.objects.get().start_at.timestamp() > START, "today's stays"
    assert not TelemetryMean.objects.exists(), "made, and older than 90 days at once"


def test_means_of_five_minutes(cluster):
    start = (timezone.now() - timedelta(days=2)).timestamp() // BLOCK_S * BLOCK_S
    telemetry_store(node=cluster.node, batch=batch(start, values=[10.0, None, 40.0]))
    telemetry_store(node=cluster.node, batch=batch(start + 300, values=[7.0]))
    assert telemetry_roll_up() == 1
    means = {m.start_at.timestamp() - start: m.means for m in TelemetryMean.objects.all()}
    assert means == {
        0: {"gpu0.utilisation": 25.0, "host.cpu_cores": 1.0},
        300: {"gpu0.utilisation": 7.0, "host.cpu_cores": 1.0},
    }
    assert telemetry_roll_up() == 0


def test_means_expire(cluster):
    TelemetryMean.objects.create(node=cluster.node, start_at=timezone.now() - timedelta(days=91), means={})
    TelemetryMean.objects.create(node=cluster.node, start_at=timezone.now() - timedelta(days=89), means={})
    telemetry_roll_up()
    assert TelemetryMean.objects.count() == 1


def test_a_block_with_nonsense_does_not_stop_the_roll_up(cluster):
    start = (timezone.now() - timedelta(days=2)).timestamp()
    odd = batch(start, gpus={"0": {"utilisation": ["high", 50.0], "power_w": 7}}, host={"cpu_cores": "many"})
    telemetry_store(node=cluster.node, batch=odd)
    assert telemetry_roll_up() == 1
    assert TelemetryMean.objects.get().means == {"gpu0.utilisation": 50.0}
