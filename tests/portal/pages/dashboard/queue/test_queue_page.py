"""The queue page: the window drawn into each array's order, foreign jobs masked, a constant number of queries."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

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


def foretell(job, minutes, *, past=False):
    now = timezone.now()
    ends = [now + timedelta(minutes=-5 if past else minutes + far) for far in (0, 3, 6)]
    row = dict(zip(("earliest_at", "median_at", "latest_at"), ends, strict=True))
    StartForecast.objects.create(job=job, epoch=0, at=now, first_at=now, first_earliest_at=now, **row)


def rows(shown):
    """The cells of the table, as texts."""
    body = shown.partition("<tbody>")[2].partition("</tbody>")[0]
    body = re.sub(r'<span class="b-phone-only b-second">.*?</span>', "", body)
    cells = [re.findall(r"<td.*?>(.*?)</td>", row) for row in body.split("</tr>")[:-1]]
    return [[" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in row] for row in cells]


def test_who_is_expected_to_start_stands_first_then_the_others_by_their_turn(client, crowd):
    first = rows(page(client, crowd.owner))
    assert [row[0] for row in first] == ["another tenant", "mine-0", "mine-1", "mine-2"]
    assert {row[4] for row in first} == {"not known yet"}
    foretell(crowd.jobs[2], 10)
    foretell(crowd.jobs[1], 20)
    foretell(crowd.foreign, 0, past=True)
    found = rows(page(client, crowd.owner))
    assert [row[0] for row in found] == ["another tenant", "mine-2", "mine-1", "mine-0"]
    assert found[0][4] == "overdue"
    assert re.fullmatch(r"about \d\d:\d\d \d\d:\d\d to \d\d:\d\d", found[1][4])


def test_the_reason_is_in_words_and_its_code_in_the_title(client, crowd):
    shown = page(client, crowd.owner)
    own, foreign = rows(shown)[1], rows(shown)[0]
    assert own[1] == foreign[1] == "2 GPUs"
    assert own[2] == "1 free"
    assert foreign[2] == "too few GPUs are free", "of others no figures"
    assert 'title="not-enough-idle-gpus"' in shown
    assert "4 jobs wait</strong>, 3 of them yours." in shown
    plain = re.sub("<[^>]*>", " ", shown)
    for word in ("window", "backfill", "front", "not-enough", "latency", "LR", "planning"):
        assert word not in plain, word


def test_one_s_own_are_listed_apart(client, crowd):
    assert [row[0] for row in rows(page(client, crowd.owner, "?whose=mine"))] == ["mine-0", "mine-1", "mine-2"]
    assert "None of your jobs waits." in page(client, given.operator(), "?whose=mine")
    assert client.get("/queue/?whose=otto").status_code == 400


def test_tasks_of_one_array_that_stand_together_are_one_row(client, crowd):
    crowd.submit(name="sweep", gpus=1, array={"size": 5})
    planning_run()
    (row,) = [row for row in rows(page(client, crowd.owner)) if row[0].startswith("sweep")]
    assert row[0] == "sweep, 4 tasks", "one of them got the free GPU"
    assert row[1] == "1 GPU each"


def test_a_tenant_sees_no_name_of_a_foreign_job(client, crowd):
    shown = page(client, crowd.owner)
    assert "secret-name" not in shown
    assert "speech-lab" not in shown
    assert "otto" not in shown
    assert f"#{crowd.foreign.pk}" not in shown
    assert f"/jobs/{crowd.foreign.pk}/" not in shown
    assert rows(shown)[0][0] == "another tenant"
    assert "mine-0" not in page(client, crowd.other)


def test_how_the_queue_is_divided_is_for_operators(client, crowd):
    told = page(client, given.operator())
    assert "How the queue is divided" in told
    assert "GPU jobs: 4 wait. It looked at 2, which ask for 4 GPUs" in told
    assert "1 of 4" in rows(told)[0][3]
    assert "times" in rows(told)[1][4] or "its run time" in rows(told)[1][4]
    plain = page(client, crowd.owner)
    for word in ("How the queue is divided", "looked at", "its run time", "Kept for"):
        assert word not in plain, word


def test_an_operator_sees_all(client, crowd):
    shown = page(client, given.operator())
    for word in ("secret-name", "speech-lab", "mine-0", "vision-lab"):
        assert word in shown
    assert "another tenant" not in shown


def test_a_job_that_came_since_is_there_and_one_that_left_is_not(client, crowd):
    crowd.submit(name="newcomer")
    Job.objects.filter(pk=crowd.jobs[0].pk).update(state="CANCELLED", waiting_since=None)
    shown = {row[0]: row for row in rows(page(client, crowd.owner))}
    assert "mine-0" not in shown
    assert shown["newcomer"][2].startswith("not looked at yet, within ")


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
    assert costs[0] == costs[1] <= 20
    second = page(client, crowd.owner, "?page=2")
    assert f"{PAGE_ROWS + 1}–{2 * PAGE_ROWS} of " in second
    assert "?page=3" in second
    assert len(rows(second)) == PAGE_ROWS
    assert client.get("/queue/?page=x").status_code == 400


def test_what_is_kept_for_whom_is_said_to_operators(client, crowd):
    planning = Planning.objects.first()
    planning.reservations = [
        {"job": job.pk, "nodes": [crowd.node.pk], "until": "2026-11-21T14:05:00+00:00"}
        for job in (crowd.jobs[0], crowd.foreign)
    ]
    planning.save()
    shown = page(client, given.operator())
    assert re.search(r"Kept for <a href=\"/jobs/\d+/\">#\d+</a> mine-0: n1, until it starts", shown)
    assert "secret-name" not in page(client, crowd.owner)


def test_before_the_first_planning_it_says_so(client, cluster):
    shown = page(client, cluster.owner)
    assert "Nobody waits." in shown
    assert "No job waits." in shown
