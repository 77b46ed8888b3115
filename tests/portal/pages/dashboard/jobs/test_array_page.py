"""An array's page: its counts agree with one another and with the database, failures stand first, and it costs the same at any size."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.jobs.array.page import TaskQuery, array_body, array_sums, array_tasks
from portal.work.jobs.models import Job
from portal.work.jobs.services.logs import log_append
from portal.work.jobs.services.retrying import job_retry
from tests.portal import given
from tests.portal.pages.dashboard.test_templates import Page

pytestmark = pytest.mark.django_db


@pytest.fixture
def big(cluster):
    cluster.node = given.node_make("big", gpus=0, cores=400)
    return cluster


@pytest.fixture
def owner(client, big):
    client.force_login(big.owner)
    return client


def array(cluster, size, states=()):
    """An array whose first tasks ended in the given states, as (state, exit code)."""
    parent = cluster.submit(gpus=0, array={"size": size}, name="sweep")
    made = list(Job.objects.filter(array=parent).order_by("array_index"))
    for task, (state, code) in zip(made, states, strict=False):
        Job.objects.filter(pk=task.pk).update(
            state=state, exit_code=code, ended_at=timezone.now(), waiting_since=None, epoch=1, ran_s=61
        )
    counts = {}
    for state in Job.objects.filter(array=parent).values_list("state", flat=True):
        counts[state] = counts.get(state, 0) + 1
    Job.objects.filter(pk=parent.pk).update(array_counts=counts, state="RUNNING" if states else "PENDING")
    return Job.objects.get(pk=parent.pk)


def filled(parent, size, state="COMPLETED"):
    """Give an array `size` ended tasks, past the services."""
    now = timezone.now()
    Job.objects.filter(array=parent).delete()
    row = {
        "tenant_id": parent.tenant_id,
        "owner_id": parent.owner_id,
        "name": "sweep",
        "gpus": [0],
        "submitted_at": now,
    }
    Job.objects.bulk_create(
        (
            Job(
                **row,
                array=parent,
                array_index=index,
                state="FAILED" if index % 100 == 7 else state,
                ended_at=now,
                exit_code=index % 100 == 7,
                epoch=1,
            )
            for index in range(size)
        ),
        batch_size=2000,
    )
    failed = (size + 92) // 100
    counts = {state: size - failed, "FAILED": failed}
    Job.objects.filter(pk=parent.pk).update(array_made=size, array_size=size, array_counts=counts, state="RUNNING")
    return Job.objects.get(pk=parent.pk)


ENDS = [("COMPLETED", 0)] * 5 + [("OUT_OF_MEMORY", None)] * 2 + [("FAILED", 1), ("FAILED", 1), ("FAILED", 2)]


def test_everything_on_it_agrees(owner, big):
    parent = array(big, 200, ENDS)
    html = owner.get(reverse("job-detail", args=[parent.number])).content.decode()
    Page(html)
    assert array_sums(parent) == {"done": 5, "fail": 5, "wait": 190, "run": 0, "stop": 0}
    assert "<strong>5 of 200</strong> tasks are done; <strong>5 failed</strong>, 190 waiting." in html
    assert len(re.findall(r'class="b-task-wait"', html)) == 190
    assert len(re.findall(r'class="b-task-fail"', html)) == 5
    assert "Run 5 failed again" in html
    assert "100 more are made as these start." in html
    assert "exit 1 (2), exit 2 (1)" in html
    assert "1\u201350 of 100 tasks, failed first" in html


def test_failed_come_first_then_what_runs(big):
    parent = array(big, 60, ENDS)
    rows = array_tasks(parent, TaskQuery())["rows"]
    assert [row["index"] for row in rows[:6]] == [5, 6, 7, 8, 9, 10]
    assert rows[0]["row"]["actions"] == ["retry"]
    second = array_tasks(parent, TaskQuery(page=2))["rows"]
    assert [row["index"] for row in second] == [55, 56, 57, 58, 59, 0, 1, 2, 3, 4]
    only = array_tasks(parent, TaskQuery(state="done"))
    assert [row["index"] for row in only["rows"]] == [0, 1, 2, 3, 4]
    assert [row["index"] for row in array_tasks(parent, TaskQuery(first=57))["rows"]] == [57, 58, 59]


def test_failures_name_the_remedy_and_the_last_error_line(big):
    parent = big.submit(gpus=0, array={"size": 2})
    attempt = big.start(Job.objects.get(array=parent, array_index=0), gpus=0)
    big.report(attempt, "running")
    for stream, data in (("stdout", b"all fine\n"), ("stderr", b"Traceback\n  File x\nKeyError: 'fold'\n\n")):
        log_append(node=big.node, key=attempt.key, epoch=1, rank=0, stream=stream, offset=0, data=data)
    big.end(attempt, exit_code=127)
    (group,) = array_body(Job.objects.get(pk=parent.pk))["failures"]
    assert (group["state"], group["count"], group["codes"], group["line"]) == (
        "FAILED",
        1,
        "exit 127 (1)",
        "KeyError: 'fold'",
    )
    assert "was not found" in group["remedy"]


def test_tasks_that_signals_ended_are_told_beside_those_with_exit_codes(big):
    parent = big.submit(gpus=0, array={"size": 3})
    for index, end in enumerate([{"signal": 9}, {"exit_code": 2}, {"signal": 9}]):
        attempt = big.start(Job.objects.get(array=parent, array_index=index), gpus=0)
        big.report(attempt, "running")
        big.end(attempt, **end)
    (group,) = array_body(Job.objects.get(pk=parent.pk))["failures"]
    assert (group["count"], group["codes"]) == (3, "signal 9 (2), exit 2 (1)")


def test_a_group_is_retried_from_the_page(owner, big):
    parent = array(big, 20, ENDS)
    url = reverse("job-action", args=[parent.number, "retry"])
    assert "`state` must be one of" in owner.post(url, {"state": "COMPLETED"}, follow=True).content.decode()
    assert Job.objects.get(pk=parent.pk).array_counts == parent.array_counts
    owner.post(url, {"state": "OUT_OF_MEMORY"})
    parent.refresh_from_db()
    assert parent.array_counts == {"COMPLETED": 5, "FAILED": 3, "PENDING": 12}
    owner.post(url)
    parent.refresh_from_db()
    assert parent.array_counts == {"COMPLETED": 5, "PENDING": 15}
    assert "failed-first" not in owner.get(reverse("job-detail", args=[parent.number])).content.decode()


def test_what_is_to_be_retried_counts_as_waiting(big):
    parent = array(big, 10, ENDS)
    Job.objects.filter(pk=parent.pk).update(array_concurrency=1)
    Job.objects.filter(array=parent, array_index=0).update(state="RUNNING", ended_at=None)
    parent = job_retry(job=parent, actor=big.owner)
    sums = array_sums(parent)
    assert (parent.array_retries, sums["fail"], sums["wait"]) == (5, 0, 5)
    body = array_body(parent)
    assert body["failures"] == []
    tokens = [cell["token"] for row in body["grid"]["rows"] for cell in row["cells"]]
    assert (tokens.count("fail"), tokens.count("wait")) == (0, 5)


@pytest.mark.parametrize("query", ["state=nothing", "page=x", "page=-1", "from=9999999999999", "from=x"])
def test_a_wrong_address_says_what_is_wrong(owner, big, query):
    parent = array(big, 3)
    for url in (reverse("job-detail", args=[parent.number]), reverse("job-fragment", args=[parent.number, "tasks"])):
        answer = owner.get(f"{url}?{query}")
        assert answer.status_code == 400
        assert query.partition("=")[0] in answer.content.decode()


def test_a_page_beyond_the_end_is_empty(big):
    assert array_tasks(array(big, 3), TaskQuery(page=10**6))["rows"] == []


def test_it_costs_the_same_queries_and_stays_small_at_any_size(owner, big):
    few, many = array(big, 3, ENDS[:3] + ENDS[7:]), filled(array(big, 3), 2500)
    counts, sizes = [], []
    for parent in (few, many):
        owner.get(reverse("job-detail", args=[parent.number]))
        with CaptureQueriesContext(connection) as queries:
            html = owner.get(reverse("job-detail", args=[parent.number])).content
        counts.append(len(queries))
        sizes.append(len(html))
    assert counts[1] <= counts[0] + 6, counts  # a kind of failure more
    assert sizes[1] < 300_000
    cells = [cell for row in array_body(many)["grid"]["rows"] for cell in row["cells"]]
    assert len(cells) == 834
    assert cells[2]["title"] == "tasks 6\u20138: 1 failed, 2 completed"
    assert sum(cell["token"] == "fail" for cell in cells) == 25


def test_an_opened_array_of_the_list_says_how_many_more_there_are(owner, big):
    parent = array(big, 120, ENDS)
    html = owner.get(reverse("job-tasks", args=[parent.number])).content.decode()
    assert html.count("<tr") == 51
    assert "All 120 tasks" in html
    assert html.index(f"#{parent.pk}_5<") < html.index(f"#{parent.pk}_10<")


def test_the_list_behind_each_count_holds_what_was_counted(owner, big):
    """A failed task that shall be tried again waits; a bad end's other tasks are only those of that end."""
    parent = array(big, 20, [*ENDS, *[("OUT_OF_MEMORY", None)] * 8])
    bad = Job.objects.filter(array=parent, state__in=["FAILED", "OUT_OF_MEMORY"]).order_by("array_index")
    again = list(bad.values_list("pk", flat=True)[1:4])
    Job.objects.filter(pk__in=again).update(retry_asked_at=timezone.now())
    Job.objects.filter(pk=parent.pk).update(array_retries=3)
    page = owner.get(reverse("job-detail", args=[parent.number]))
    assert {chip["label"]: chip["count"] for chip in page.context["tasks"]["chips"]} == {
        "All": 20,
        "Failed": 10,
        "Waiting": 5,
        "Completed": 5,
    }
    links = {chip["url"]: chip["count"] for chip in page.context["tasks"]["chips"]}
    groups = {group["state"]: (group["count"], group["more"]) for group in page.context["array"]["failures"]}
    assert groups == {"OUT_OF_MEMORY": (9, 3), "FAILED": (1, 0)}
    assert 'and <a href="?state=OUT_OF_MEMORY#tasks">3 more</a>' in page.content.decode()
    links |= {f"?state={state}": count for state, (count, _) in groups.items()}
    for url, count in links.items():
        tasks = owner.get(reverse("job-detail", args=[parent.number]) + url).context["tasks"]
        assert len(tasks["rows"]) == count, url
        assert tasks["paging"]["summary"].split(" ")[2] == str(count), url
        assert [chip["count"] for chip in tasks["chips"] if chip["selected"]] == [count], url


def test_a_folded_cell_shows_a_task_that_shall_be_tried_again_as_waiting(big):
    parent = filled(array(big, 3), 2500)
    Job.objects.filter(array=parent, array_index=7).update(retry_asked_at=timezone.now())
    Job.objects.filter(pk=parent.pk).update(array_retries=1)
    cells = [cell for row in array_body(Job.objects.get(pk=parent.pk))["grid"]["rows"] for cell in row["cells"]]
    assert (cells[2]["token"], cells[2]["title"]) == ("wait", "tasks 6\u20138: 1 waiting, 2 completed")
