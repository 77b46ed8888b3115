"""Several jobs on one GPU, as pages and REST show them: each job where its tenant looks, others' counted and not named."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.foundation.events.models import OutboxMessage
from portal.pages.dashboard.board.facts import facts_read
from portal.pages.dashboard.parts.neighbours import part_words
from portal.people.tenants.models import Tenant
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.record.metrics import utilisations_now
from portal.work.jobs.held_time import gpu_held_s, union_s
from portal.work.jobs.models import Attempt, GpuAllocation, Job
from portal.work.jobs.node_use import active_share
from tests.portal import given

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture
def three(cluster):
    """Two jobs of the cluster's tenant and one of another share GPU 3 of its node."""
    given.shared(cluster.node, 3)
    other = Tenant.objects.create(name="nlp-lab")
    theirs = given.Cluster(other, given.member("nora", other), cluster.node)
    jobs = [
        cluster.submit(name="mine-a", **given.shareable(0.25)),
        cluster.submit(name="mine-b", **given.shareable(0.25)),
    ]
    jobs.append(theirs.submit(name="secret", **given.shareable(0.4)))
    planning_run()
    assert Attempt.objects.filter(ended_at=None).count() == 3
    return cluster, theirs, jobs


def page(client, user, path):
    client.force_login(user, backend=BACKEND)
    return client.get(path).content.decode()


def test_who_joins_or_leaves_a_gpu_is_told_to_the_pages_of_those_beside(three):
    """A job's page said "with nobody now" for minutes after another had joined its GPU."""
    cluster, _, (a, b, c) = three
    assert told() >= {a.pk, b.pk, c.pk}
    OutboxMessage.objects.all().delete()
    late = cluster.submit(name="late", **given.shareable(0.1))
    planning_run()
    assert told() >= {a.pk, b.pk, c.pk, late.pk}
    OutboxMessage.objects.all().delete()
    cluster.end(Attempt.objects.get(job=a))
    assert told() == {a.pk, b.pk, c.pk, late.pk}


def told():
    """The jobs whose pages learn of a change."""
    return {row.payload["id"] for row in OutboxMessage.objects.filter(topic="event") if row.stream.startswith("job:")}


def test_the_cluster_page_names_ones_own_and_counts_others(client, three):
    cluster, theirs, (a, b, c) = three
    text = page(client, cluster.owner, "/cluster/")
    assert f"given to #{a.pk}, #{b.pk} and a job of another tenant" in text
    assert "secret" not in text
    assert f"given to #{c.pk} and 2 jobs of other tenants" in page(client, theirs.owner, "/cluster/")


def test_the_overview_tells_idle_gpus_for_jobs_that_share_from_the_others(client, cluster):
    """Else `1 of 4 allocated` and `2 GPUs idle` stand beside each other, and nobody says which the fourth is."""
    given.shared(cluster.node, 3)
    cluster.started()
    Job.objects.filter(pk=cluster.submit(gpus=3).pk).update(reason="not-enough-idle-gpus", waiting_since=timezone.now())
    assert "2 free, 1 for sharing" in page(client, given.operator(), "/")
    blocks = page(client, given.operator(), "/rounds/metrics/?fragment=blocks")
    assert "2 idle GPUs (besides 1 for jobs that share a GPU), largest placeable job 2." in blocks


def test_the_jobs_page_says_with_whom_it_shares(client, three):
    cluster, theirs, (a, b, c) = three
    text = page(client, cluster.owner, f"/jobs/{a.pk}/")
    assert "Shares n1 GPU 3" in text
    assert f"with #{b.pk} and a job of another tenant" in text
    assert f"#{c.pk}" not in text
    assert "with 2 jobs of other tenants" in page(client, theirs.owner, f"/jobs/{c.pk}/")


def test_the_numbers_of_a_sharer_are_of_its_part(client, three):
    cluster, _, (a, *_) = three
    text = " ".join(re.sub(r"<[^>]+>", " ", page(client, cluster.owner, f"/jobs/{a.pk}/")).split())
    numbers = text[text.index("The scheduler's figures") : text.index("What ran")]
    assert "n1 × part of a GPU 25 %" in numbers
    assert "all plannings" in numbers, "the only way to the list from a job"
    assert "CPU" not in numbers
    assert "closes at" not in numbers, "windows hand out whole GPUs"


