"""Links by themselves (algorithms, section 2): assumed at a node's first word, measured by probes, refined, never poisoned."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services import node_hello
from portal.people.tenants.models import Tenant
from portal.planning.estimation.links import links_refine
from portal.planning.estimation.models import AttemptSpeed, Link, LinkProbe, LinkVote
from portal.planning.estimation.probes import probes_take
from portal.planning.estimation.selectors import links_load
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from portal.work.jobs.services import log_append
from tests.portal import given
from tests.portal.planning.estimation.test_records import record, send

LINE = 'BERTH-LINK {"method": "a ring", "measured": [[1000000, %s, 2]], "nodes": %d}\n'
NVLINK = {"nvlink_gbps": 300.0, "pcie_generation": 4, "pcie_lanes": 16, "network_mbps": 100_000.0}


def tells(node, **links):
    return node_hello(node=node, inventory=given.inventory(node, links={**NVLINK, **links}))


def probe(cluster):
    """The running probe, its parts reported as running."""
    job = LinkProbe.objects.get(taken_at=None).job
    attempt = job.attempts.get()
    for part in attempt.allocations.all():
        cluster.report(attempt, "running", rank=part.rank, pid=100 + part.rank, node=part.node)
    return attempt


def ends(cluster, attempt, output="", exit_code=0):
    first = attempt.allocations.get(rank=0)
    log_append(node=first.node, key=attempt.key, epoch=1, rank=0, stream="stdout", offset=0, data=output.encode())
    for part in attempt.allocations.all():
        cluster.end(attempt, rank=part.rank, exit_code=exit_code, node=part.node)
    return probes_take()


@pytest.fixture
def virtual(cluster):
    """Two virtual nodes of 4 GPUs that reported their links, and an operator."""
    given.operator()
    second = given.node_make("n2")
    Node.objects.update(is_virtual=True)
    for node in (cluster.node, second):
        tells(node)
        Node.objects.filter(pk=node.pk).update(is_virtual=True)
    return cluster


def test_from_a_nodes_first_word_on_links_are_assumed_and_said_to_be(cluster, client):
    assert links_load() == {}
    tells(cluster.node)
    link = links_load()["A100"]
    assert (link.within_node, link.within_assumed) == (pytest.approx(0.75 * 300e9 / 8), True)
    assert (link.between_nodes, link.between_assumed) == (pytest.approx(0.8 * 12.5e9 / 8), True)
    client.force_login(cluster.owner)
    page = client.get("/cluster/n1/").content.decode()
    assert "225 GB/s" in page
    assert "assumed: NVLink, 300 GB/s a GPU" in page


def test_a_slow_link_is_told_in_megabytes_and_a_measurements_time_in_the_readers_zone(cluster, client):
    tells(cluster.node)
    Link.objects.update(within_node=1e6, within_measured_at="2026-11-22T17:48:10Z")
    client.force_login(cluster.owner)
    page = client.get("/cluster/n1/").content.decode()
    assert "8 MB/s" in page
    assert 'measured <time datetime="2026-11-22T17:48Z" data-format="clock">' in page


def test_a_planning_measures_both_kinds_on_idle_gpus_one_after_the_other(virtual):
    planning_run()
    planning_run()
    first = probe(virtual)
    assert (first.gpus, first.allocations.count()) == (2, 1), "one at a time"
    assert Job.objects.get().tenant.name == "berth"
    assert ends(virtual, first, LINE % (0.5, 1)) == 1
    planning_run()
    second = probe(virtual)
    assert [(part.node.name, part.gpu_allocations.count()) for part in second.allocations.all()] == [
        ("n1", 1),
        ("n2", 1),
    ]
    ends(virtual, second, LINE % (0.5, 2))
    link = links_load()["A100"]
    assert (link.within_node, link.within_assumed) == (pytest.approx(1e6), False)
    assert (link.between_nodes, link.between_assumed) == (pytest.approx(2e6), False)
    planning_run()
    assert LinkProbe.objects.count() == 2, "known values stay"


def test_it_is_measured_again_when_the_type_s_links_change(virtual):
    planning_run()
    ends(virtual, probe(virtual), LINE % (0.5, 1))
    planning_run()
    ends(virtual, probe(virtual), LINE % (0.5, 2))
    tells(virtual.node, nvlink_gbps=450.0)
    planning_run()
    assert LinkProbe.objects.filter(taken_at=None).count() == 0, "the slowest node still tells the same"
    for node in Node.objects.all():
        tells(node, nvlink_gbps=450.0)
    planning_run()
    assert LinkProbe.objects.get(taken_at=None).between is False
    assert links_load()["A100"].within_node == pytest.approx(1e6), "until then what was measured stands"


@pytest.mark.parametrize("real", [False, True])
def test_what_measured_nothing_is_left_alone_for_a_while(virtual, real):
    planning_run()
    Node.objects.update(is_virtual=not real)
    ends(virtual, probe(virtual), LINE % (0.5, 1) if real else "", exit_code=0 if real else 1)
    assert "no torch" in LinkProbe.objects.get().problem if real else LinkProbe.objects.get().problem
    assert links_load()["A100"].within_assumed
    planning_run()
    (again,) = LinkProbe.objects.filter(taken_at=None)
    assert again.between, "the other kind has its turn"
    LinkProbe.objects.update(taken_at=timezone.now(), begun_at=timezone.now() - timedelta(hours=2))
    Job.objects.filter(pk=again.pk).update(state="CANCELLED", ended_at=timezone.now(), waiting_since=None)
    planning_run()
    assert LinkProbe.objects.filter(taken_at=None, between=False).exists()


def test_without_an_operator_there_is_nobody_to_own_a_probe(cluster):
    tells(cluster.node)
    planning_run()
    assert not LinkProbe.objects.exists()


def test_a_tenants_job_is_no_probe_whatever_it_says(virtual):
    job = virtual.submit(labels={"berth": "links"}, name="links within a node of A100")
    attempt = virtual.start(job)
    virtual.report(attempt, "running", pid=100)
    assert ends(virtual, attempt, LINE % (1e-9, 1)) == 0
    assert links_load()["A100"].within_assumed


def test_what_a_running_job_records_of_its_communication_is_its_tenants_vote(cluster):
    attempt = cluster.running(gpus=4, parameters=1_000_000)
    rows = [[0.1, None, None, None, seconds, 0.0, 1.0] for seconds in (0.25, 0.5, 9.0)]
    assert send(attempt, record(rows=rows))["code"] is None
    assert (LinkVote.objects.get().recent, LinkVote.objects.get().between) == ([pytest.approx(1.5e6)], False)
    cluster.end(attempt)
    alone = cluster.running(gpus=1, parameters=1_000_000)
    send(alone, record(rows=rows))
    assert len(LinkVote.objects.get().recent) == 1, "one GPU has nobody to communicate with"


@pytest.mark.parametrize("measured", [False, True])
def test_theory_speaks_from_the_first_minute_and_an_8_or_16_gpu_job_takes_two_idle_nodes(cluster, measured):
    """Without links it stayed on one node for good: nothing but a run over two could have shown its sensitivity."""
    Node.objects.all().delete()
    for name in ("big-1", "big-2"):
        tells(given.node_make(name, gpus=8, cores=64))
    if measured:  # as two virtual nodes' probes found them
        now = timezone.now()
        Link.objects.update(within_node=47e6, within_measured_at=now, between_nodes=3.3e6, between_measured_at=now)
    job = cluster.submit(gpus=[8, 16], model="vgg", instrumented=True, checkpointable=True, cores_per_gpu=2)
    run = cluster.start(cluster.submit(gpus=1, model="vgg"), Node.objects.get(name="big-1"))
    rows = [[0.01, 0.2, 0.4, 0.01, 0.0, 0.0, 0.61]] * 12
    send(run, record(parameters=100_000 if measured else 5_000_000, rows=rows))
    cluster.end(run)
    planning_run()
    attempt = job.attempts.runs().get()
    assert (attempt.gpus, attempt.allocations.count()) == (16, 2)
    for part in attempt.allocations.all():
        cluster.report(attempt, "running", rank=part.rank, pid=100 + part.rank, node=part.node)
    send(attempt, record(world=16))
    assert AttemptSpeed.objects.get(attempt=attempt).predicted_source == ("theory" if measured else "theory-assumed")


def votes(link, *tenants):
    for name, figure in tenants:
        tenant, _ = Tenant.objects.get_or_create(name=name)
        LinkVote.objects.create(
            gpu_type=link.gpu_type, tenant=tenant, between=False, recent=[figure] * 3, at=timezone.now()
        )
    links_refine()
    return links_load()["A100"].within_node


def test_running_jobs_of_several_tenants_refine_a_link(cluster):
    tells(cluster.node)
    link = Link.objects.get()
    base = link.within_assumed
    assert votes(link, ("vision-lab", base / 2), ("nlp", base / 3)) == pytest.approx(base / 2)
    assert not links_load()["A100"].within_assumed


def test_one_tenants_false_records_move_no_link_that_others_use(cluster):
    tells(cluster.node)
    link = Link.objects.get()
    Tenant.objects.create(name="nlp")
    assert votes(link, ("vision-lab", 1e15)) == link.within_assumed
    assert votes(link, ("honest", link.within_assumed / 2)) == link.within_assumed
