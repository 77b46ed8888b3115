"""One cluster, two tenants and six casts, each with what it could hold in its hand: a session, an API token, a node token."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from django.db import connection, transaction
from django.test import Client
from django.test.client import ClientHandler
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services.joining import join_token_create, node_register
from portal.engines.models import EngineJob
from portal.engines.services import engine_attach, engine_seen
from portal.pages.laboratory.checking import SimulationOrder
from portal.pages.laboratory.run.worker import simulation_next
from portal.pages.laboratory.services import owned_share, simulation_order, trace_add
from portal.people.tenants.models import Tenant
from portal.people.tenants.services import SCOPES, membership_add, tenant_create, token_create, user_create
from portal.planning.offers.services import offers_of
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.templating.services import template_save, values_save
from portal.work.jobs.models import Allocation, Job
from portal.work.jobs.services.control import job_hold
from portal.work.jobs.services.logs import log_append
from portal.work.jobs.services.submission import job_submit
from portal.work.secrets.services import secret_set
from portal.work.sweeps.models import TaskMetric, TaskReading
from portal.work.uploads.models import Upload
from research.workloads.partitions import DESCRIPTION, EXCHANGE
from tests.portal import given
from tests.portal.pages.dashboard.cluster_world import inventory

CASTS = ("owner", "teammate", "outsider", "operator", "anonymous", "node")
PEOPLE = CASTS[:4]
HANDLER = ClientHandler(enforce_csrf_checks=False)
"""One for all clients: each would load the middleware anew."""
PASSWORD = "correct horse battery"
SECRETS = ("zebra-name", "zebralabel", "zebravalue", "zebra-command", "ZEBRAENV", "zebra-env-value", "zebra-lab")
"""The words that the owner's jobs are full of; user names come from `World.users`."""
HIDDEN = {
    "command": "echo zebra-command",
    "labels": {"zebralabel": "zebravalue"},
    "environment": {"ZEBRAENV": "zebra-env-value"},
}


def savepoint(ask, then=None):
    """Ask inside a transaction that is taken back, so that each request meets the same world. `then` is called before that."""
    with transaction.atomic():
        answer = ask()
        if not answer.streaming:
            answer.content  # noqa: B018 - rendered before the rows are gone
        if then is not None:
            then()
        transaction.set_rollback(True)
    return answer


@dataclass
class World:
    """`names` are what the rows of the table put into paths and bodies."""

    users: dict = field(default_factory=dict)
    bearers: dict = field(default_factory=dict)
    clients: dict = field(default_factory=dict)
    names: dict = field(default_factory=dict)
    nodes: dict = field(default_factory=dict)

    def ask(self, cast, door, method, path, body=None, then=None):
        """Send one request as a cast comes to that door: people with a session to pages, else with a bearer token."""
        bearer = self.bearers.get(cast)
        by_token = door in {"api", "agent"} or cast == "node"
        headers = {"Authorization": f"Bearer {bearer}"} if bearer and by_token else {}
        client = Client(raise_request_exception=True)
        client.handler = HANDLER
        if not by_token:
            client.cookies.update(self.clients[cast].cookies)  # a copy: signing out empties the jar
        return savepoint(lambda: send(client, method, path, body, headers), then)


def send(client, method, path, body=None, headers=None):
    """A dict goes as JSON, a list of pairs as a form, bytes as they are."""
    if isinstance(body, list):
        fields = {name: [value for key, value in body if key == name] for name, _ in body}
        return client.generic(
            method,
            path,
            "&".join(f"{name}={value}" for name, values in fields.items() for value in values).encode(),
            content_type="application/x-www-form-urlencoded",
            headers=headers,
        )
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    kind = "application/octet-stream" if isinstance(body, bytes) else "application/json" if data else ""
    return client.generic(method, path, data, content_type=kind, headers=headers)


