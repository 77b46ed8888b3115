"""The pages of a partition of another scheduler: the holders of its GPUs, its queue, and how a silent one reads."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from portal.cluster.services.contact import node_leave
from portal.engines.models import Engine, EngineJob
from portal.engines.services import engine_detach
from portal.pages.dashboard.cluster.abilities import abilities_of
from portal.people.tenants.models import Tenant
from research.workloads.partitions import NODES
from tests.portal import given
from tests.portal.engines.test_bridge import Bridge, joined, seen, waiting

pytestmark = pytest.mark.django_db
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture
def bridge(cluster):
    """A partition of four nodes: gn-01 has a pilot that runs lena's job, gn-04 is drained in Slurm."""
    bridge = Bridge()
    waiting(cluster, gpus=2)
    (order,) = bridge.exchange(nodes=NODES)["submit"]
    node = joined(order)
    bridge.order, bridge.node = order, node
    bridge.attempt = cluster.running(node, name="zebra-job")
    bridge.exchange(running(order))
    return bridge


def running(order, **more):
    return seen(order["name"], "running", since=timezone.now().timestamp() - 5, ends_at=given_end(), **more)


def given_end():
    return timezone.now().timestamp() + 3600


@pytest.fixture
def outsider(cluster):
    return given.member("otto", Tenant.objects.create(name="speech"))


def page(user, path="", **query):
    client = Client()
    client.force_login(user, backend=MODEL_BACKEND)
    answer = client.get(path or f"/cluster/engines/{Engine.objects.get().pk}/", query)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def text(html):
    said = unescape(re.sub(r"<[^>]+>", " ", html.partition("<main")[2].partition(">")[2]))
    return re.sub(r" ([.,:;])", r"\1", re.sub(r"\s+", " ", said))


def looks(html, row):
    """The looks of a node's GPUs, in order."""
    part = html.partition(f">{row}<")[2].partition("b-noderow-end")[0]
    return re.findall(r'class="b-gpu b-([a-z0-9]+)', part)


def test_the_holders_of_each_gpu_are_shown(cluster, bridge):
    html = page(cluster.owner)
    assert looks(html, "gn-01") == ["mine", "free", "theirs", "theirs"]
    assert looks(html, "gn-02") == ["theirs"] * 4
    assert looks(html, "gn-03") == ["theirs", "theirs", "free", "free"]
    assert looks(html, "gn-04") == ["out"] * 4
    said = text(html)
    assert "3 GPUs are free. Berth may use 8 of the 16 here and holds 2; the rest is Slurm's." in said
    assert "drained in Slurm: fan" in said
    assert "zebra-job" in said
    assert "Attached a partition of atlas, a Slurm cluster; 4 nodes, 16 A100" in said


def test_another_tenant_reads_no_name_and_operators_read_all(cluster, bridge, outsider):
    assert "zebra" not in page(outsider)
    assert "lena" not in page(outsider)
    assert looks(page(outsider), "gn-01") == ["others", "free", "theirs", "theirs"]
    assert "zebra-job" in page(given.operator())
    Engine.objects.update(tenant=cluster.tenant)
    assert "Only jobs of vision-lab run here" in text(page(cluster.owner))
    html = page(outsider)
    assert "vision-lab" not in html
    assert "Only jobs of one tenant run here" in text(html)


def test_the_inventory_may_be_older_than_the_pilots(cluster, bridge):
    """Slurm counts the pilot's GPUs as free still: they are no one's twice."""
    bridge.exchange(running(bridge.order), nodes=[NODES[0] | {"gpus_busy": {"a100": 0}}])
    assert looks(page(cluster.owner), "gn-01") == ["mine", "free", "free", "free"]


def test_an_order_whose_agent_has_not_joined_holds_nameless_gpus(cluster):
    bridge = Bridge()
    waiting(cluster, gpus=2)
    (order,) = bridge.exchange(nodes=NODES)["submit"]
    bridge.exchange(running(order, node="gn-03"))
    html = page(cluster.owner)
    assert looks(html, "gn-03") == ["others", "others", "free", "free"]
    assert "its node starts" in html


def test_what_waits_in_the_other_queue(cluster):
    bridge = Bridge()
    waiting(cluster, 2, gpus=2)
    first, second = bridge.exchange(nodes=NODES)["submit"]
    assert "4 GPUs not seen in its queue yet not known yet" in text(page(cluster.owner))
    soon = timezone.now().timestamp() + 1200
    lines = [seen(each["name"], "pending", reason="Priority", since=soon, node="") for each in (first, second)]
    bridge.exchange(*lines)
    at = datetime.fromtimestamp(soon, UTC)
    assert f"4 GPUs Priority about {at:%H:%M}" in text(page(cluster.owner))


def test_a_partition_that_does_not_answer_reads_as_it_was_seen_last(cluster, bridge, outsider):
    bridge.exchange(away={"since": timezone.now().timestamp() - 600, "reason": "Unable to contact slurm controller"})
    said = text(page(outsider))
    assert "Not answering since" in said
    assert "Jobs that run here go on. The rest is as of" in said
    assert "Unable to contact" not in said
    operator = given.operator()
    assert "Slurm: Unable to contact slurm controller" in text(page(operator))
    problems = page(operator, "/fragments/overview/problems")
    assert "atlas/gpu does not answer" in problems
    assert "Unable to contact slurm controller; jobs there go on" in problems
    bridge.exchange(running(bridge.order))
    assert "Attached" in text(page(outsider))
    assert "atlas/gpu" not in page(operator, "/fragments/overview/problems")
    Engine.objects.update(last_contact_at=timezone.now() - timedelta(minutes=2))
    assert "Not answering since" in text(page(outsider))
    assert "its bridge is not heard" in page(operator, "/fragments/overview/problems")


