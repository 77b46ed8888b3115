"""The cluster's and a node's page: free GPUs, each GPU's holder, the time a job could start, and the limits that a node can enforce."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.cluster.models import Gpu, Node, NodeEvent
from portal.pages.dashboard.cluster import starts
from portal.pages.dashboard.cluster.limits import limits_context
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Job
from tests.portal import given

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture
def shared(cluster):
    """A node of eight GPUs: two of lena's, three of another tenant's, one out, one for sharing, one free."""
    cache.clear()
    cluster.node.delete()
    cluster.node = given.node_make("a100-01", gpus=8, cores=16)
    cluster.running(gpus=2, name="train")
    cluster.other = given.member("james", Tenant.objects.create(name="speech-co"))
    cluster.running(user=cluster.other, name="secret-name", gpus=3, expected_duration_s=3600)
    cluster.running(user=cluster.other, name="secret-cpu", gpus=0)
    Job.objects.filter(name="secret-name").update(age_s=3600.0)
    Gpu.objects.filter(node=cluster.node, index=5).update(cordoned_at=timezone.now(), cordon_reason="memory errors")
    given.shared(cluster.node, 6)
    return cluster


def page(client, user, path):
    client.force_login(user, backend=BACKEND)
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


def words(html):
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


PATHS = (
    "/cluster/",
    "/cluster/a100-01/",
    "/cluster/fragments/nodes",
    "/cluster/fragments/free",
    *(f"/cluster/a100-01/fragments/{name}" for name in ("now", "gpus", "happened", "card")),
)


def test_a_tenant_sees_no_name_of_another_one_in_texts_titles_or_data(client, shared):
    for path in PATHS:
        own, foreign = page(client, shared.owner, path), page(client, shared.other, path)
        for name in ("secret-name", "secret-cpu", "speech-co", "james"):
            assert name not in own, (path, name)
        assert "train" not in foreign.replace("training", ""), path
        assert "lena" not in foreign, path
    assert "secret-name" in page(client, given.operator(), "/cluster/")


def test_the_cluster_says_what_is_free_and_the_largest_job(client, shared):
    told = words(page(client, shared.owner, "/cluster/"))
    assert "1 GPU is free. The largest job that could start now needs 1, on a100-01 ." in told
    assert "another tenant until about" in told
    assert "1 free 1 for sharing" in told
    assert "1 GPU of a100-01 is set aside for small jobs" in told
    for word in ("idle", "cordoned", "Fragmentation", "planning"):
        assert word not in told, word


def test_a_node_says_what_comes_free_next_and_names_each_gpu_s_job(client, shared):
    told = words(page(client, shared.owner, "/cluster/a100-01/fragments/now"))
    assert "1 GPU is free." in told
    assert "GPU 5 is out. GPU 6 is for small jobs that share a GPU." in told
    Gpu.objects.filter(node=shared.node, index=7).update(cordoned_at=timezone.now())
    told = words(page(client, shared.owner, "/cluster/a100-01/fragments/now"))
    assert re.search(r"No GPU is free\. 3 come free at about \d\d:\d\d", told)
    table = page(client, shared.owner, "/cluster/a100-01/fragments/gpus")
    rows = [words(row).split(" ", 1) for row in table.split("<tr>")[2:]]
    said = [row[1].partition(" –")[0] for row in rows]
    assert said[:7] == ["train", "train", *["another tenant"] * 3, "out: memory errors", "for sharing: free"]
    assert "1 job without a GPU holds 1 of 16 cores." in words(table)


def test_a_node_that_takes_no_jobs_is_out_with_its_reason(client, shared):
    Node.objects.update(drained_at=timezone.now(), drain_reason="driver update")
    assert "Out: driver update" in page(client, shared.owner, "/cluster/")
    told = words(page(client, shared.owner, "/cluster/a100-01/"))
    assert "Out: driver update" in told
    assert "No GPU is free." in told


def test_what_happened_names_only_one_s_own_starts(client, shared):
    NodeEvent.objects.create(node=shared.node, kind="GPU cordoned", detail="GPU 5: memory errors")
    told = words(page(client, shared.owner, "/cluster/a100-01/fragments/happened"))
    assert "train started." in told
    assert "GPU taken out: GPU 5: memory errors." in told
    assert told.count("started.") == 1


def test_actions_stand_at_the_head_for_operators(client, shared):
    operator, plain = (page(client, user, "/cluster/a100-01/") for user in (given.operator(), shared.owner))
    for text in ("data-drain=", 'data-dialog="gpu-dialog"', 'id="gpu-form"'):
        assert text in operator
        assert text not in plain


WALLS = [
    {"name": "accounts", "by": "", "why": "the agent does not run as root"},
    {"name": "cores", "by": "cgroup2", "why": ""},
    {"name": "memory", "by": "", "why": "no control group"},
    {"name": "gpus", "by": "time slicing", "why": "no MPS"},
]


def test_what_a_node_can_hold_jobs_to_is_folded_with_a_digest(client, shared):
    Node.objects.update(isolation={"files": False, "signals": False, "landlock": 0, "why": "", "walls": WALLS})
    told = limits_context(Node.objects.get())
    assert told["digest"] == "cores; not memory, shared GPU memory, disk, other users' files or Berth's files"
    found = {row["label"]: (row["held"], row["how"], row["cause"]) for row in told["rows"]}
    assert found["CPU cores"] == (True, "control group v2; a job never gets more than it holds", "cgroup2")
    assert found["Other users' files"] == (
        False,
        "jobs run under one account; tenants must trust each other",
        "the agent does not run as root",
    )
    assert "GPUs" not in found, "a limit that the agent does not report has no row"
    html = page(client, shared.owner, "/cluster/a100-01/")
    fold = html[html.index('data-fold="node-limits"') - 40 :].partition("</details>")[0]
    assert "open" not in fold.partition(">")[0]
    assert 'title="the agent does not run as root"' in fold
    assert fold.count("the agent does not run as root") == 1


def test_a_node_of_an_older_agent_says_nothing_of_limits(client, shared):
    Node.objects.update(isolation={})
    assert "node-limits" not in page(client, shared.owner, "/cluster/a100-01/")


def test_the_table_says_now_a_time_after_a_full_hour_or_a_dash(monkeypatch, client, shared):
    now = datetime(2026, 11, 24, 14, 49, tzinfo=UTC)
    soon, far = now + timedelta(minutes=17), now + timedelta(hours=5)
    known = [
        ((None, 1), {"says": "now"}),
        ((None, 2), {"says": "at", "at": soon.isoformat()}),
        ((None, 4), {"says": "at", "at": far.isoformat()}),
        (("A100", 1), {"says": "never"}),
        (("A100", 2), {"says": "later"}),
    ]
    monkeypatch.setattr(starts, "first_starts", lambda _: known)
    monkeypatch.setattr(starts.timezone, "now", lambda: now)
    told = starts.starts_context(shared.owner)
    assert told["sizes"] == [1, 2, 4]
    later = {"says": "later", "at": datetime(2026, 11, 24, 18, tzinfo=UTC).isoformat()}
    never = {"says": "never", "at": None}
    first, second = told["rows"]
    assert first == {
        "name": "any type",
        "cells": [{"says": "now", "at": None}, {"says": "at", "at": soon.isoformat()}, later],
    }
    assert second == {"name": "A100", "cells": [never, later, {"says": None, "at": None}]}, (
        "not worked out is not never"
    )
    monkeypatch.undo()
    assert "Not worked out yet." in page(client, shared.owner, "/cluster/fragments/starts")


def test_queries_do_not_grow_with_nodes_and_jobs(client, shared):
    counts = []
    for more in (1, 4):
        for place in range(more):
            node = given.node_make(f"n{more}{place}", gpus=4)
            shared.started(node, gpus=1, user=shared.other)
            shared.started(node, gpus=1)
        for path in ("/cluster/", "/cluster/a100-01/"):
            cache.clear()
            page(client, shared.owner, path)
            with CaptureQueriesContext(connection) as queries:
                client.get(path)
            counts.append(len(queries))
    assert counts[:2] == counts[2:]
    assert max(counts) <= 30
