"""A bridge attaches a partition and carries orders: pilots are wanted as jobs can use them, and silence is no end."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.cluster.models import JoinToken, Node
from portal.cluster.services.contact import node_leave
from portal.cluster.services.joining import join_token_create, node_register
from portal.cluster.services.operating import node_drain
from portal.engines import services
from portal.engines.models import Engine, EngineJob
from portal.engines.services import engine_detach
from portal.foundation.errors import BerthError
from portal.people.tenants.models import Tenant
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from tests.portal import given

pytestmark = pytest.mark.django_db

DESCRIPTION = {
    "kind": "slurm",
    "cluster": "atlas",
    "partition": "gpu",
    "form": "pilot",
    "version": "22.05.8",
    "gpus_max": 8,
    "gpus_per_pilot": 2,
    "limit_s": 3600,
    "idle_s": 300,
}
NODE = {
    "name": "gn-01",
    "state": "idle",
    "takes_jobs": True,
    "reason": "",
    "cores": 16,
    "cores_busy": 0,
    "memory_mib": 64000,
    "memory_busy_mib": 0,
    "gpus": {"a100": 4},
    "gpus_busy": {"a100": 0},
}


class Bridge:
    """A bridge's calls, as `workers.bridge` makes them."""

    def __init__(self, *, is_known=True, **changes):
        self.description = DESCRIPTION | changes
        self.client = Client()
        answer = self.post("attach", self.description, join_token_create(actor=None)[1])
        assert answer.status_code == 201, answer.content
        self.token = answer.json()["token"]
        if is_known:  # a pilot was there before
            past = {"node": Node.objects.get(name="n1"), "ended_at": timezone.now(), "state": "ended"}
            EngineJob.objects.get_or_create(name="berth-pilot-0", engine=self.engine, gpus=2, defaults=past)

    def post(self, path, body, token):
        return self.client.post(
            f"/api/bridge/v1/{path}",
            body,
            content_type="application/json",
            headers={"Authorization": f"Bearer {token}"},
        )

    def exchange(self, *orders, away=None, nodes=None, refused=()):
        body = {"engine": self.description, "away": away, "nodes": nodes, "orders": orders, "refused": refused}
        answer = self.post("exchange", body, self.token)
        assert answer.status_code == 200, answer.content
        return answer.json()

    @property
    def engine(self):
        return Engine.objects.get()


def seen(name, state, **more):
    return {"name": name, "ticket": "17", "state": state, "reason": "", "node": "gn-01"} | more


def waiting(cluster, number=1, gpus=1, **more):
    """Jobs that a planning has looked at and could not start."""
    for _ in range(number):
        job = cluster.submit(gpus=gpus, **more)
        Job.objects.filter(pk=job.pk).update(reason="not-enough-idle-gpus")


def joined(order, name="gn-01-g0", gpus=2, gpu_type="A100"):
    body = given.INVENTORY | {
        "name": name,
        "gpu_type": gpu_type,
        "gpus": [{"index": each, "uuid": f"{name}-{each}", "memory_mib": 40960} for each in range(gpus)],
    }
    return node_register(join_secret=order["join_token"], inventory=body)[0]


def test_one_pilot_shows_what_an_unknown_partition_has_and_jobs_may_ask_for_it_when_it_is_gone(cluster):
    bridge = Bridge(is_known=False)
    with pytest.raises(BerthError, match="the most there are of an allowed type is 4"):
        cluster.submit(gpus=6)
    (order,) = bridge.exchange()["submit"]
    node_leave(node=joined(order, gpu_type="H100"), detail="its allocation ended")
    cluster.submit(gpus=6, gpu_types=["H100"])
    with pytest.raises(BerthError, match="the most there are of an allowed type is 8"):
        cluster.submit(gpus=9, gpu_types=["H100"])
    engine_detach(engine=bridge.engine, actor=None)
    with pytest.raises(BerthError, match="the most there are of an allowed type is 0"):
        cluster.submit(gpus=1, gpu_types=["H100"])


