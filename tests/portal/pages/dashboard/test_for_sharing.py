"""GPUs set aside for jobs that share one are idle nowhere, and counted apart: every page, REST, metrics and the wait reason."""

import json
from itertools import product

import pytest
from django.core.cache import cache
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from portal.cluster.gpu_states import Free, GpuState, free_by_node, gpu_state
from portal.cluster.models import Gpu, Node
from portal.cluster.services.operating import node_drain
from portal.operate.health import prometheus
from portal.pages.dashboard.board import feed
from portal.pages.dashboard.board.facts import facts_read
from portal.pages.dashboard.cluster.rows import node_row
from portal.pages.dashboard.home import cluster as home
from portal.pages.dashboard.home.scope import Scope
from portal.pages.dashboard.parts.gpus import gpu_groups
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from tests.portal import given

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture
def parted(cluster):
    """A node of four GPUs: one is held, one idle, two are for jobs that share, and one of these is cordoned."""
    cache.clear()
    cluster.started(gpus=1)
    given.shared(cluster.node, 2, 3)
    Gpu.objects.filter(node=cluster.node, index=2).update(cordoned_at=timezone.now())
    return cluster


def page(client, user, path):
    client.force_login(user, backend=BACKEND)
    return client.get(path).content.decode()


def test_one_declaration_says_what_is_idle(subtests):
    for held, closed, shared, is_up in product((False, True), repeat=4):
        with subtests.test(held=held, closed=closed, shared=shared, is_up=is_up):
            state = gpu_state(held=held, closed=closed, shared=shared, is_up=is_up)
            assert (state is GpuState.IDLE) == (is_up and not (held or closed or shared))
            assert (state is GpuState.FOR_SHARING) == (is_up and shared and not (held or closed))


def test_board_facts_and_counts_agree(parted, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    facts = facts_read()
    assert (facts.idle(0)[0], facts.for_sharing(0), facts.gpus_held) == (1, 1, [1])
    board = feed.board_now(1)
    assert board["state"] == [GpuState.HELD, GpuState.IDLE, GpuState.OUT, GpuState.FOR_SHARING]
    (group,) = board["groups"]["type"]
    assert (group["held"], group["idle"], group["sharing"], group["gpus"]) == (1, 1, 1, 4)
    assert free_by_node(list(Node.objects.all())) == {parted.node.pk: Free(1, 1)}


def test_what_is_kept_for_a_job_is_no_gpu_for_sharing(parted, settings, monkeypatch):
    """The last idle ones are drawn as kept; those for sharing stand behind them."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr("portal.pages.dashboard.board.facts.kept_gpus", lambda: {parted.node.pk: 2})
    assert feed.board_now(1)["state"] == [GpuState.HELD, GpuState.KEPT, GpuState.OUT, GpuState.FOR_SHARING]


def test_a_node_that_takes_no_jobs_has_neither(parted):
    node_drain(node=parted.node, actor=parted.owner, reason="dust")
    facts = facts_read()
    assert (facts.idle(0)[0], facts.for_sharing(0)) == (0, 0)
    assert free_by_node(list(Node.objects.all())) == {}


def test_cells_and_rows_of_the_cluster_page(client, parted):
    snapshot = Snapshot(parted.owner, hours=1)
    (node,) = snapshot.nodes
    looks = [cell["look"] for group in gpu_groups(node, snapshot)["groups"] for cell in group["cells"]]
    assert looks == ["mine", "free", "out", "share"]
    row = node_row(node, snapshot)
    assert (row["free_words"], row["notes"]) == ("1 free", ["1 for sharing"])
    shown = page(client, parted.owner, "/cluster/")
    assert "2 GPUs of n1 are set aside for small jobs" in shown
    overview = page(client, given.operator(), "/")
    assert "2 free" not in overview
    assert "1 free, 1 for sharing, 1 out" in overview


def test_home_as_cells_and_as_bars(parted, monkeypatch):
    scope, told = Scope(parted.owner, "mine", [parted.tenant]), []
    for most in (24, 0):
        monkeypatch.setattr(home, "CELLS_UP_TO", most)
        card = home.cluster_make(scope, Snapshot(parted.owner, hours=1))
        told.append((card["nodes"][0]["words"], card["legend"]))
    words, legend = told[0]
    assert words == "1 yours, 1 for sharing, 1 out, 1 free"
    assert ("sharing", "for sharing 1") in legend
    assert told[1] == told[0]


def test_rest_and_metrics_count_them_apart(client, parted):
    client.force_login(parted.owner, backend=BACKEND)
    told = client.get("/api/v1/nodes/n1").json()
    assert (told["gpus"], told["gpus_allocated"], told["gpus_idle"], told["gpus_for_sharing"]) == (4, 1, 1, 1)
    (listed,) = client.get("/api/v1/nodes").json()["results"]
    assert (listed["gpus_idle"], listed["gpus_for_sharing"]) == (1, 1)
    families = {family.name: family for family in text_string_to_metric_families(exposition())}
    values = {name: families[name].samples[0].value for name in families if name.startswith("berth_gpus")}
    assert values == {
        "berth_gpus": 4,
        "berth_gpus_allocated": 1,
        "berth_gpus_idle": 1,
        "berth_gpus_for_sharing": 1,
    }


def exposition():
    registry = CollectorRegistry()
    registry.register(prometheus.DatabaseCollector())
    return generate_latest(registry).decode()


def test_a_larger_job_is_told_that_they_keep_it_from_fitting(client, cluster):
    """With the fourth GPU of the node it would fit; the planning counts that one apart, too."""
    cache.clear()
    given.shared(cluster.node, 3)
    job = cluster.submit(gpus=4)
    small = cluster.submit(gpus=3)
    planning_run()
    job, small = Job.objects.get(pk=job.pk), Job.objects.get(pk=small.pk)
    assert (job.reason, small.state) == ("not-enough-idle-gpus", "STARTING")
    told = page(client, cluster.owner, f"/jobs/{job.pk}/")
    assert "4 GPUs, the cluster has 3 and 1 for sharing." in told
    metrics = Planning.objects.latest("number").metrics
    assert (metrics["gpus_idle"], metrics["gpus_for_sharing"]) == (0, 1)
    client.force_login(cluster.owner, backend=BACKEND)
    explained = client.get(f"/api/v1/jobs/{job.pk}/explain").json()
    assert "share a GPU" in explained["sentence"]
    assert json.dumps(explained["figures"])


def test_a_job_that_fitted_now_with_them_is_told_where(client, cluster):
    """On another node it fits when that is free; on this one it would fit at once."""
    cache.clear()
    given.shared(cluster.node, 3)
    cluster.started(given.node_make("n2"), gpus=4)
    job = cluster.submit(gpus=4)
    planning_run()
    told = page(client, cluster.owner, f"/jobs/{job.pk}/")
    assert "4 GPUs, 3 free, and 1 GPU for sharing on n1." in told


def test_the_blocks_say_so_when_nothing_else_is_idle(client, cluster):
    cache.clear()
    given.shared(cluster.node, 3)
    cluster.started(gpus=3)
    blocks = page(client, given.operator(), "/rounds/metrics/?fragment=blocks")
    assert "No GPU is idle (besides 1 for jobs that share a GPU)." in blocks
