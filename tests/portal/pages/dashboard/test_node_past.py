"""A node's plots reach back over all that is kept: an hour by the second, a day by ten, 90 days by five minutes."""

from datetime import UTC, datetime, timedelta
from statistics import fmean

import pytest
from django.utils import timezone

from portal.cluster.models import TelemetryBlock, TelemetryMean
from portal.cluster.telemetry import BLOCK_S
from portal.cluster.telemetry_packing import telemetry_pack, telemetry_roll_up, telemetry_thin
from portal.pages.dashboard.cluster.plots import PLOTS, VIRTUAL_LACKS
from tests.portal import given

pytestmark = pytest.mark.django_db
BIN_S = {"": 15, "?range=24h": 360, "?range=7d": 2520, "?range=90d": 32_400}
"""A 240th of each range: so wide is a point of the line, which stands in the middle of it."""
SHOWN = {"": (1, 0), "?range=24h": (2, 1), "?range=7d": (3, 2), "?range=90d": (4, 2)}
"""How many of the four stretches below each range of the page reaches, and where the line breaks: bins of 90 days have 9 h."""
STRETCHES = (
    (timedelta(minutes=20), 10.0),
    (timedelta(hours=11), 20.0),
    (timedelta(days=3), 30.0),
    (timedelta(days=80), 40.0),
)
"""The time since ten minutes began in which the GPUs' use, and all else, was this much."""


def begun(now, ago):
    return (now - ago).timestamp() // BLOCK_S * BLOCK_S


@pytest.fixture
def now():
    """The present of one test: between a module's import and its last test lies as long as the whole suite takes."""
    return timezone.now().replace(microsecond=0)


@pytest.fixture
def node(cluster, now):
    """A node of which something was measured at four times, and all that the portal does with that has been done."""
    node = cluster.node
    for ago, value in STRETCHES:
        for first in range(0, BLOCK_S, 60):
            own = {"utilisation": [value] * 60, "memory_mib": [value] * 60, "power_w": [value] * 60}
            gpus = {str(gpu.index): own | {"temperature_c": [value] * 60} for gpu in node.gpus.all()}
            host = dict.fromkeys(
                "cpu_cores memory_mib net_rx_mb_s net_tx_mb_s disk_read_mb_s disk_write_mb_s".split(), [value] * 60
            )
            batch = {"start": begun(now, ago) + first, "period_s": 1.0, "count": 60, "gpus": gpus, "host": host}
            given.measured(node=node, batch=batch)
    telemetry_roll_up()
    telemetry_pack()
    telemetry_thin(now=now)
    assert TelemetryMean.objects.count() == 2, "samples that are days old are kept as means"
    assert [bytes(block.packed) for block in TelemetryBlock.objects.filter(start_at__lt=now - timedelta(hours=4))] == [
        b""
    ]
    return node


def line(client, figure, words):
    answer = client.get(f"/cluster/n1/figures/{figure}{words}")
    assert answer.status_code == 200
    trace = answer.json()["lines"][0]
    return [*zip(trace["x"], trace["y"], strict=True)]


@pytest.mark.parametrize("words", SHOWN)
def test_each_range_shows_what_lies_in_it_where_it_was(node, cluster, client, now, words):
    client.force_login(cluster.owner)
    rows = line(client, "gpu", words)
    reached, breaks = SHOWN[words]
    shown = STRETCHES[:reached]
    assert [y for _, y in rows].count(None) == breaks, "no stretch is broken up"
    kept_s = 3600 if words == "?range=90d" else 300  # a mean over so long stands where that began
    reach_s = BIN_S[words] / 2 + kept_s
    for ago, value in shown:
        first = begun(now, ago)
        at = [x for x, y in rows if y is not None and first - reach_s <= x <= first + BLOCK_S + reach_s]
        assert at, ago
        near = [y for x, y in rows if x in at and y is not None]
        assert near == pytest.approx([value] * len(near)), "a mean of measured samples only"
    assert len([y for _, y in rows if y is not None]) >= len(shown)


@pytest.mark.parametrize("figure", sorted(PLOTS))
def test_every_plot_of_the_page_reaches_back_90_days(node, cluster, client, now, figure):
    client.force_login(cluster.owner)
    html = client.get("/cluster/n1/?range=90d").content.decode()
    assert (f"/cluster/n1/figures/{figure}?range=90d" in html) or figure in VIRTUAL_LACKS
    rows = [(x, y) for x, y in line(client, figure, "?range=90d") if y is not None]
    oldest = datetime.fromtimestamp(rows[0][0], UTC)
    assert now - oldest > timedelta(days=79)
    assert fmean(y for _, y in rows) > 0
