"""The job list as a reader wants it: filters, columns, saved views, priorities; none of them tells of other tenants."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.jobs.query import ListQuery
from portal.pages.dashboard.jobs.saved import COLUMNS
from portal.people.accounts.models import JobView
from portal.people.tenants.models import Membership, Tenant
from portal.planning.rounds.models import StartForecast
from portal.work.jobs.models import Job, JobText
from portal.work.jobs.states import JobState
from tests.portal import given

LIST = "/jobs/"
TINY = timedelta(milliseconds=1)


@pytest.fixture
def owner(client, cluster):
    client.force_login(cluster.owner)
    return client


@pytest.fixture
def stranger(cluster):
    """A member of another tenant, with a job like one of the owner's."""
    tenant = Tenant.objects.create(name="speech-lab")
    user = given.member("otto", tenant)
    return given.Cluster(tenant=tenant, owner=user, node=cluster.node)


def shown(client, query=""):
    page = client.get(f"{LIST}?{query}")
    assert page.status_code == 200, page.content[:300]
    return {row["name"] for row in page.context["rows"]}, {
        chip["label"]: chip["count"] for chip in page.context["chips"]
    }


def test_each_filter_keeps_what_fits_and_the_chips_count_the_same(owner, cluster):
    attempt = cluster.running(cluster.node, name="here", category="cv", labels={"team": "a"})
    other = cluster.submit(name="there", category="nlp", labels={"team": "b", "odd": "x=y"})
    mate = given.member("tim", cluster.tenant)
    given.Cluster(tenant=cluster.tenant, owner=mate, node=cluster.node).submit(name="mates")
    now = timezone.now()
    for each, key in ((JobText, "job"), (Job, "pk")):
        each.objects.filter(**{key: other.pk}).update(submitted_at=now - timedelta(days=2))
    Job.objects.filter(pk=attempt.job_id).update(started_at=now - timedelta(hours=2))
    found = {
        "": {"here", "there", "mates"},
        "owner=mine": {"here", "there"},
        "owner=tim": {"mates"},
        "owner=nobody": set(),
        "category=nlp": {"there"},
        "label=team": {"here", "there"},
        "label=team%3Da": {"here"},
        "label=odd%3Dx%3Dy": {"there"},
        "label=Team": set(),
        f"node={cluster.node.name}": {"here"},
        "node=n9": set(),
        "when=submitted&within=24h": {"here", "mates"},
        f"when=submitted&until={(now - timedelta(days=1)).strftime('%Y-%m-%dT%H:%M')}": {"there"},
        "when=started&within=24h": {"here"},
        "when=started&within=1h": set(),
        "when=ended&within=7d": set(),
        "label=team&category=cv&state=RUNNING": {"here"} if Job.objects.get(name="here").state == "RUNNING" else set(),
    }
    for query, names in found.items():
        rows, chips = shown(owner, query)
        assert rows == names, query
        if "state=" not in query:
            assert chips["All"] == len(names), query


def test_an_array_is_found_by_the_node_of_a_task(owner, cluster):
    array = cluster.submit(name="sweep", array={"size": 2})
    cluster.start(array.tasks.order_by("array_index").first(), cluster.node)
    assert shown(owner, f"node={cluster.node.name}")[0] == {"sweep"}
    answer = owner.get(f"{reverse('api-jobs')}?node={cluster.node.name}&array={array.pk}").json()
    assert [each["id"] for each in answer["results"]] == [array.tasks.get(array_index=0).pk]


@pytest.mark.parametrize(
    "query",
    ["state=x", "category=x", "when=x", "within=x", "since=x", "within=1h&since=2026-01-01T00:00", "sort=x", "page=0"],
)
def test_a_filter_that_means_nothing_is_refused_by_its_name(owner, query):
    answer = owner.get(f"{LIST}?{query}")
    assert answer.status_code == 400
    assert query.split("=")[0] in answer.content.decode()


def test_no_filter_tells_of_another_tenants_jobs(client, owner, cluster, stranger):
    """A foreign job is not there, wherever it runs, and a foreign name is answered as an unknown one."""
    stranger.running(stranger.node, name="zebra", category="cv", labels={"zebra": "1"})
    cluster.submit(name="own")
    for query in ("owner=otto", "label=zebra", "label=zebra%3D1", f"node={cluster.node.name}", "tenant=speech-lab"):
        unknown = query.split("=")[0] + "=unknown-to-all"
        assert shown(owner, query) == shown(owner, unknown), query
        rest = "owner" if query.startswith("owner") else query.split("=")[0]
        told = [owner.get(f"{reverse('api-jobs')}?{each}").json() for each in (query, f"{rest}=unknown-to-all")]
        assert told[0] == told[1], query
    page = owner.get(f"{LIST}?category=cv&when=started&within=1h").content.decode()
    assert "zebra" not in page
    assert "otto" not in page


# ---- what is asked of the database -----------------------------------------------------------------------------------

APART = ["label=team", "label=team%3Da", "category=cv", "when=submitted&within=7d", "node=n1", "owner=lena"]


