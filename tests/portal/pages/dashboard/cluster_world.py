"""A cluster with jobs of two tenants, made through services as users, agents and beat would, and six readers."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.test import Client

from portal.cluster.models import Node
from portal.cluster.services.joining import join_token_create, node_register
from portal.people.tenants.services import membership_add, tenant_create, user_create
from portal.planning.estimation.models import Link
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Allocation, Job
from portal.work.jobs.services.submission import job_submit
from tests.portal import given
from tests.real_ends import real_end
from tests.real_messages import INVENTORY

PASSWORD = "correct horse battery"
READERS = ("owner", "teammate", "outsider", "operator", "anonymous")


def inventory(name, *, gpus=8, gpu_type="A100", cores=64):
    return INVENTORY | {
        "name": name,
        "boot_id": f"boot-{name}",
        "virtual": True,
        "gpu_type": gpu_type if gpus else None,
        "gpus": [{"index": i, "uuid": f"GPU-{name}-{i}", "memory_mib": 81920} for i in range(gpus)],
        "cores": cores,
        "memory_mib": 262144,
    }


@dataclass
class World:
    users: dict = field(default_factory=dict)
    tenants: dict = field(default_factory=dict)

    def client(self, reader):
        client = Client()
        if reader != "anonymous":
            client.force_login(self.users[reader], backend="django.contrib.auth.backends.ModelBackend")
        return client

    def get(self, reader, path, **query):
        return self.client(reader).get(path, query)

    def node(self, name, **more):
        _, secret = join_token_create(actor=None)
        node = node_register(join_secret=secret, inventory=inventory(name, **more))[0]
        Link.objects.update(within_node=1e9, between_nodes=1e8)  # measured, so that no probe of them holds GPUs
        return node

    def submit(self, reader, name, **description):
        return job_submit(user=self.users[reader], description={"name": name, "command": "true", **description})

    def run(self):
        """Plan, and let every agent report its parts as running. Returns the planning."""
        planning = planning_run()
        for node in Node.objects.all():
            parts = list(Allocation.objects.filter(node=node, released_at=None).select_related("attempt"))
            reports = [
                given.report(given.key_of(part.attempt, part.rank), state, sequence=place, pid=4711)
                for part in parts
                if part.state != "running"
                for place, state in ((1, "prepared"), (2, "running"))
            ]
            given.heard(node=node, reports=reports, holding=[given.held(part.attempt, part.rank) for part in parts])
        return planning

    def end(self, job):
        """The agent reports that a running job of one node has ended well."""
        part = Allocation.objects.select_related("attempt", "node").get(attempt__job=job, released_at=None)
        key = given.key_of(part.attempt, part.rank)
        others = Allocation.objects.filter(node=part.node, released_at=None).exclude(pk=part.pk)
        holding = [given.held(other.attempt, other.rank) for other in others.select_related("attempt")]
        report = given.report(key, "ended", sequence=9, **real_end())
        given.heard(node=part.node, reports=[report], holding=holding)

    def job(self, name):
        return Job.objects.get(name=name)

    def array(self, name):
        return Job.objects.get(name=name, array=None)


def people(world):
    """vision: owner and teammate; speech: outsider; an operator of neither."""
    for tenant in ("vision", "speech"):
        world.tenants[tenant] = tenant_create(name=tenant, actor=None)
    for name, tenant in (("owner", "vision"), ("teammate", "vision"), ("outsider", "speech"), ("operator", None)):
        world.users[name] = user_create(username=name, password=PASSWORD, is_operator=tenant is None)
        if tenant:
            membership_add(user=world.users[name], tenant=world.tenants[tenant], actor=None)
    return world


def grow(world, *, nodes, jobs):
    """Add nodes of 8 GPUs and jobs of both tenants, some of which must wait."""
    for _ in range(nodes):
        world.node(f"n{Node.objects.count():03}")
    for place in range(jobs):
        world.submit(("owner", "outsider")[place % 2], f"job-{place:03}", gpus=[4], expected_duration_s=60)
    world.run()
    return world