def _people(world):
    tenants = {name: tenant_create(name=name, actor=None) for name in ("zebra-lab", "speech")}
    for cast, tenant in (("owner", "zebra-lab"), ("teammate", "zebra-lab"), ("outsider", "speech"), ("operator", None)):
        name = f"zebra.{cast}" if tenant == "zebra-lab" else cast
        user = world.users[cast] = user_create(username=name, password=PASSWORD, is_operator=tenant is None)
        if tenant:
            membership_add(user=user, tenant=tenants[tenant], actor=None)
        scopes = SCOPES if tenant is None else [scope for scope in SCOPES if scope != "operator"]
        token, world.bearers[cast] = token_create(user=user, name="test", scopes=scopes, actor=None)
        if cast == "owner":
            world.names["token"] = token.pk
        world.clients[cast] = Client(raise_request_exception=True)
        world.clients[cast].force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    world.clients["anonymous"] = Client()
    world.names |= {"tenant": "zebra-lab", "own_tenant": "speech", "vision": tenants["zebra-lab"].pk}
    return tenants


def _node(world, name, **more):
    _, secret = join_token_create(actor=None, name=name)
    world.nodes[name], world.bearers[name] = node_register(join_secret=secret, inventory=inventory(name, **more))


def running(world, node):
    """Let a node's agent say that all its parts run."""
    parts = list(Allocation.objects.filter(node=node, released_at=None).select_related("attempt"))
    keys = [given.key_of(part.attempt, part.rank) for part in parts]
    reports = [given.report(key, "running", pid=4711) for key in keys]
    given.heard(node=node, reports=reports, holding=[given.held(part.attempt, part.rank) for part in parts])
    return keys


def numbers_unmistakable():
    """Let jobs be counted from 7 654 001: a number that stands nowhere by chance."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DELETE FROM sqlite_sequence WHERE name = 'jobs_job'")
            cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs_job', 7654000)")
        else:
            cursor.execute("SELECT setval(pg_get_serial_sequence('jobs_job', 'id'), 7654000)")


def _upload(world):
    tenant = Tenant.objects.get(name="zebra-lab")
    made = Upload.objects.create(tenant=tenant, digest="e" * 64, size_bytes=0, count=0, used_at=timezone.now())
    return made.digest


def _laboratory(world):
    """A trace and two simulations of the owner's: one kept to herself, one shared within the tenant."""
    owner, tenant = world.users["owner"], Tenant.objects.get(name="zebra-lab")
    content = b"submitted_s,tenant,gpus,duration_s\n0,zebra-lab,1,60\n"
    trace = trace_add(user=owner, tenant=tenant, name="zebra-trace", form="berth-csv", content=content)
    cluster = "nodes: [{gpu_type: A100, gpus: 1, cores: 1, memory_gib: 1}]"
    wanted = SimulationOrder(name="zebra-simulation", trace=trace, policies=["fifo"], cluster=cluster)
    own, shared = (simulation_order(user=owner, tenant=tenant, order=wanted) for _ in range(2))
    simulation_next()
    simulation_next()
    owned_share(row=shared, actor=owner, shared_with="tenant")
    waiting = simulation_order(user=owner, tenant=tenant, order=wanted)
    world.names |= {
        "trace": trace.pk,
        "simulation": own.pk,
        "other": shared.pk,
        "shared": shared.pk,
        "queued": waiting.pk,
    }


def _templates(world):
    """A template of the owner's tenant, with what its secrets are, one of the operators, and the owner's saved values."""
    owner, tenant = world.users["owner"], Tenant.objects.get(name="zebra-lab")
    job = {"name": "zebra-name-${{ word }}", **HIDDEN, "command": "echo zebra-command ${{ word }}"}
    parameters = [{"name": "word", "default": "zebra-value"}]
    own = {"name": "zebra-name-template", "about": "zebra-command", "parameters": parameters, "job": job}
    template, _ = template_save(actor=owner, tenant=tenant, document=own)
    plain = {"name": "for-all", "job": {"command": "true"}}
    shared, _ = template_save(actor=world.users["operator"], tenant=None, document=plain)
    saved = values_save(user=owner, template=template, name="zebra-name", values={"word": "zebra-value"})
    world.names |= {"template": template.name, "template_number": template.pk, "shared_template": shared.pk}
    world.names |= {"saved": saved.pk}


def _secrets(world):
    """A secret of the owner's tenant, whose name and value no outsider may read."""
    owner, tenant = world.users["owner"], Tenant.objects.get(name="zebra-lab")
    made = secret_set(actor=owner, tenant=tenant, name="zebra-name-secret", value="zebra-value")
    world.names |= {"secret": made.name}


