"""`./berth bench round`: its keys, a constant number of statements, and its refusals. Times are never asserted."""

import json

import pytest

from portal.cluster.models import Gpu
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Job, JobEvent
from research.bench.errors import BenchError
from research.bench.filling import database_fill
from research.bench.round import STEPS, round_measure, round_report
from tests.portal import given

pytestmark = pytest.mark.django_db


def test_plannings_from_the_database_and_back():
    figures = round_measure(gpus=40, jobs=30, seed=2, repeat=2)
    for policy in ("berth", "hops"):
        own = json.loads(round_report(figures, as_json=True))[policy]
        assert own["placed"] > 0
        assert own["queries"] > 10
        assert all(own[name]["p95"] >= own[name]["p50"] >= 0 for name in STEPS)
        assert policy in round_report(figures, as_json=False)
    assert Job.objects.filter(state="PENDING").count() == 30, "what was placed waits again"
    assert not JobEvent.objects.filter(kind="placed").exists()
    assert not given.violations()


def test_the_number_of_statements_does_not_depend_on_the_queue():
    """Section 7, at scale: a planning of three times the jobs and GPUs sends as many statements."""
    counts = []
    for gpus, jobs in ((24, 40), (80, 120)):
        figures = round_measure(gpus=gpus, jobs=jobs, seed=3, policies=("hops",), repeat=2)
        counts.append(figures["hops"]["queries"])
        given.empty()
    assert counts[0] == counts[1]


def test_the_cluster_is_partly_busy_and_the_same_for_a_seed():
    database_fill(gpus=80, jobs=10, seed=4)
    held = Gpu.objects.filter(allocations__released_at=None, allocations__isnull=False).count()
    assert held == 24
    assert Job.objects.filter(state="RUNNING").count() > 1
    assert Tenant.objects.count() == 8


@pytest.mark.parametrize("wrong", [{"gpus": 0}, {"jobs": 0}, {"repeat": 0}])
def test_refusals(wrong):
    with pytest.raises(BenchError, match="at least 1"):
        round_measure(**{"gpus": 8, "jobs": 1, "seed": 1, "repeat": 1} | wrong)


def test_a_database_in_use_is_left_alone(cluster):
    with pytest.raises(BenchError, match="empty"):
        round_measure(gpus=8, jobs=1, seed=1)