def test_pilots_are_wanted_as_waiting_jobs_can_use_them(cluster):
    bridge = Bridge()
    assert bridge.exchange(nodes=[NODE])["submit"] == []
    assert bridge.engine.nodes[0]["gpus"] == {"a100": 4}
    waiting(cluster, 3)
    answer = bridge.exchange()
    assert [order["gpus"] for order in answer["submit"]] == [2, 2]
    assert not any(order["again"] for order in answer["submit"])
    assert answer["period_s"] == 1.0
    waiting(cluster, 20)
    assert len(bridge.exchange()["follow"]) == 4, "gpus_max is 8"


def test_jobs_that_another_node_would_not_help_want_none(cluster):
    bridge = Bridge()
    waiting(cluster, 3)
    Job.objects.update(reason="tenant-quota")
    assert bridge.exchange()["submit"] == []
    Job.objects.update(reason="not-enough-idle-gpus", start_after=timezone.now() + timedelta(hours=1))
    assert bridge.exchange()["submit"] == []


def test_a_job_that_no_pilot_can_hold_wants_none(cluster):
    bridge = Bridge()
    waiting(cluster)
    long = {"reason": "nodes-close", "age_s": 7200.0, "time_limit_s": None}
    Job.objects.update(**long)
    assert bridge.exchange()["submit"] == []
    Job.objects.update(**long | {"time_limit_s": 1800})
    assert len(bridge.exchange()["submit"]) == 1


def test_what_was_handed_out_is_handed_out_again_with_the_same_secret_until_it_is_seen(cluster):
    bridge = Bridge()
    waiting(cluster)
    (first,) = bridge.exchange()["submit"]
    (again,) = bridge.exchange()["submit"]
    assert again == first | {"again": True}
    answer = bridge.exchange(seen(first["name"], "pending", reason="Priority"))
    assert (answer["submit"], answer["follow"]) == ([], [{"name": first["name"], "ticket": "17"}])
    assert EngineJob.objects.open().get().reason == "Priority"


def test_a_scheduler_that_is_away_ends_and_submits_nothing(cluster):
    bridge = Bridge()
    waiting(cluster)
    (order,) = bridge.exchange()["submit"]
    bridge.exchange(seen(order["name"], "running", since=1.0e9, ends_at=2.0e9))
    waiting(cluster, 5)
    EngineJob.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    answer = bridge.exchange(away={"since": 1.7e9, "reason": "Unable to contact slurm controller"})
    assert answer["submit"] == []
    assert bridge.engine.silent_since is not None
    assert EngineJob.objects.open().count() == 1
    assert len(bridge.exchange(seen(order["name"], "running"))["submit"]) == 2
    assert bridge.engine.silent_since is None


def test_an_order_that_is_not_listed_lives_as_long_as_its_node(cluster):
    bridge = Bridge()
    waiting(cluster)
    (order,) = bridge.exchange()["submit"]
    bridge.exchange(seen(order["name"], "running"))
    node = joined(order)
    EngineJob.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    bridge.exchange()
    assert EngineJob.objects.open().exists()
    node_leave(node=node, detail="its allocation ended")
    bridge.exchange()
    assert not EngineJob.objects.open().filter(name=order["name"]).exists()


def test_an_end_that_is_said_of_a_node_that_is_there_is_a_second_copys(cluster):
    bridge = Bridge()
    waiting(cluster)
    (order,) = bridge.exchange()["submit"]
    node = joined(order)
    ended = seen(order["name"], "ended", reason="FAILED")
    bridge.exchange(ended)
    assert EngineJob.objects.open().filter(name=order["name"]).exists()
    attempt = cluster.running(node)
    Node.objects.filter(pk=node.pk).update(last_contact_at=timezone.now() - timedelta(minutes=1))
    bridge.exchange(ended)
    assert not EngineJob.objects.open().filter(name=order["name"]).exists()
    attempt.refresh_from_db()
    assert attempt.state == "RUNNING", "its lease may last"
    Node.objects.filter(pk=node.pk).update(last_contact_at=timezone.now() - timedelta(minutes=16))
    bridge.exchange()
    attempt.refresh_from_db()
    assert (attempt.state, Node.objects.get(pk=node.pk).left_at is None) == ("NODE_FAIL", False)


