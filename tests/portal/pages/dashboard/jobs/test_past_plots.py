"""The plots of jobs that ended days or weeks ago are there: the nodes' samples were rolled up, the attempts' own use too."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.cluster.models import TelemetryBlock, TelemetryFrame, TelemetryMean
from portal.cluster.telemetry_packing import telemetry_roll_up
from portal.work.jobs.models import Attempt, GpuAllocation, Job
from tests.portal import given

RAN_S = 1800
SAMPLES = 60


@pytest.fixture
def owner(client, cluster):
    client.force_login(cluster.owner)
    return client


def ran(world, ago, *, gpus=1, seconds=RAN_S, offset_s=70):
    """A job that ran on n1's first GPUs for a while and ended a while ago; its node measured it all the time."""
    attempt = world.running(gpus=gpus)
    world.end(attempt)
    start = (timezone.now() - ago).timestamp() // 86_400 * 86_400 + 3600 + offset_s
    began, ended = (datetime.fromtimestamp(start + s, UTC) for s in (0, seconds))
    Job.objects.filter(pk=attempt.job_id).update(submitted_at=began, started_at=began, ended_at=ended)
    # An attempt's end is guarded by its row: this one is moved into the past as a whole.
    attempt.delete()
    fields = {field.attname: getattr(attempt, field.attname) for field in Attempt._meta.concrete_fields}
    fields |= {"created_at": began, "started_at": began, "ended_at": ended, "state": "COMPLETED"}
    return Attempt.objects.create(**fields)


def measured(node, attempt, *, before_s=600):
    """Samples at 1 Hz of the attempt and of ten minutes about it; GPU 0 is at 80 while it runs, else at 5."""
    first, last = attempt.started_at.timestamp(), attempt.ended_at.timestamp()
    at = first - before_s
    while at < last + before_s:
        inside = [first <= at + k <= last for k in range(SAMPLES)]
        own = {attempt.key: {"cpu_cores": [3.0] * SAMPLES, "memory_mib": [2048.0] * SAMPLES}}
        given.measured(
            node=node,
            batch={
                "start": at,
                "period_s": 1.0,
                "count": SAMPLES,
                "gpus": {"0": {"utilisation": [80.0 + k % 2 if x else 5.0 for k, x in enumerate(inside)]}},
                "host": {"cpu_cores": [4.0] * SAMPLES},
                "attempts": own if all(inside) else {},
            },
        )
        at += SAMPLES


def allocated(attempt, node):
    part = attempt.allocations.create(node=node, rank=0, core_ids=[0], state="ended", released_at=attempt.ended_at)
    GpuAllocation.objects.create(
        allocation=part, gpu=node.gpus.get(index=0), created_at=attempt.started_at, released_at=attempt.ended_at
    )


def lines(client, attempt, name):
    figure = client.get(reverse("job-figure", args=[str(attempt.job_id), name])).json()
    return {each["name"]: [value for value in each["y"] if value is not None] for each in figure["lines"]}


@pytest.mark.parametrize("days", [2, 80])
def test_the_plots_of_a_job_that_ended_long_ago_are_there(owner, cluster, days):
    attempt = ran(cluster, timedelta(days=days))
    allocated(attempt, cluster.node)
    measured(cluster.node, attempt)
    fresh = {name: lines(owner, attempt, name) for name in ("gpu", "cores", "memory")}
    assert telemetry_roll_up() > 0
    assert not TelemetryFrame.objects.exists()
    assert not TelemetryBlock.objects.exists()
    assert TelemetryMean.objects.count() == 1
    gpu, cores, memory = (lines(owner, attempt, name) for name in ("gpu", "cores", "memory"))
    assert len(gpu["mean"]) == 5, "each five minutes that lie within the half hour"
    assert all(value == pytest.approx(80.5, abs=0.1) for value in gpu["mean"]), "nothing of the time before and after"
    assert (set(gpu["lowest"]), set(gpu["highest"])) == ({80.0}, {81.0}), "the band is that of the samples"
    assert len(cores["used"]) == 7
    assert set(cores["used"]) == set(fresh["cores"]["used"]) == {3.0}
    assert set(memory["used"]) == set(fresh["memory"]["used"]) == {2.0}


def test_a_line_of_means_is_not_broken_up(owner, cluster):
    """Means are five minutes apart; where the plot's step is seconds, each would stand alone as if much were missing."""
    attempt = ran(cluster, timedelta(days=2))
    allocated(attempt, cluster.node)
    measured(cluster.node, attempt)
    telemetry_roll_up()
    figure = owner.get(reverse("job-figure", args=[str(attempt.job_id), "memory"])).json()
    assert None not in figure["lines"][0]["y"]


def test_a_job_of_two_minutes_has_its_plots_too(owner, cluster):
    attempt = ran(cluster, timedelta(days=2), seconds=120)
    allocated(attempt, cluster.node)
    measured(cluster.node, attempt)
    telemetry_roll_up()
    assert lines(owner, attempt, "memory")["used"] == [2.0]
    assert lines(owner, attempt, "gpu")["mean"]


def test_a_node_that_ran_over_midnight_is_read_over_both_days(cluster):
    node = cluster.node
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=3)
    for minutes in (-10, 10):
        at = (midnight + timedelta(minutes=minutes)).timestamp()
        batch = {"start": at, "period_s": 1.0, "count": 2, "gpus": {}, "host": {"cpu_cores": [1.0, 1.0]}}
        given.measured(node=node, batch=batch)
    telemetry_roll_up()
    assert TelemetryMean.objects.count() == 2
    from portal.cluster.telemetry import batches_between

    found = batches_between(
        node_ids=[node.pk], since=midnight - timedelta(minutes=15), until=midnight + timedelta(minutes=15)
    )
    values = [value for _, each in found for value in each["host"].get("cpu_cores", []) if value is not None]
    assert values == [1.0, 1.0]


def test_many_nodes_are_read_as_means(owner, cluster, monkeypatch):
    """A job of 100 nodes and a day would be unpacked second by second for minutes."""
    from portal.cluster import telemetry

    monkeypatch.setattr(telemetry, "BLOCKS_IN_FULL", 1)
    attempt = ran(cluster, timedelta(days=0))
    allocated(attempt, cluster.node)
    measured(cluster.node, attempt)
    from portal.cluster.telemetry_packing import telemetry_pack

    telemetry_pack(now=timezone.now() + timedelta(days=2))
    assert len(lines(owner, attempt, "gpu")["mean"]) == 5


def test_a_figure_reads_of_runs_what_it_shows(owner, cluster):
    attempt = ran(cluster, timedelta(days=2))
    allocated(attempt, cluster.node)
    measured(cluster.node, attempt)
    for name in ("gpu", "cores", "memory"):
        with CaptureQueriesContext(connection) as queries:
            assert owner.get(reverse("job-figure", args=[attempt.job_id, name])).status_code == 200
            sent = " ".join(query["sql"] for query in queries)
        assert "jobs_allocation" in sent
        assert not [table for table in ("jobs_slowing", "jobs_coresearch", "jobs_corestep") if table in sent], name
