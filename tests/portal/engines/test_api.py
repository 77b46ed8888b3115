"""`/api/v1/engines`: the partitions with counts of others' jobs, and without another tenant's name."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.engines.models import Engine
from portal.engines.services import engine_detach
from portal.people.tenants.models import Tenant
from portal.people.tenants.services import token_create
from research.workloads.partitions import NODES
from tests.portal import given
from tests.portal.engines.test_bridge import Bridge, joined, seen, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def bridge(cluster):
    bridge = Bridge()
    waiting(cluster, gpus=2)
    (order,) = bridge.exchange(nodes=NODES)["submit"]
    cluster.running(joined(order), name="zebra-job")
    bridge.order = order
    bridge.exchange(seen(order["name"], "running"))
    return bridge


def ask(user, path, scopes=("cluster:read",)):
    _, secret = token_create(user=user, name="test", scopes=list(scopes), actor=None)
    return Client().get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {secret}"})


def test_the_counts_divide_all_gpus(cluster, bridge):
    (found,) = ask(cluster.owner, "engines").json()["results"]
    assert (found["name"], found["state"], found["gpus"]) == ("atlas/gpu", "attached", 16)
    parts = [found[f"gpus_{name}"] for name in ("held", "others", "free", "out")]
    assert parts == [2, 8, 2, 4]
    assert sum(parts) == found["gpus"]
    assert "holds_gpus" in found["capabilities"]


def test_one_by_its_name_with_a_slash_plain_or_encoded(cluster, bridge):
    found = ask(cluster.owner, "engines/atlas/gpu").json()
    assert found == ask(cluster.owner, "engines/atlas%2Fgpu").json()
    assert [each["gpus_held"] for each in found["nodes"]] == [2, 0, 0, 0]
    assert found["nodes"][3]["reason"] == "fan"
    running = next(each for each in found["orders"] if each["state"] == "running")
    assert (running["ticket"], running["host"], running["node"]) == ("17", "gn-01", "gn-01-g0")
    assert ask(cluster.owner, "engines/atlas").status_code == 404
    assert ask(cluster.owner, "engines/atlas/gpu", scopes=("jobs:read",)).status_code == 403


def test_another_tenant_reads_neither_jobs_nor_the_tenant_that_is_served(cluster, bridge):
    Engine.objects.update(
        tenant=cluster.tenant, refused_at=timezone.now(), refused_reason="Invalid qos", away_reason="gone"
    )
    outsider = given.member("otto", Tenant.objects.create(name="speech"))
    for path in ("engines", "engines/atlas/gpu"):
        said = ask(outsider, path).content.decode()
        assert not [word for word in ("zebra", "vision-lab", "Invalid", "gone", "lena") if word in said], path
    assert ask(cluster.owner, "engines/atlas/gpu").json()["tenant"] == "vision-lab"
    found = ask(given.operator(), "engines/atlas/gpu").json()
    assert (found["tenant"], found["refused_reason"], found["away_reason"]) == ("vision-lab", "Invalid qos", "gone")


def test_a_silent_and_a_detached_one_say_so(cluster, bridge):
    Engine.objects.update(last_contact_at=timezone.now() - timedelta(minutes=3))
    found = ask(cluster.owner, "engines/atlas/gpu").json()
    assert found["state"] == "silent"
    assert found["silent_since"] == found["last_contact_at"]
    engine_detach(engine=bridge.engine, actor=None)
    assert ask(cluster.owner, "engines/atlas/gpu").json()["state"] == "detached"


def test_queries_do_not_grow_with_nodes(cluster, bridge, django_assert_max_num_queries):
    bridge.exchange(
        seen(bridge.order["name"], "running"), nodes=[NODES[0] | {"name": f"gn-{place}"} for place in range(200)]
    )
    _, secret = token_create(user=cluster.owner, name="test", scopes=["cluster:read"], actor=None)
    for path in ("engines", "engines/atlas/gpu"):
        with django_assert_max_num_queries(10):
            Client().get(f"/api/v1/{path}", headers={"Authorization": f"Bearer {secret}"})