def test_an_order_that_ended_before_its_agent_joined_is_said_and_not_asked_again_at_once(cluster):
    bridge = Bridge()
    waiting(cluster)
    (order,) = bridge.exchange()["submit"]
    answer = bridge.exchange(seen(order["name"], "ended", reason="FAILED"))
    assert "FAILED" in bridge.engine.refused_reason
    assert answer["submit"] == []
    Engine.objects.update(refused_at=timezone.now() - timedelta(minutes=2))
    assert len(bridge.exchange()["submit"]) == 1


def test_a_refused_order_is_over_and_its_secret_of_no_use(cluster):
    bridge = Bridge()
    waiting(cluster)
    (order,) = bridge.exchange()["submit"]
    bridge.exchange(refused=[{"name": order["name"], "reason": "Invalid qos specification"}])
    assert bridge.engine.refused_reason == "Invalid qos specification"
    assert not JoinToken.objects.filter(takes_over=True).exists()


def test_an_idle_pilot_is_given_back_and_one_that_works_is_not(cluster):
    bridge = Bridge(idle_s=60)
    waiting(cluster, 2, gpus=2)
    orders = bridge.exchange()["submit"]
    nodes = [joined(order, f"gn-01-g{2 * place}") for place, order in enumerate(orders)]
    lines = [seen(order["name"], "running") for order in orders]
    cluster.started(nodes[0])
    Job.objects.filter(state="PENDING").update(state="CANCELLED")
    assert bridge.exchange(*lines)["stop"] == []
    EngineJob.objects.exclude(idle_since=None).update(idle_since=timezone.now() - timedelta(seconds=61))
    bridge.exchange(*lines)
    assert [each["name"] for each in bridge.exchange(*lines)["stop"]] == [orders[1]["name"]]


def test_a_detached_partition_gives_back_what_is_idle_and_lets_the_rest_end(cluster):
    bridge = Bridge()
    waiting(cluster, 3, gpus=2)
    orders = bridge.exchange()["submit"]
    works, idle = (joined(order, f"gn-01-g{2 * place}") for place, order in enumerate(orders[:2]))
    cluster.started(works)
    lines = [seen(order["name"], "running") for order in orders[:2]] + [seen(orders[2]["name"], "pending")]
    bridge.exchange(*lines)
    engine_detach(engine=bridge.engine, actor=given.operator())
    bridge.exchange(*lines)
    answer = bridge.exchange(*lines)
    assert [each["name"] for each in answer["stop"]] == [orders[1]["name"], orders[2]["name"]]
    assert answer["submit"] == []
    for node in (works, idle):
        node_leave(node=node, detail="its allocation ended")
    bridge.exchange(*(seen(order["name"], "ended") for order in orders))
    assert bridge.post("exchange", {}, bridge.token).status_code == 401


def test_a_pilot_that_waits_for_nobody_is_taken_back(cluster):
    bridge = Bridge()
    waiting(cluster)
    (order,) = bridge.exchange()["submit"]
    bridge.exchange(seen(order["name"], "pending"))
    Job.objects.update(state="CANCELLED")
    assert bridge.exchange(seen(order["name"], "pending"))["stop"] == [{"name": order["name"], "ticket": "17"}]


def test_a_working_pilot_near_its_end_has_a_successor(cluster):
    bridge = Bridge()
    waiting(cluster, gpus=2)
    (order,) = bridge.exchange()["submit"]
    cluster.started(joined(order))
    Job.objects.filter(state="PENDING").update(state="CANCELLED")
    later, soon = (timezone.now().timestamp() + each for each in (3000, 100))
    assert bridge.exchange(seen(order["name"], "running", ends_at=later))["submit"] == []
    assert len(bridge.exchange(seen(order["name"], "running", ends_at=soon))["submit"]) == 1