def _sweep(array):
    """Give each task of the array parameters, one of them secret, and two metrics."""
    for task in Job.objects.filter(array_id=array):
        told = {"zebralabel": f"zebra-value {task.array_index}", "rate": 0.1 * task.array_index}
        TaskReading.objects.create(task=task, array_id=array, parameters=told, read_at=timezone.now())
        points = [[0, 1], [2.0, 1.0 + task.array_index]]
        ends = {"last": points[1][1], "low": 1.0, "high": 4.0, "step": 1.0}
        for name in ("loss", "zebra-name"):
            TaskMetric.objects.create(task=task, array_id=array, name=name, points=points, **ends)


def _partition(world):
    """A partition of Slurm, of which a pilot runs the owner's job."""
    engine, world.bearers["bridge"] = engine_attach(
        join_secret=join_token_create(actor=None)[1], description=DESCRIPTION
    )
    engine_seen(engine=engine, body=EXCHANGE)
    held = {"state": EngineJob.State.RUNNING, "ticket": "17", "gpus": 8, "host": "gn-01", "node": world.nodes["big"]}
    EngineJob.objects.create(engine=engine, name="berth-pilot-17", **held)
    EngineJob.objects.create(engine=engine, name="berth-pilot-18", gpus=2, state="pending", reason="Priority")
    world.names |= {"engine": engine.name, "engine_number": engine.pk}


def offers_keep(world):
    """Work out what would start the waiting jobs sooner, and keep it: each takes a second, for each who asks."""
    for name in ("zebra-name-waits", "foreign-waits"):
        offers_of(job=Job.objects.get(pk=world.names[name]), allow=lambda: None)


def build():
    world = World()
    numbers_unmistakable()
    _people(world)
    _node(world, "big")
    _node(world, "far", gpus=2)
    _node(world, "silent", gpus=0, cores=4)
    world.bearers["node"] = world.bearers["big"]
    Node.objects.filter(name="silent").update(last_contact_at=timezone.now() - timezone.timedelta(hours=1))

    def submit(cast, name, **more):
        description = {"name": name, "restartable": True, **HIDDEN, **more}
        if cast == "outsider":
            description = {"name": name, "command": "true", **more}
        job = job_submit(user=world.users[cast], description=description)
        world.names[name] = job.pk
        return job

    submit("owner", "zebra-name", gpus=[4])
    submit("owner", "zebra-name-array", gpus=0, cores=1, array={"size": 3})
    submit("outsider", "foreign", gpus=[2])
    planning_run()
    keys = running(world, world.nodes["big"])
    running(world, world.nodes["far"])
    own = Allocation.objects.get(attempt__job_id=world.names["zebra-name"])
    key = next(key for key in keys if key["attempt"] == own.attempt.key)
    log_append(
        node=own.node,
        key=own.attempt.key,
        epoch=key["epoch"],
        rank=0,
        stream="stdout",
        offset=0,
        data=b"hello from zebra-command\n",
    )
    submit("owner", "zebra-name-waits", gpus=[8])
    submit("outsider", "foreign-waits", gpus=[8])
    job_hold(job=submit("owner", "zebra-name-held", gpus=[1]), actor=world.users["owner"])
    failed = job_hold(job=submit("owner", "zebra-name-failed", gpus=0), actor=world.users["owner"])
    Job.objects.filter(pk=failed.pk).update(state="FAILED", ended_at=timezone.now(), exit_code=1, reason="")
    planning_run()
    _, world.bearers["join"] = join_token_create(actor=None)
    planning = Planning.objects.order_by("-number").first()
    world.names |= {
        "attempt": own.attempt.key,
        "epoch": key["epoch"],
        "planning": planning.number,
        "round": planning.round.number,
        "missing": 987654321,
        "upload": _upload(world),
        "now": timezone.now().timestamp(),
    }
    jobs = {
        "waiting": "-waits",
        "array": "-array",
        "held": "-held",
        "failed": "-failed",
        "ended": "-failed",
        "running": "",
    }
    world.names |= {name: world.names[f"zebra-name{end}"] for name, end in jobs.items()} | {
        "node": "big",
        "gpu_type": "A100",
    }
    _laboratory(world)
    _templates(world)
    _secrets(world)
    _sweep(world.names["array"])
    _partition(world)
    assert own.node == world.nodes["big"], "the walk's node is the one that runs the owner's job"
    return world
