"""Pages and lists cost a constant number of queries, and late pages, searches and a node's page read no more than they show."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.jobs.query import ListQuery
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job, JobText
from portal.work.jobs.queue_counts import queue_counts
from portal.work.jobs.searching import jobs_found, text_of
from portal.work.jobs.services.control import job_cancel
from portal.work.jobs.use import usage_of
from tests.portal import given

pytestmark = pytest.mark.slow

PAGES = {
    "node-detail": ({"name": "n1"}, ""),
    "node-fragment": ({"name": "n1", "fragment": "gpus"}, ""),
    "node-figure": ({"name": "n1", "figure": "gpu"}, ""),
    "job-list": ({}, "sort=-start&page=2"),
    "job-list by tenant": ({}, "sort=tenant"),
    "search": ({}, "q=job"),
    "job-submit": ({}, ""),
    "laboratory-new": ({}, ""),
    "api-nodes": ({}, ""),
    "api-jobs": ({}, "page=2&page_size=2"),
}


@pytest.fixture
def owner(client, cluster):
    client.force_login(cluster.owner)
    return client


def queries(client, route):
    arguments, query = PAGES[route]
    path = reverse(route.split()[0], kwargs=arguments) + (f"?{query}" if query else "")
    client.get(path)  # what is kept in memory is read
    with CaptureQueriesContext(connection) as captured:
        answer = client.get(path)
    assert answer.status_code == 200, answer.content[:300]
    return len(captured)


def grown(cluster, number):
    """More nodes, each with a running job of two GPUs, and more waiting ones."""
    for k in range(number):
        node = given.node_make(f"more-{cluster.tenant.jobs.count()}-{k}", gpus=4)
        cluster.running(node, gpus=2, name=f"job-{k}")
        cluster.submit(name=f"job-waits-{k}", gpus=4)


def test_the_number_of_queries_is_constant(owner, cluster):
    grown(cluster, 3)
    planning_run()
    before = {route: queries(owner, route) for route in PAGES}
    grown(cluster, 6)
    planning_run()
    assert {route: queries(owner, route) for route in PAGES} == before
    assert max(before.values()) <= 29, before  # one is of the announcement, which one process asks for where Redis is


def _is_of_few(sql):
    """It names its rows, or counts the nodes by the few values that they have (the banner), or is of the facts.

    One process reads the facts of the whole cluster, about once a second for all readers.
    """
    if sql.startswith('SELECT "jobs_gpuallocation"."gpu_id" AS "gpu_id", "jobs_gpuallocation"."allocation_id"'):
        return True
    if sql.startswith('SELECT "cluster_node"."single_account"'):
        return "GROUP BY" in sql and "ORDER BY" not in sql
    return " = " in sql or " IN (" in sql or "LIMIT 1" in sql


def test_a_nodes_page_reads_no_other_node(owner, cluster):
    """It read every node with its GPUs and the jobs on them: 1 000 nodes for one."""
    grown(cluster, 3)
    for route in ("node-detail", "node-fragment", "node-figure"):
        arguments, _ = PAGES[route]
        with CaptureQueriesContext(connection) as captured:
            owner.get(reverse(route, kwargs=arguments))
        read = [
            each["sql"]
            for each in captured
            if 'FROM "cluster_node"' in each["sql"] or "jobs_gpuallocation" in each["sql"]
        ]
        assert read
        whole = [sql for sql in read if not _is_of_few(sql)]
        assert not whole


def test_a_late_page_walks_over_keys_alone(owner, cluster):
    """The rows before a late page were read whole, with their tenants and owners."""
    now = timezone.now()
    fields = {"tenant": cluster.tenant, "owner": cluster.owner, "gpus": [1], "submitted_at": now}
    Job.objects.bulk_create(Job(name=f"j{k}", state="COMPLETED", ended_at=now, **fields) for k in range(320))
    for address in ("?page=3", "?page=3&sort=-start"):
        with CaptureQueriesContext(connection) as captured:
            text = owner.get(reverse("job-list") + address).content.decode()
        assert "101" in text
        late = [each["sql"] for each in captured if "OFFSET 100" in each["sql"]]
        assert len(late) == 1
        assert '"jobs_job"."reason_figures"' not in late[0]
        assert 'JOIN "tenants_user"' not in late[0]


def test_pages_follow_each_other_without_a_gap(owner, cluster):
    numbers = [cluster.submit(name=f"j{k}").pk for k in range(7)]
    job_cancel(job=Job.objects.get(pk=numbers[3]), actor=cluster.owner)
    seen = []
    path = reverse("api-jobs") + "?page_size=3&ordering=-submitted_at"
    while path:
        answer = owner.get(path).json()
        seen += [each["id"] for each in answer["results"]]
        path = answer["next"]
    assert seen == numbers[::-1]


def test_the_queue_is_counted_in_its_index_alone(cluster):
    """COUNT(id) asks for a column that the index has not, so Postgres read all the rows: ten times the pages."""
    cluster.submit()
    index = next(each for each in Job._meta.indexes if each.name == "job_unfinished_counts")
    known = {*index.fields, "array_size", "cancel_requested_at", "ended_at"}
    with CaptureQueriesContext(connection) as captured:
        assert queue_counts(now=timezone.now()).jobs == 1
    (statement,) = (each["sql"] for each in captured)
    assert set(re.findall(r'"jobs_job"\."(\w+)"', statement)) <= known


def columns_of(captured, table="jobs_job"):
    (statement,) = (each["sql"] for each in captured)
    return set(re.findall(rf'"{table}"\."(\w+)"', statement))


def columns_in(index):
    fields = next(each for each in Job._meta.indexes if each.name == index).fields_orders
    return {"id"} | {Job._meta.get_field(name).column for name, _ in fields}


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({}, "job_top_counts"),
        ({"sort": "-tenant"}, "job_top_counts"),
        ({"sort": "owner"}, "job_top_by_owner"),
        ({"when": "submitted", "within": "24h"}, "job_top_by_submission"),
    ],
)
def test_a_list_is_counted_once_and_in_an_index_alone(cluster, query, index):
    """By tenant all jobs were counted twice; later submissions were looked for in a second table."""
    cluster.submit()
    with CaptureQueriesContext(connection) as captured:
        counts = ListQuery(**query).counts(user=given.operator())
    assert counts.states == {"PENDING": 1}
    captured = [each for each in captured if 'FROM "jobs_job"' in each["sql"]]
    assert columns_of(captured) <= columns_in(index)


def test_a_tenants_use_reads_no_row_of_a_job(cluster):
    with CaptureQueriesContext(connection) as captured:
        usage_of(cluster.tenant)
    assert columns_of(captured) <= columns_in("job_by_tenant")


def test_a_list_of_the_console_stays_below_300_kb(client, cluster):
    now = timezone.now()
    fields = {"tenant": cluster.tenant, "owner": cluster.owner, "gpus": [1], "submitted_at": now}
    Job.objects.bulk_create(
        Job(name=f"resnet50-imagenet-{k}", state="COMPLETED", ended_at=now, **fields) for k in range(60)
    )
    client.force_login(given.operator())
    assert 30_000 < len(client.get(reverse("admin:jobs_job_changelist")).content) < 300_000


# ---- search ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bert", {"BERT-large", "other"}),  # the other by its label
        ("BERT-l", {"BERT-large"}),
        ("team=be", {"other"}),
        ("größe", {"GRÖSSE-größe"}),
        ("50%", {"at 50% load"}),
        ("_", {"under_score"}),
        ("e\nteam", set()),
        ("no such", set()),
    ],
)
def test_jobs_are_found_by_name_and_label(cluster, text, found):
    for name in ("BERT-large", "GRÖSSE-größe", "at 50% load", "under_score"):
        cluster.submit(name=name)
    cluster.submit(name="other", labels={"team": "bert"})
    assert {job.name for job in jobs_found(Job.objects.all(), text)} == found


def test_a_job_is_found_by_its_number_and_an_array_once(cluster):
    job, array = cluster.submit(name="a"), cluster.submit(name="sweep", array={"size": 3})
    for text in (str(job.pk), f"#{job.pk}", f" {job.pk} "):
        assert [each.pk for each in jobs_found(Job.objects.all(), text)] == [job.pk]
    assert [each.pk for each in jobs_found(Job.objects.all(), "sweep")] == [array.pk]


def test_the_rest_filter_by_name_asks_of_names_alone(owner, cluster):
    cluster.submit(name="other", labels={"team": "bert"})
    cluster.submit(name="BERT")
    answer = owner.get(reverse("api-jobs") + "?name=bert").json()
    assert [each["name"] for each in answer["results"]] == ["BERT"]


def test_the_rest_filters_by_name_and_label_find_tasks_of_an_array_too(owner, cluster):
    """Tasks have no text of their own: they are looked for by their rows, within their array."""
    array = cluster.submit(name="sweep", labels={"Team": "vision"}, array={"size": 3})
    cluster.submit(name="other", labels={"team": "vision", "Team2": "x"})
    for query in ("name=SWEEP", "label=Team", "label=Team%3Dvision"):
        for scope, count in ((f"&array={array.pk}", 3), ("", 1)):
            answer = owner.get(reverse("api-jobs") + f"?{query}{scope}").json()
            assert [each["name"] for each in answer["results"]] == ["sweep"] * count, (query, scope)
    assert not owner.get(reverse("api-jobs") + "?label=Team%3Dvisio").json()["results"]


def test_another_tenants_job_is_not_found(client, cluster):
    cluster.submit(name="secret-plan")
    stranger = given.member("eve", given.Tenant.objects.create(name="else"))
    client.force_login(stranger)
    assert b"secret-plan" not in client.get(reverse("search") + "?q=secret").content


def test_a_jobs_text_goes_with_it(cluster):
    job = cluster.submit(name="Short", labels={"A": "B"})
    assert JobText.objects.get().text == text_of(name="Short", labels={"A": "B"}) == "short\na=b"
    job.delete()
    assert not JobText.objects.exists()


# ---- idle GPUs -------------------------------------------------------------------------------------------------------