def test_an_allocation_takes_the_name_of_one_that_is_over_and_no_other(cluster):
    bridge = Bridge()
    waiting(cluster, 3, gpus=2)
    first, second, third = bridge.exchange()["submit"]
    node = joined(first)
    other = joined(second)
    assert (other.name, other.pk == node.pk) == ("gn-01-g0.2", False)
    node_leave(node=node, detail="its allocation ended")
    Node.objects.filter(pk=cluster.node.pk).update(last_contact_at=None)
    with pytest.raises(BerthError, match="There is a node n1 already"):
        joined(third, "n1")
    assert joined(third).pk == node.pk


def test_parts_of_a_killed_pilot_count_until_their_leases_are_over(cluster):
    bridge = Bridge()
    waiting(cluster, 3, gpus=2)
    first, second, third = bridge.exchange()["submit"]
    node = joined(first)
    attempt = cluster.running(node)
    Node.objects.filter(pk=node.pk).update(last_contact_at=timezone.now() - timedelta(minutes=14))
    assert joined(second).pk != node.pk
    attempt.refresh_from_db()
    assert attempt.state == "RUNNING"
    Node.objects.filter(pk=node.pk).update(last_contact_at=timezone.now() - timedelta(minutes=16))
    assert joined(third).pk == node.pk
    attempt.refresh_from_db()
    assert attempt.state == "NODE_FAIL"


def test_who_may_attach_and_who_may_call(cluster):
    bridge = Bridge()
    assert bridge.post("exchange", {}, "berthengine_x").status_code == 401
    assert bridge.post("attach", DESCRIPTION, "berthjoin_x").status_code == 401
    assert bridge.post("attach", DESCRIPTION, bridge.token).status_code == 401
    bridge.exchange()
    answer = bridge.post("attach", DESCRIPTION, join_token_create(actor=None)[1])
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "name_taken")
    engine_detach(engine=bridge.engine, actor=None)
    bridge.exchange()
    assert bridge.post("exchange", {}, bridge.token).status_code == 401
    assert Bridge().engine == bridge.engine, "it may be attached anew"


def test_a_tenant_that_is_not_there_is_refused_by_its_field(cluster):
    bridge = Bridge(tenant=cluster.tenant.name)
    assert bridge.engine.tenant == cluster.tenant
    refused = bridge.post("attach", DESCRIPTION | {"tenant": "nobody"}, join_token_create(actor=None)[1])
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "tenant")


def test_ended_orders_go_after_a_while(cluster):
    bridge = Bridge()
    waiting(cluster)
    (order,) = bridge.exchange()["submit"]
    bridge.exchange(seen(order["name"], "ended"))
    EngineJob.objects.update(ended_at=timezone.now() - services.KEEP - timedelta(days=1))
    Job.objects.update(state="CANCELLED")
    bridge.exchange()
    assert not EngineJob.objects.filter(name=order["name"]).exists()


def test_a_pilot_of_one_tenant_serves_no_other(cluster):
    other = Tenant.objects.create(name="speech-lab")
    bridge = Bridge(tenant=other.name)
    waiting(cluster)
    assert bridge.exchange()["submit"] == [], "jobs of others want no pilot"
    theirs = cluster.submit(gpus=2, gpu_types=["A100"], user=given.member("sam", other), tenant=other.name)
    Job.objects.filter(pk=theirs.pk).update(reason="not-enough-idle-gpus")
    (order,) = bridge.exchange()["submit"]
    joined(order)
    node_drain(node=cluster.node, reason="away", actor=given.operator())
    ours = [cluster.submit(gpus=1, gpu_types=["A100"]) for _ in range(2)]
    planning_run()
    assert Job.objects.get(pk=theirs.pk).state == "STARTING"
    assert {Job.objects.get(pk=job.pk).reason for job in ours} & {"tenant-not-trusted"}