@pytest.mark.parametrize("query", [*APART, "when=started&within=7d", "when=ended&within=7d"])
@pytest.mark.skipif(connection.vendor != "sqlite", reason="a plan of Postgres depends on the tables' sizes")
def test_counts_and_filters_read_indexes(owner, cluster, query):
    """No count of a filtered list walks over a whole table: rows of jobs are wide."""
    for _ in range(5):
        cluster.submit(labels={"team": "a"}, category="cv")
    from django.http import QueryDict

    jobs = ListQuery.of(QueryDict(query)).jobs(user=cluster.owner, with_state=False).order_by()
    from django.db.models import Count

    counted = jobs.values_list("tenant", "state", "reason").annotate(n=Count("*"))
    with CaptureQueriesContext(connection) as captured:
        list(counted)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {captured[0]['sql']}")
        plan = [row[3] for row in cursor.fetchall()]
    assert not [line for line in plan if line.startswith("SCAN ") and "INDEX" not in line and "SUBQUERY" not in line], (
        plan
    )


def test_filters_columns_and_views_cost_a_constant_number_of_queries(owner, cluster):
    def cost():
        path = f"{LIST}?label=team&category=cv&node={cluster.node.name}&when=submitted&within=7d"
        owner.get(path)
        with CaptureQueriesContext(connection) as captured:
            assert owner.get(path).status_code == 200
        return len(captured)

    cluster.running(cluster.node, labels={"team": "a"}, category="cv")
    before = cost()
    for number in range(3):
        cluster.running(cluster.node, labels={"team": "a"}, category="cv")
        JobView.objects.create(owner=cluster.owner, name=f"v{number}", query="state=RUNNING")
    assert cost() == before <= 20


# ---- columns and views -----------------------------------------------------------------------------------------------


def heads(client, query=""):
    return [each["key"] for each in client.get(f"{LIST}?{query}").context["columns"]]


def test_columns_are_kept_per_person_in_their_order(client, owner, cluster):
    cluster.submit(name="a", labels={"team": "a"}, priority=-7)
    usual = heads(owner)
    wanted = ["priority", "job", "labels", "state"]
    answer = owner.post("/jobs/columns", {"column": wanted, "next": "?owner=mine"})
    assert answer.url == "/jobs/?owner=mine"
    assert heads(owner) == wanted
    page = owner.get(LIST).content.decode()
    assert "team=a" in page
    client.force_login(given.member("tim", cluster.tenant))
    assert heads(client) == usual
    client.force_login(cluster.owner)
    owner.post("/jobs/columns", {"usual": "1"})
    assert heads(owner) == usual
    assert owner.post("/jobs/columns", {"column": ["nonsense"]}).status_code == 400
    assert heads(owner) == usual


def test_every_column_is_drawn(owner, cluster):
    cluster.submit(name="a", labels={"team": "a"})
    cluster.submit(name="sweep", array={"size": 2})
    owner.post("/jobs/columns", {"column": list(COLUMNS)})
    page = owner.get(LIST)
    html = page.content.decode()
    first = html[html.index("<tbody>") : html.index("</tr>", html.index("<tbody>"))]
    assert first.count("<td") == len(COLUMNS) + 1
    folded = owner.get(next(row["array"]["tasks_url"] for row in page.context["rows"] if row["array"])).content.decode()
    assert folded[: folded.index("</tr>")].count("<td") == len(COLUMNS) + 1


def save(client, name="mine", **form):
    return client.post("/jobs/views", {"name": name, "next": "?state=RUNNING&label=team&sort=-start&page=3", **form})


def test_a_saved_view_brings_back_filters_order_and_columns(owner, cluster):
    owner.post("/jobs/columns", {"column": ["job", "labels"]})
    answer = save(owner, name="  my   runs ")
    view = JobView.objects.get()
    assert (view.name, view.tenant) == ("my runs", None)
    assert answer.url == f"/jobs/?state=RUNNING&label=team&sort=-start&view={view.pk}"
    owner.post("/jobs/columns", {"usual": "1"})
    page = owner.get(answer.url)
    assert [each["key"] for each in page.context["columns"]] == ["job", "labels"]
    assert page.context["views"]["choices"][0]["url"] == answer.url
    save(owner, name="my runs", next="?state=FAILED")
    assert JobView.objects.get().query == "state=FAILED"
    owner.post(f"/jobs/views/{view.pk}/delete")
    assert not JobView.objects.exists()