def test_a_detached_partition_says_so_and_stands_on_the_cluster_page_no_more(cluster, bridge):
    assert "atlas/gpu" in page(cluster.owner, "/cluster/")
    engine_detach(engine=bridge.engine, actor=None)
    said = text(page(cluster.owner))
    assert "Detached" in said
    assert "1 GPU is free. Berth holds 2 until they end, and asks for no more." in said
    assert "Berth can do here" not in said
    assert "atlas/gpu" not in page(cluster.owner, "/cluster/")
    assert "atlas/gpu" not in page(given.operator(), "/fragments/overview/problems")


def test_the_cluster_page_has_a_row_for_each_partition_and_nothing_without_one(cluster, outsider):
    assert "other clusters" not in page(outsider, "/cluster/")
    bridge = Bridge()
    bridge.exchange(nodes=NODES)
    said = text(page(outsider, "/cluster/"))
    assert (
        "atlas/gpu 4 nodes, 16 A100 Berth may use 8 of the 16 here and holds 0; the rest is Slurm's. 2 more free"
        in said
    )


def test_refused_orders_are_a_problem_for_ten_minutes(cluster, bridge, outsider):
    waiting(cluster, gpus=2)
    order = bridge.exchange(running(bridge.order))["submit"][0]
    refused = [{"name": order["name"], "reason": "Invalid qos specification"}]
    bridge.exchange(running(bridge.order), refused=refused)
    said = "Slurm refuses pilots of atlas/gpu: Invalid qos specification"
    operator = given.operator()
    assert said in page(operator, "/fragments/overview/problems")
    assert said in page(operator)
    assert "Invalid qos" not in page(outsider)
    Engine.objects.update(refused_at=timezone.now() - timedelta(minutes=11))
    assert said not in page(operator, "/fragments/overview/problems")


def test_what_can_be_done_asks_the_form_and_never_the_name(cluster, bridge):
    pilot, attempt = Engine(kind="slurm", form="pilot"), Engine(kind="other", form="attempt")
    can = {
        form: {row["says"] for row in abilities_of(form_of) if row["can"]}
        for form, form_of in (("pilot", pilot), ("attempt", attempt))
    }
    assert {"Share a GPU", "Tune cores"} <= can["pilot"] - can["attempt"]
    assert "Keep users' accounts apart" in can["attempt"] - can["pilot"]
    for engine in (pilot, attempt):
        rows = abilities_of(engine)
        assert len({row["says"] for row in rows}) == len(rows) == 9
        assert all(row["small"] for row in rows)


def test_a_large_partition_has_pages(cluster):
    bridge = Bridge()
    bridge.exchange(nodes=[NODES[2] | {"name": f"gn-{place:03}"} for place in range(120)])
    html = page(cluster.owner, page="3")
    assert "240 GPUs are free." in html
    assert "101\u2013120 of 120 nodes" in html
    assert ">gn-100<" in html
    assert ">gn-099<" not in html


def test_a_pilot_s_page_names_the_job_that_holds_it(cluster, bridge, outsider):
    said = text(page(outsider, "/cluster/gn-01-g0/"))
    assert re.search(r"Held by Slurm job 17 on gn-01, until \d\d:\d\d: an allocation in atlas/gpu", said)
    assert "Slurm calls the node gn-01; g0 is its first GPU there." in said
    assert "allocation" not in text(page(outsider, "/cluster/n1/"))


def test_a_job_s_page_names_the_slurm_job_that_held_its_node_then(cluster, bridge):
    number = bridge.attempt.job.number
    assert "on gn-01-g0 in Slurm job 17" in text(page(cluster.owner, f"/jobs/{number}/"))
    later = {"since": timezone.now() + timedelta(hours=2), "ticket": "18", "node": bridge.node}
    EngineJob.objects.create(engine=bridge.engine, name="berth-pilot-later", gpus=2, **later)
    assert "on gn-01-g0 in Slurm job 17" in text(page(cluster.owner, f"/jobs/{number}/"))
    assert "Slurm job" not in text(page(cluster.owner, f"/jobs/{cluster.running(name='own').job.number}/"))


class TestGivenBack:
    @pytest.fixture(autouse=True)
    def left(self, bridge):
        node_leave(node=bridge.node, detail="its allocation ended")
        bridge.exchange(seen(bridge.order["name"], "ended", reason="TIMEOUT"))

    def test_it_is_no_problem_and_stands_in_no_list(self, cluster):
        operator = given.operator()
        for path in ("/cluster/fragments/nodes", "/fragments/overview/nodes", "/fragments/overview/problems"):
            assert "gn-01-g0" not in page(operator, path), path
        client = Client()
        client.force_login(operator, backend=MODEL_BACKEND)
        health = client.get("/healthz").json()
        assert health["nodes_registered"] == 1
        assert not [each for each in health["problems"] if "gn-01" in each]
        for path in ("/api/v1/nodes", "/cluster/board", "/metrics"):
            assert "gn-01-g0" not in client.get(path).content.decode(), path

    def test_its_own_page_says_what_became_of_it(self, cluster):
        said = text(page(cluster.owner, "/cluster/gn-01-g0/"))
        assert "Given back" in said
        assert "It was held by Slurm job 17 on gn-01" in said
        assert "Drain" not in page(given.operator(), "/cluster/gn-01-g0/").partition("drain-dialog")[0]

    def test_the_order_is_over(self):
        assert not EngineJob.objects.open().filter(ticket="17").exists()
