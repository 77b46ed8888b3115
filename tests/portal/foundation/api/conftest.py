"""A small cluster and five callers: owner, teammate, outsider, operator, nobody. Real URLs, real SQLite."""

import json
from dataclasses import dataclass

import pytest
from django.test import Client
from django.utils import timezone

from portal.cluster.models import Gpu, GpuType, Node
from portal.foundation.events.models import OutboxMessage
from portal.people.tenants.models import AuditEvent, User
from portal.people.tenants.services import SCOPES, membership_add, tenant_create, token_create
from portal.work.jobs.models import IdempotencyKey, Job, JobEvent, JobPayload

WATCHED = (Job, JobPayload, JobEvent, OutboxMessage, AuditEvent, IdempotencyKey)


class Caller:
    """Sends JSON with a token, as curl would."""

    def __init__(self, secret=None):
        self.client = Client(raise_request_exception=True)
        self.headers = {"Authorization": f"Bearer {secret}"} if secret else {}

    def __call__(self, method, path, body=None, *, raw=None, content_type="application/json", headers=None):
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        return self.client.generic(
            method,
            path if path.startswith("/") and path.startswith(("/api", "/metrics", "/healthz")) else f"/api/v1{path}",
            data,
            content_type=content_type if data else "",
            headers=self.headers | (headers or {}),
        )

    def get(self, path, **query):
        return self.client.get(f"/api/v1{path}", query, headers=self.headers)

    def submit(self, **fields):
        answer = self("POST", "/jobs", {"command": "true", **fields})
        assert answer.status_code == 201, answer.content
        return answer.json()


@dataclass
class World:
    owner: Caller
    teammate: Caller
    manager: Caller
    outsider: Caller
    operator: Caller
    nobody: Caller
    users: dict
    tenants: dict
    nodes: list

    def caller(self, name, **token):
        """A caller with a token of its own making."""
        scopes = token.pop("scopes", [s for s in SCOPES if s != "operator"])
        made, secret = token_create(user=self.users[name], name="made", scopes=scopes, actor=None, **token)
        caller = Caller(secret)
        caller.token = made
        return caller


def user_make(name):
    """A user who signs in by token only: a password's slow hash would cost more than the test."""
    operator = name == "root"
    user = User(username=name, is_staff=operator, is_superuser=operator)
    user.set_unusable_password()
    user.save()
    return user


def node_make(name, *, gpus=4, gpu_type=None, cores=32):
    node = Node.objects.create(
        name=name,
        gpu_type=gpu_type,
        cores=cores,
        memory_mib=65536,
        storage_domain=f"node:{name}",
        boot_id="boot",
        agent_version="1",
        token_digest=f"digest-{name}",
        last_contact_at=timezone.now(),
        trusts_tenants=True,
    )
    for index in range(gpus):
        Gpu.objects.create(node=node, index=index, uuid=f"{name}-{index}", memory_mib=24576)
    return node


@pytest.fixture
def world(db):
    return world_make()


def world_make():
    a100 = GpuType.objects.create(name="A100")
    users = {name: user_make(name) for name in ("lena", "tim", "mona", "otto", "root")}
    tenants = {name: tenant_create(name=name, actor=None) for name in ("vision-lab", "speech-lab")}
    for name, role in (("lena", "member"), ("tim", "member"), ("mona", "manager")):
        membership_add(user=users[name], tenant=tenants["vision-lab"], role=role, actor=None)
    membership_add(user=users["otto"], tenant=tenants["speech-lab"], actor=None)

    def caller(name, scopes=("jobs:read", "jobs:write", "cluster:read")):
        return Caller(token_create(user=users[name], name="test", scopes=scopes, actor=None)[1])

    return World(
        owner=caller("lena"),
        teammate=caller("tim"),
        manager=caller("mona"),
        outsider=caller("otto"),
        operator=caller("root", SCOPES),
        nobody=Caller(),
        users=users,
        tenants=tenants,
        nodes=[node_make("rtx-01", gpu_type=a100), node_make("rtx-02", gpu_type=a100), node_make("cpu-01", gpus=0)],
    )


def counts():
    return {model.__name__: model.objects.count() for model in WATCHED}


@pytest.fixture
def unchanged(world):
    """Check at the end that nothing was stored since the test took the fixture."""
    before = counts()
    states = list(Job.objects.order_by("pk").values_list("pk", "state", "priority"))
    yield
    assert counts() == before
    assert list(Job.objects.order_by("pk").values_list("pk", "state", "priority")) == states


def refusal(answer, status, code=None, field=...):
    """Check the envelope; return it."""
    assert answer.status_code == status, answer.content[:500]
    assert answer.headers["Content-Type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "field", "detail"}
    assert body["error"]["detail"]
    if code:
        assert body["error"]["code"] == code
    if field is not ...:
        assert body["error"]["field"] == field
    return body["error"]