def test_a_view_is_its_owners_until_shared_and_then_the_tenants(client, owner, cluster, stranger):
    save(owner)
    save(owner, name="ours", tenant="vision-lab")
    own, ours = JobView.objects.get(name="mine"), JobView.objects.get(name="ours")
    seen = {"tim": (404, 200), "vera": (404, 200), "otto": (404, 404)}
    given.member("tim", cluster.tenant)
    given.member("vera", cluster.tenant, role="viewer")
    for name, expected in seen.items():
        client.force_login(cluster.owner.__class__.objects.get(username=name))
        assert tuple(client.get(f"{LIST}?view={each.pk}").status_code for each in (own, ours)) == expected, name
        assert client.get(f"{LIST}?view=999999").status_code == 404
        assert client.post(f"/jobs/views/{ours.pk}/delete").status_code == 404
        names = [choice["label"] for choice in client.get(LIST).context["views"]["choices"]]
        assert names == (["ours"] if expected[1] == 200 else []), name
    assert JobView.objects.count() == 2
    Membership.objects.filter(user=cluster.owner).delete()
    client.force_login(cluster.owner)
    assert client.get(f"{LIST}?view={ours.pk}").status_code == 404, "a former member sees nothing of the tenant"


def test_a_shared_view_names_no_other_tenant_and_no_stranger(client, owner, cluster, stranger):
    Membership.objects.create(user=cluster.owner, tenant=stranger.tenant)
    for query in ("?tenant=speech-lab", "?owner=otto"):
        save(owner, tenant="vision-lab", next=query)
        assert not JobView.objects.exists(), query
        save(owner, name="own", next=query)
        JobView.objects.get().delete()
    client.force_login(given.member("vera", cluster.tenant, role="viewer"))
    assert save(client, tenant="vision-lab").status_code == 302
    assert save(client, name="").status_code == 302
    assert save(client, name="x" * 61).status_code == 302
    assert save(client, tenant="speech-lab").status_code == 302
    assert not JobView.objects.exists()


# ---- priorities and what is foretold ---------------------------------------------------------------------------------


def test_priorities_are_set_in_bulk_within_what_the_tenant_may(client, owner, cluster, stranger):
    jobs = [cluster.submit() for _ in range(2)]
    foreign = stranger.submit()
    ended = cluster.submit()
    Job.objects.filter(pk=ended.pk).update(state=JobState.COMPLETED, ended_at=timezone.now())
    chosen = [str(job.pk) for job in (*jobs, foreign, ended)]

    def bulk(priority):
        owner.post("/jobs/bulk", {"action": "priority", "priority": priority, "job": chosen})
        return list(Job.objects.order_by("pk").values_list("priority", flat=True))

    assert bulk("-5") == [-5, -5, 0, 0]
    assert bulk("100") == [-5, -5, 0, 0], "a member's priority has a ceiling"
    for wrong, status in (("", 400), ("x", 400), ("1.5", 400), ("1000", 403)):
        form = {"action": "priority", "priority": wrong, "job": chosen}
        assert owner.post("/jobs/bulk", form).status_code == status, wrong
    assert set(Job.objects.values_list("priority", flat=True)) == {-5, 0}
    rows = {row["id"]: row["actions"] for row in owner.get(LIST).context["rows"]}
    assert "priority" in rows[str(jobs[0].pk)]
    assert "priority" not in rows[str(ended.pk)]


def test_start_and_end_are_foretold_where_they_are_computed_and_nowhere_else(owner, cluster):
    now = timezone.now()
    waiting, without = cluster.submit(name="waits"), cluster.submit(name="unknown")
    Job.objects.filter(pk=waiting.pk).update(age_s=3600.0, age_source="declared")
    early, late = now + timedelta(minutes=10), now + timedelta(minutes=20)
    moments = {"at": now, "earliest_at": early, "median_at": early, "latest_at": late}
    first = {f"first_{name}": moment for name, moment in moments.items()}
    StartForecast.objects.create(job=waiting, epoch=0, **moments, **first)
    running = cluster.running(cluster.node, name="runs").job
    Job.objects.filter(pk=running.pk).update(age_s=7200.0, age_source="declared")
    rows = {row["name"]: row for row in owner.get(LIST).context["rows"]}
    start = rows["waits"]["starts"]
    assert (start["earliest"], start["latest"], start["passed"]) == (early.isoformat(), late.isoformat(), False)
    assert rows["waits"]["ends"]["latest"] == (late + timedelta(hours=1)).isoformat()
    assert (rows["unknown"]["starts"], rows["unknown"]["ends"]) == (None, None)
    assert rows["runs"]["starts"] is None
    Job.objects.filter(pk=waiting.pk).update(started_at=now - timedelta(hours=1))
    assert "<strong>about <time" in owner.get(LIST, {"q": "waits"}).content.decode(), "its next start, not its first"
    ends = rows["runs"]["ends"]
    assert ends["earliest"] < ends["about"] < ends["latest"]
    Job.objects.update(age_source="assumed")
    rows = {row["name"]: row for row in owner.get(LIST).context["rows"]}
    assert (rows["waits"]["ends"], rows["runs"]["ends"]) == (None, None), "a guess is no time"
    StartForecast.objects.update(earliest_at=now - timedelta(minutes=9), latest_at=now - timedelta(minutes=5))
    rows = {row["name"]: row for row in owner.get(LIST).context["rows"]}
    assert rows["waits"]["starts"]["passed"]
    assert json.dumps(rows["waits"]["ends"]) == "null"
    assert without.pk
