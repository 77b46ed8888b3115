"""Telemetry is stored in small rows, packed when a block is over, rolled up by the day, read back as it came, and expired."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import given as given_any
from hypothesis import strategies as st

from portal.cluster import telemetry_packing
from portal.cluster.models import Node, TelemetryBlock, TelemetryFrame, TelemetryMean
from portal.cluster.telemetry import BLOCK_S, MEAN_S, batches_between, frame_pack, frames_of, telemetry_store
from portal.cluster.telemetry_packing import means_of, merged, telemetry_pack, telemetry_roll_up
from tests.portal import given

START = 1_700_000_000 // BLOCK_S * BLOCK_S
OLD = (timezone.now() - timedelta(days=3)).timestamp() // 86_400 * 86_400 + BLOCK_S


def batch(start, values=(10.0, 20.0), **more):
    return {
        "boot_id": "boot-1",
        "start": float(start),
        "period_s": 1.0,
        "count": len(values),
        "gpus": {"0": {"utilisation": list(values), "power_w": None}},
        "host": {"cpu_cores": [1.0] * len(values)},
    } | more


def between(node, start=START, seconds=2 * BLOCK_S, **more):
    since = datetime.fromtimestamp(start, UTC)
    until = since + timedelta(seconds=seconds)
    return [each for _, each in batches_between(node_ids=[node.pk], since=since, until=until, **more)]


def samples(batches):
    """{time: utilisation of GPU 0}, None left out."""
    return {
        round(each["start"] + k * each["period_s"], 3): value
        for each in batches
        for k, value in enumerate(each["gpus"].get("0", {}).get("utilisation") or [])
        if value is not None
    }


# ---- frames ----------------------------------------------------------------------------------------------------------


def test_batches_are_read_as_they_came(cluster):
    sent = [batch(START + 5 * n, values=[n] * 5) for n in range(4)] + [batch(START + BLOCK_S)]
    for each in sent:
        telemetry_store(node=cluster.node, batch=each)
    assert between(cluster.node) == [{k: v for k, v in each.items() if k != "boot_id"} for each in sent]


def test_the_last_sample_is_live_and_a_missing_measure_is_absent(cluster):
    telemetry_store(node=cluster.node, batch=batch(START, values=[10.0, 30.0]))
    live = Node.objects.get().live
    assert live["gpus"] == {"0": {"utilisation": 30.0}}
    assert live["at"] == START + 1


def test_batches_at_once_lose_none(shared_cluster):
    node = shared_cluster.node
    results = given.race(*[lambda n=n: telemetry_store(node=node, batch=batch(START + n)) for n in range(6)])
    assert results == [None] * 6
    assert len(between(node)) == 6


def test_a_batch_sent_again_is_there_once(cluster):
    """An agent that got no answer sends its batch again."""
    for _ in range(2):
        telemetry_store(node=cluster.node, batch=batch(START))
    assert len(between(cluster.node)) == 1


def test_a_batch_writes_its_own_bytes_only(cluster):
    """A block written whole at each batch was 4.4 MiB of log for 63 kB."""

    def written(n):
        with CaptureQueriesContext(
            connection,
        ) as captured:
            telemetry_store(node=cluster.node, batch=batch(START + 5 * n, values=[n] * 5))
        changing = [each["sql"] for each in captured if each["sql"].startswith(("INSERT", "UPDATE"))]
        return len(changing), sum(map(len, changing))

    first, *_, last = [written(n) for n in range(60)]
    assert first[0] == last[0] == 2
    assert last[1] < first[1] + 50


# ---- blocks ----------------------------------------------------------------------------------------------------------


def test_a_block_is_packed_when_it_is_over(cluster):
    now = datetime.fromtimestamp(START + BLOCK_S + 120, UTC)
    for n in range(130):
        telemetry_store(node=cluster.node, batch=batch(START + 5 * n, values=[float(n)] * 5))
    before = samples(between(cluster.node))
    assert telemetry_pack(now=now) == 1
    assert TelemetryFrame.objects.count() == 10, "those of the block that is open"
    assert samples(between(cluster.node)) == before
    (block,) = TelemetryBlock.objects.all()
    assert len(list(frames_of(bytes(block.packed)))) == 1, "joined into one series"
    assert telemetry_pack(now=now) == 0
    late = batch(START + 5 * 130, values=[9.0] * 5)
    telemetry_store(node=cluster.node, batch=late)
    telemetry_store(node=cluster.node, batch=batch(START - 5, values=[1.0] * 5))
    assert telemetry_pack(now=now + timedelta(seconds=BLOCK_S)) == 2
    assert len(samples(between(cluster.node))) == 131 * 5


def test_a_run_that_ends_early_leaves_no_node_behind_for_ever(cluster):
    """The next one began with the same nodes again, and the last ones' rows piled up."""
    second = given.node_make("n2")
    telemetry_store(node=second, batch=batch(START))
    telemetry_store(node=cluster.node, batch=batch(START + BLOCK_S))
    assert cluster.node.pk < second.pk
    clock = iter([0.0, 0.0, 9.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(telemetry_packing, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        assert telemetry_pack(limit_s=5.0) == 1
    assert TelemetryBlock.objects.get().node == second


def test_a_late_batch_joins_its_block(cluster):
    now = datetime.fromtimestamp(START + 2 * BLOCK_S, UTC)
    for at in (START, START + 10, START + 5):
        telemetry_store(node=cluster.node, batch=batch(at, values=[float(at)] * 5))
        assert telemetry_pack(now=now) == 1
    assert TelemetryBlock.objects.count() == 1
    assert len(samples(between(cluster.node))) == 15


def test_packing_that_is_cut_off_changes_nothing(cluster):
    telemetry_store(node=cluster.node, batch=batch(START))
    before = between(cluster.node)

    class Killed(BaseException):
        pass

    with pytest.raises(Killed), transaction.atomic():
        assert telemetry_pack() == 1
        raise Killed
    assert between(cluster.node) == before
    assert telemetry_pack() == 1
    assert samples(between(cluster.node)) == samples(before)


def test_two_that_pack_at_once_pack_once(shared_cluster):
    for n in range(20):
        telemetry_store(node=shared_cluster.node, batch=batch(START + 5 * n, values=[float(n)] * 5))
    before = samples(between(shared_cluster.node))
    results = given.race(telemetry_pack, telemetry_pack, telemetry_pack)
    assert sorted(results) == [0, 0, 1]
    assert samples(between(shared_cluster.node)) == before
    assert not TelemetryFrame.objects.exists()


def test_a_reader_sees_what_is_packed_between_its_looks_once(cluster):
    for n in range(20):
        telemetry_store(node=cluster.node, batch=batch(START + 5 * n, values=[float(n)] * 5))
    expected = samples(between(cluster.node))
    since, until = (datetime.fromtimestamp(START + s, UTC) for s in (0, BLOCK_S))
    frames = list(TelemetryFrame.objects.all())
    telemetry_pack()
    TelemetryFrame.objects.bulk_create(frames)  # as a reader sees it that looked at the frames before
    read = [each for _, each in batches_between(node_ids=[cluster.node.pk], since=since, until=until)]
    assert sum(each["count"] for each in read) == len(expected)
    assert samples(read) == expected


VALUES = st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=1, max_size=20)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given_any(st.lists(st.tuples(VALUES, st.integers(0, 40)), min_size=1, max_size=12))
def test_joining_loses_no_sample_and_changes_no_mean(pieces):
    at, batches = float(START), []
    for values, gap in pieces:
        batches.append(batch(at, values=values))
        at += len(values) + gap
    joined = merged(reversed(batches))
    assert samples(joined) == samples(batches)
    assert means_of(joined, start_s=START, slots=2) == means_of(batches, start_s=START, slots=2)
    assert merged(joined) == joined


# ---- means -----------------------------------------------------------------------------------------------------------


def test_only_old_days_go(cluster):
    telemetry_store(node=cluster.node, batch=batch(OLD))
    telemetry_store(node=cluster.node, batch=batch(timezone.now().timestamp()))
    assert telemetry_roll_up() == 1
    assert not TelemetryBlock.objects.exists()
    assert TelemetryFrame.objects.get().at.timestamp() > OLD, "today's stays"
    assert telemetry_roll_up() == 0


def test_means_of_five_minutes_with_the_attempts(cluster):
    own = {"7": {"memory_mib": [100.0, 200.0, None]}}
    telemetry_store(node=cluster.node, batch=batch(OLD, values=[10.0, None, 40.0], attempts=own))
    telemetry_store(node=cluster.node, batch=batch(OLD + 300, values=[7.0]))
    assert telemetry_roll_up() == 1
    (day,) = TelemetryMean.objects.all()
    assert day.start_at.timestamp() == OLD - BLOCK_S
    assert next(frames_of(bytes(day.packed)))["series"] == {
        "gpu0.utilisation": [2, [25.0, 7.0]],
        "gpu0.utilisation.low": [2, [10.0, 7.0]],
        "gpu0.utilisation.high": [2, [40.0, 7.0]],
        "host.cpu_cores": [2, [1.0, 1.0]],
        "attempt7.memory_mib": [2, [150.0]],
    }
    (read,) = between(cluster.node, OLD, 599)
    assert (read["start"], read["period_s"], read["count"]) == (OLD, MEAN_S, 2)
    assert read["gpus"]["0"]["utilisation"] == [25.0, 7.0]
    assert read["attempts"]["7"]["memory_mib"] == [150.0, None]


def test_a_block_that_comes_after_its_day_was_rolled_up_joins_it(cluster):
    for at in (OLD, OLD + BLOCK_S):
        telemetry_store(node=cluster.node, batch=batch(at, values=[5.0]))
        assert telemetry_roll_up() == 1
    (day,) = TelemetryMean.objects.all()
    assert next(frames_of(bytes(day.packed)))["series"]["gpu0.utilisation"] == [2, [5.0, None, 5.0]]


def test_a_reader_of_days_gets_the_means_of_blocks(cluster):
    for at in (START, START + 300):
        telemetry_store(node=cluster.node, batch=batch(at, values=[float(at - START), 10.0]))
    telemetry_pack()
    (coarse,) = between(cluster.node, step_s=MEAN_S)
    assert (coarse["count"], coarse["period_s"]) == (2, MEAN_S)
    assert coarse["gpus"]["0"]["utilisation"] == [5.0, 155.0]
    TelemetryBlock.objects.update(means=b"")  # a block of a version before
    assert samples(between(cluster.node, step_s=MEAN_S)) == samples(between(cluster.node))
    assert len(samples(between(cluster.node))) == 4


def test_a_reader_of_months_gets_hours_without_attempts(cluster):
    """90 days of five-minute means, with those of each attempt, took 0.8 s of CPU for one plot of 8 GPUs."""
    own = {"7": {"memory_mib": [100.0]}}
    for at, value in ((OLD, 10.0), (OLD + 600, 20.0), (OLD + 3000, 50.0)):
        telemetry_store(node=cluster.node, batch=batch(at, values=[value], attempts=own))
    telemetry_roll_up()
    asked = {"start": OLD - BLOCK_S, "seconds": 7199, "step_s": 3600, "attempts": False}
    (read,) = between(cluster.node, **asked)
    assert (read["start"], read["period_s"], read["count"]) == (OLD - BLOCK_S, 3600, 2)
    assert read["gpus"]["0"]["utilisation"] == [15.0, 50.0]
    assert read["gpus"]["0"]["utilisation.low"] == [10.0, 50.0]
    assert read["gpus"]["0"]["utilisation.high"] == [20.0, 50.0]
    assert read["host"] == {"cpu_cores": [1.0, 1.0]}
    assert read["attempts"] == {}
    (with_attempts,) = between(cluster.node, **asked | {"attempts": True})
    assert (with_attempts["period_s"], "7" in with_attempts["attempts"]) == (MEAN_S, True)
    TelemetryMean.objects.update(hours=b"")  # a day of a version before
    (fine,) = between(cluster.node, **asked)
    assert fine["period_s"] == MEAN_S
    assert [value for value in fine["gpus"]["0"]["utilisation"] if value is not None] == [10.0, 20.0, 50.0]


def test_means_expire(cluster):
    for days in (92, 89):
        at = timezone.now() - timedelta(days=days)
        TelemetryMean.objects.create(node=cluster.node, start_at=at, packed=frame_pack({"series": {}}))
    telemetry_roll_up()
    assert TelemetryMean.objects.count() == 1


def test_a_block_with_nonsense_does_not_stop_the_roll_up(cluster):
    odd = batch(OLD, gpus={"0": {"utilisation": ["high", 50.0], "power_w": 7}}, host={"cpu_cores": "many"})
    telemetry_store(node=cluster.node, batch=odd)
    assert telemetry_roll_up() == 1
    series = next(frames_of(bytes(TelemetryMean.objects.get().packed)))["series"]
    assert series["gpu0.utilisation"] == [2, [50.0]]


def test_a_flood_of_attempts_is_bounded_and_said(cluster, monkeypatch, caplog):
    monkeypatch.setattr(telemetry_packing, "ATTEMPTS_KEPT", 2)
    own = {str(k): {"cpu_cores": [1.0] * (k + 1)} for k in range(5)}
    telemetry_store(node=cluster.node, batch=batch(START, values=[1.0] * 5, attempts=own))
    telemetry_pack()
    series = next(frames_of(bytes(TelemetryBlock.objects.get().means)))["series"]
    assert {name for name in series if name.startswith("attempt")} == {"attempt3.cpu_cores", "attempt4.cpu_cores"}
    assert "5 attempts" in caplog.text
