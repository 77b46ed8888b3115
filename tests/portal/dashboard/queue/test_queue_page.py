"""The queue page: the window drawn into each array's order, foreign jobs masked, a constant number of queries."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.dashboard.queue.page import PAGE_ROWS
from portal.jobs.models import Job
from portal.rounds.models import Planning
from portal.rounds.planning.run import planning_run
from portal.rounds.services import settings_update
from portal.tenants.models import Tenant
from tests.portal import given

pytestmark = pytest.mark.django_db


@pytest.fixture
def crowd(cluster):
    """A full node of 4 GPUs, two tenants, and jobs waiting in front, backfill and beyond the window."""
    settings_update(actor=None, policy="berth", arrays="off")
    cluster.other = given.member("otto", Tenant.objects.create(name="speech-lab"))
    cluster.started(gpus=3)
    cluster.jobs = [cluster.submit(name=f"mine-{n}", gpus=2, restartable=True) for n in range(3)]
    cluster.foreign = cluster.submit(name="secret-name", gpus=2, user=cluster.other)
    planning_run()
    return cluster


def page(client, user, query=""):
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    answer = client.get(f"/queue/{query}")
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def test_the_order_is_that_of_the_turns_with_the_borders_drawn(client, crowd):
    shown = page(client, crowd.owner)
    places = [shown.index(word) for word in ("another tenant", "mine-0", "The window ends here", "mine-1", "mine-2")]
    assert places == sorted(places)
    assert "It considered <strong>2 jobs</strong> and started none." in shown
    assert "What it leaves idle is offered to those below." in shown
    assert "gpus-scattered" in shown or "not-enough-idle-gpus" in shown
    assert "1 more idle GPU" in shown


def test_the_overview_shows_who_is_next_in_the_same_order(client, crowd):
    """It went by rank alone, so that a job stood first there which another tenant's job precedes in its queue."""
    client.force_login(given.operator(), backend="django.contrib.auth.backends.ModelBackend")
    orders = []
    for path in ("/queue/", "/fragments/overview/next"):
        shown = client.get(path).content.decode()
        names = ["secret-name", *(job.name for job in crowd.jobs)]
        orders.append(sorted(names, key=shown.index))
    assert orders[0] == orders[1] == ["secret-name", "mine-0", "mine-1", "mine-2"]


def test_a_tenant_sees_of_foreign_jobs_the_place_alone(client, crowd):
    shown = page(client, crowd.owner)
    assert "secret-name" not in shown
    assert "speech-lab" not in shown
    assert f"#{crowd.foreign.pk}" not in shown
    assert shown.count("a job of another tenant") == 1
    assert "mine-0" not in page(client, crowd.other)


def test_an_operator_sees_all(client, crowd):
    shown = page(client, given.operator())
    for word in ("secret-name", "speech-lab", "mine-0", "vision-lab"):
        assert word in shown
    assert "another tenant" not in shown


def test_a_job_that_came_or_left_since_is_said(client, crowd):
    crowd.submit(name="newcomer")
    Job.objects.filter(pk=crowd.jobs[0].pk).update(state="CANCELLED", waiting_since=None)
    shown = page(client, crowd.owner)
    assert "1 came since" in shown
    assert "Cancelled" in shown


def test_pages_and_queries_do_not_grow_with_the_queue(client, crowd):
    template = crowd.jobs[0]
    fields = {f.name: getattr(template, f.name) for f in Job._meta.concrete_fields if f.name != "id"}
    costs = []
    for more in (2, 3 * PAGE_ROWS):
        Job.objects.bulk_create(Job(**fields) for _ in range(more))
        planning_run()
        page(client, crowd.owner)
        with CaptureQueriesContext(connection) as queries:
            client.get("/queue/")
        costs.append(len(queries))
    assert costs[0] == costs[1] <= 16
    second = page(client, crowd.owner, "?gpu-small=2")
    assert f">{PAGE_ROWS + 1}<" in second
    assert "gpu-small=3" in second
    assert client.get("/queue/?gpu-small=x").status_code == 400


def test_what_is_kept_for_whom_is_said_and_masked(client, crowd):
    planning = Planning.objects.first()
    planning.reservations = [
        {"job": job.pk, "nodes": [crowd.node.pk], "until": "2026-11-21T14:05:00+00:00"}
        for job in (crowd.jobs[0], crowd.foreign)
    ]
    planning.save()
    shown = page(client, crowd.owner)
    assert "Kept for jobs" in shown
    assert re.search(r"#\d+</a> mine-0: n1, until it starts, when what runs there has ended: by about", shown)
    assert "a job of another tenant: n1" in shown
    assert "secret-name" not in shown


def test_before_the_first_planning_it_says_so(client, cluster):
    assert "No job waits for its turn" in page(client, cluster.owner)
