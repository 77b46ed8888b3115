"""Active rates over h and utilisation as CODA's eq. 1 has them, of a cluster and of each node."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.models import Node
from portal.planning.rounds.record.metrics import utilisations_now
from portal.work.jobs.held_time import active_rates
from portal.work.jobs.models import Allocation, Attempt, GpuAllocation
from tests.portal import given
from tests.portal.scraping import scraper

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def rates_of(node, hours=1):
    node.refresh_from_db()
    found = active_rates([node], hours=hours, now=NOW)[node.pk]
    return tuple(None if rate is None else pytest.approx(rate) for rate in (found.gpus, found.cores))


def held(attempt, *, since_min, until_min=None):
    """Move an attempt to have held what it holds from so many minutes ago until so many."""
    at, end = NOW - timedelta(minutes=since_min), until_min and NOW - timedelta(minutes=until_min)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=at)
    Allocation.objects.filter(attempt=attempt).update(released_at=end)
    GpuAllocation.objects.filter(allocation__attempt=attempt).update(created_at=at, released_at=end)


def test_a_node_s_rates_are_what_jobs_held_of_it_over_h(cluster):
    Node.objects.update(registered_at=NOW - timedelta(days=1))
    assert rates_of(cluster.node) == (0.0, 0.0)
    held(cluster.running(gpus=2, cores=4), since_min=30)
    assert rates_of(cluster.node) == (0.25, 0.25), "half an hour of two of four GPUs, and of four of eight cores"
    assert rates_of(cluster.node, hours=2) == (0.125, 0.125)
    held(cluster.running(gpus=1, cores=1), since_min=90, until_min=45)
    assert rates_of(cluster.node) == (0.25 + 0.25 * 0.25, 0.25 + 0.125 * 0.25)


def test_a_node_that_joined_within_h_counts_from_then(cluster):
    Node.objects.update(registered_at=NOW - timedelta(minutes=10))
    held(cluster.running(gpus=4, cores=8), since_min=5)
    assert rates_of(cluster.node) == (0.5, 0.5)
    plain = given.node_make("plain", gpus=0)
    Node.objects.filter(pk=plain.pk).update(registered_at=NOW)
    assert rates_of(plain) == (None, None)


def test_rates_of_many_nodes_cost_four_queries(cluster, django_assert_num_queries):
    nodes = [cluster.node, *(given.node_make(f"m{n}") for n in range(5))]
    with django_assert_num_queries(4):
        active_rates(nodes, hours=1, now=NOW)


def test_utilisation_is_the_mean_over_what_is_held_and_measured(cluster):
    assert utilisations_now() == {"utilisation": None, "cpu_utilisation": None}
    first, second = cluster.running(gpus=2, cores=4), cluster.running(gpus=1, cores=2)
    uses = {"0": {"utilisation": 40.0}, "1": {"utilisation": 60.0}, "3": {"utilisation": 100.0}}
    attempts = {first.key: {"cpu_cores": 1.0}, second.key: {"cpu_cores": 9.0}}
    live = {"at": timezone.now().timestamp(), "gpus": uses, "host": {}, "attempts": attempts}
    Node.objects.update(live=live)
    assert utilisations_now() == {"utilisation": 50.0, "cpu_utilisation": 50.0}, "one of four cores, and two of two"
    Node.objects.update(live=live | {"at": 0})
    assert utilisations_now() == {"utilisation": None, "cpu_utilisation": None}


def test_the_rates_stand_in_rest_and_in_metrics(cluster, client):
    Node.objects.update(registered_at=NOW - timedelta(days=1))
    held(cluster.running(gpus=2, cores=4), since_min=30)
    client.force_login(cluster.owner)
    shown = client.get("/api/v1/nodes/n1").json()
    (listed,) = client.get("/api/v1/nodes?hours=2").json()["results"]
    most = 0.25 + 0.5 * (timezone.now() - NOW) / timedelta(hours=1)  # it goes on holding half of the node
    assert 0.25 <= shown["gpu_active_rate"] <= most
    assert 0.25 <= shown["cpu_active_rate"] <= most
    assert 0.125 <= listed["gpu_active_rate"] <= most / 2
    assert client.get("/api/v1/nodes?hours=0").status_code == 400
    text = scraper().get("/metrics").content.decode()
    for what in ("gpu", "cpu"):
        (told,) = re.findall(rf'berth_node_{what}_active_ratio{{hours="1",node="n1"}} (.+)', text)
        assert 0.25 <= float(told) <= 0.25 + 0.5 * (timezone.now() - NOW) / timedelta(hours=1)