def test_a_part_that_is_no_round_number_of_gib_is_told_short():
    assert [part_words(400, mib) for mib in (9000, 512, 18432)] == [
        "40 % and 8.79 GiB",
        "40 % and 0.5 GiB",
        "40 % and 18 GiB",
    ]


def test_the_nodes_page_names_ones_own_and_what_is_left(client, three):
    cluster, _, (a, b, _) = three
    row = page(client, cluster.owner, "/cluster/n1/fragments/gpus").split("<tr>")[5]
    own = [f'<a href="/jobs/{job.pk}/">{job.name}</a>' for job in (a, b)]
    assert f"for sharing: {own[0]}, {own[1]}, another tenant, and 10 % free" in row
    assert "0 for sharing" in page(client, cluster.owner, "/cluster/")


def test_rest_tells_the_parts(client, three):
    cluster, _, (a, _, _) = three
    client.force_login(cluster.owner, backend=BACKEND)
    told = client.get("/api/v1/nodes/n1").json()
    assert sorted((part["job"] or 0, part["gpu_compute"]) for part in told["running"]) == [
        (0, 0.4),
        (a.pk, 0.25),
        (a.pk + 1, 0.25),
    ]
    gpu = told["gpu_list"][3]
    assert (gpu["mode"], gpu["job"], told["gpus_allocated"]) == ("shared", a.pk, 1)
    (attempt,) = client.get(f"/api/v1/jobs/{a.pk}").json()["attempts"]
    assert (attempt["parts"][0]["gpu_compute"], attempt["parts"][0]["gpu_memory_mib"]) == (0.25, 4096)
    (mine,) = client.get("/api/v1/me").json()["tenants"]
    assert mine["gpus"]["used"] == 0.5


def test_a_shared_gpu_counts_once_and_tenants_by_their_parts(three):
    cluster, theirs, _ = three
    facts = facts_read()
    assert facts.gpus_held == [1]
    assert facts.held_by_tenant == {str(cluster.tenant.pk): 0.5, str(theirs.tenant.pk): 0.4}
    assert facts.idle(0)[0] == 3
    cluster.node.live = {"at": timezone.now().timestamp(), "gpus": {"3": {"utilisation": 80}}}
    cluster.node.save(update_fields=["live"])
    assert utilisations_now()["utilisation"] == 80


def test_the_active_rate_is_a_union_of_intervals(three):
    cluster, _, _ = three
    now = timezone.now()
    GpuAllocation.objects.update(created_at=now - timedelta(minutes=30))
    GpuAllocation.objects.filter(compute=400).update(
        created_at=now - timedelta(minutes=50), released_at=now - timedelta(minutes=20)
    )
    gpu = cluster.node.gpus.get(index=3)
    assert gpu_held_s(hours=1, now=now)[gpu.pk] == pytest.approx(50 * 60)
    rows = GpuAllocation.objects.values_list("created_at", "released_at")
    assert active_share(list(rows), since=now - timedelta(hours=1), now=now) == pytest.approx(50 / 60)


def test_union_of_spans():
    at = timezone.now()
    spans = [(0, 10), (5, 8), (5, 20), (30, 40)]
    assert union_s((at + timedelta(seconds=a), at + timedelta(seconds=b)) for a, b in spans) == 30
    assert union_s([]) == 0


def test_a_job_is_charged_for_its_part(three):
    cluster, _, (a, _, _) = three
    attempt = Attempt.objects.get(job=a)
    cluster.report(attempt, "running", pid=5)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=timezone.now() - timedelta(seconds=100))
    cluster.end(attempt)
    job = Job.objects.get(pk=a.pk)
    assert job.attained_gpu_s == pytest.approx(0.25 * job.ran_s)
    assert not GpuAllocation.objects.filter(allocation__attempt=attempt, released_at=None).exists()
