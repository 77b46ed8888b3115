"""The queue page: the window drawn into each array's order, foreign jobs masked, a constant number of queries."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.cluster.models import Node
from portal.pages.dashboard.queue.page import PAGE_ROWS
from portal.people.tenants.models import Tenant
from portal.planning.rounds.models import Planning, StartForecast
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update
from portal.work.jobs.models import Job
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
    assert "The GPUs that it leaves idle are offered to those below." in shown
    assert "gpus-scattered" in shown or "not-enough-idle-gpus" in shown
    assert "1 more idle GPU" in shown


def test_the_overview_shows_who_is_next_in_the_same_order(client, crowd):
    """It went only by rank, so that a job stood first there which another tenant's job precedes in its queue."""
    client.force_login(given.operator(), backend="django.contrib.auth.backends.ModelBackend")
    orders = []
    for path in ("/queue/", "/fragments/overview/next"):
        shown = client.get(path).content.decode()
        names = ["secret-name", *(job.name for job in crowd.jobs)]
        orders.append(sorted(names, key=shown.index))
    assert orders[0] == orders[1] == ["secret-name", "mine-0", "mine-1", "mine-2"]


def test_who_has_a_start_range_stands_by_it_with_when_where_and_what_must_end_first(client, crowd):
    now = timezone.now()
    order = [crowd.jobs[1], crowd.foreign, crowd.jobs[0]]
    for place, job in enumerate(order):
        ends = [now + timedelta(minutes=10 * place + far) for far in (2, 5, 8)]
        row = {"earliest_at": ends[0], "median_at": ends[1], "latest_at": ends[2]}
        StartForecast.objects.create(job=job, epoch=0, at=now, first_at=now, first_earliest_at=now, **row)
    StartForecast.objects.filter(job=crowd.jobs[0]).update(latest_at=now - timedelta(minutes=1))
    Node.objects.filter(name="n1").update(name="kept-node")
    kept = [{"job": crowd.jobs[1].pk, "nodes": [Node.objects.get(name="kept-node").pk], "until": now.isoformat()}]
    Planning.objects.filter(pk=Planning.objects.order_by("-number").first().pk).update(reservations=kept)
    shown = next_rows(client, crowd.owner)
    assert [row[0].split(" ", 1)[1].split(" vision")[0] for row in shown if "#" in row[0]] == [
        "mine-1",
        "mine-0",
        "mine-2",
    ]
    assert shown[1][0].startswith("a job of another tenant")
    assert "on kept-node, when what runs there has ended" in shown[0][1]
    assert shown[1][1] == crowd.foreign.__class__.objects.get(pk=crowd.foreign.pk).reason, "of others no figures"
    assert "1 more idle GPU" in shown[3][1] or "turn" in shown[3][1]
    assert [row[2].split(" waited")[0] for row in shown] == [
        *(f"{now + timedelta(minutes=a):%H:%M} – {now + timedelta(minutes=b):%H:%M}" for a, b in ((2, 8), (12, 18))),
        "overdue",
        "–",
    ]


def next_rows(client, user):
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    body = client.get("/fragments/overview/next").content.decode().partition("<tbody>")[2]
    cells = [re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [[" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in row] for row in cells]


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
