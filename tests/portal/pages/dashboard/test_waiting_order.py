"""The list by waiting time counts what a waiting job waits now, as the column shows it."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.pages.dashboard.jobs.order import jobs_ordered, page_sorted
from portal.pages.dashboard.jobs.query import GROUPS, ListQuery
from portal.planning.rounds.read.selectors import waited_s
from portal.work.jobs.models import Job
from portal.work.jobs.states import JobState
from tests.portal import given


@pytest.fixture
def waited(cluster):
    """Jobs by their waiting times: an ended one that waited once, and waiting ones with and without an earlier stretch."""
    now = timezone.now()
    rows = {
        "ended after 50 s": {"state": JobState.COMPLETED, "waited_s": 50, "ended_at": now},
        "waits for an hour": {"waited_s": 0, "waiting_since": now - timedelta(hours=1)},
        "waits for 20 s, as for 600 s before": {"waited_s": 600, "waiting_since": now - timedelta(seconds=20)},
        "not eligible": {"waited_s": 5, "waiting_since": None},
        "since a moment that is to come": {"waited_s": 30, "waiting_since": now + timedelta(hours=1)},
    }
    common = {"tenant": cluster.tenant, "owner": cluster.owner, "gpus": [1], "submitted_at": now}
    return [
        Job.objects.create(name=name, **{"state": JobState.PENDING, **common, **fields})
        for name, fields in rows.items()
    ]


@pytest.mark.parametrize("sort", ["waited", "-waited"])
def test_the_present_stretch_counts(waited, sort):
    names = [job.name for job in sorted(waited, key=waited_s, reverse=sort.startswith("-"))]
    assert [job.name for job in page_sorted(Job.objects.all(), sort, 0, 9, total=len(waited), named={})] == names
    assert [job.name for job in jobs_ordered(Job.objects.all(), sort, GROUPS)] == names


@pytest.mark.parametrize("reader", ["member", "operator"])
@pytest.mark.skipif(connection.vendor != "sqlite", reason="a plan of Postgres depends on the tables' sizes")
def test_the_keys_come_from_an_index_alone(waited, cluster, reader):
    """Rows of jobs are wide: a database that reads them all for fifty keys takes three times as long."""
    user = given.operator() if reader == "operator" else cluster.owner
    with CaptureQueriesContext(connection) as captured:
        page_sorted(ListQuery().jobs(user=user), "-waited", 0, 2, total=len(waited), named={})
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {captured[0]['sql']}")
        plan = [row[3] for row in cursor.fetchall()]
    (jobs,) = [line for line in plan if " jobs_job" in line]
    assert "USING COVERING INDEX job_top_by_tenant" in jobs, plan
