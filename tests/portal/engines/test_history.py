"""A bridge sends its partition's past: a trace of its operator's, and a simulation of it on the partition's own nodes."""

import json
import time
import zlib

import pytest
from django.test import Client

from portal.cluster.services.joining import join_token_create
from portal.engines.models import Engine, EngineJob
from portal.foundation.api.parsers import MAX_BODY_BYTES
from portal.pages.laboratory.models import LabTrace, Simulation
from portal.pages.laboratory.run.worker import simulation_next
from portal.people.tenants.models import Tenant, User
from portal.planning.rounds.models import OperatorSetting
from tests.portal.engines.test_bridge import DESCRIPTION
from tests.system.helpers.accounting import month, sacct_put
from workers.bridge.command import Local
from workers.bridge.history import history_read
from workers.bridge.slurm import SlurmEngine

pytestmark = pytest.mark.django_db

NODES = [
    {"count": 2, "cores": 128, "memory_mib": 512_000, "gpus": {"a100": 8}},
    {"count": 1, "cores": 16, "memory_mib": 64_000, "gpus": {}},
    {"count": 1, "cores": 16, "memory_mib": 64_000, "gpus": {"a100": 2, "v100": 2}},
    {"count": 1, "cores": 0, "memory_mib": 1, "gpus": {}},
]
RECORDS = """JobID|User|Account|State|Submit|Start|Elapsed|AllocTRES|ReqTRES
1|1|lab|COMPLETED|2026-11-30T08:34:28Z|2026-11-30T08:34:28Z|00:10:00|cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=2G,node=1|
2|1|lab|COMPLETED|2026-11-30T08:35:28Z|2026-11-30T08:34:28Z|00:10:00|cpu=8,gres/gpu:a100=16,gres/gpu=16,mem=900G,node=2|
3|2|ml|FAILED|2026-11-30T08:36:28Z|2026-11-30T08:34:28Z|00:00:30|cpu=200,mem=2G,node=2|
4|2|ml|COMPLETED|2026-11-30T08:37:28Z|2026-11-30T08:34:28Z|00:10:00|cpu=1,gres/gpu:h100=64,gres/gpu=64,mem=9T,node=8|
5|2|ml|COMPLETED|2026-11-30T08:38:28Z|2026-11-30T08:34:28Z|00:10:00|cpu=4,gres/gpu:v100=1,gres/gpu=1,mem=2G,node=1|
"""
"""The third and the fourth job fit on none of these nodes, which may have been others then."""


@pytest.fixture
def operator(cluster):
    return User.objects.create_user("ada", password="x", is_staff=True, is_superuser=True)


@pytest.fixture
def send(operator):
    """Attach a partition, and return a function that sends its past."""
    client = Client()
    token = join_token_create(actor=operator)[1]
    answer = client.post(
        "/api/bridge/v1/attach", DESCRIPTION, "application/json", headers={"Authorization": f"Bearer {token}"}
    )
    own = {"Authorization": f"Bearer {answer.json()['token']}"}

    def post(records=RECORDS, nodes=NODES, body=None, **head):
        text = f"{json.dumps({'days': 30, 'nodes': nodes} | head)}\n{records}".encode()
        body = zlib.compress(text) if body is None else body
        return client.post("/api/bridge/v1/history", body, "application/octet-stream", headers=own)

    return post


def test_the_past_is_simulated_on_the_partitions_nodes_and_nothing_is_asked_for(send, operator):
    answer = send()
    assert answer.status_code == 201, answer.content
    (made,) = Simulation.objects.all()
    assert answer.json() == {"page": f"/laboratory/{made.pk}/", "owner": "ada", "jobs": 5}
    assert (made.owner, made.policies, made.trace.all_tenants, made.trace.origin) == (
        operator,
        ["berth", "fifo"],
        True,
        "history",
    )
    assert made.name.startswith("atlas/gpu, 30 days until 20")
    assert simulation_next() == made.pk
    made.refresh_from_db()
    assert made.state == "COMPLETED", made.error
    assert set(made.figures["berth"]["tenants"]) == set(made.figures["fifo"]["tenants"]) == {"lab", "ml"}
    ended = {name: (each["jobs_completed"], each["jobs_unstarted"]) for name, each in made.figures.items()}
    assert ended == {"berth": (3, 2), "fifo": (3, 2)}, "jobs that fit nowhere hold nobody back"
    assert not EngineJob.objects.exists()
    assert Engine.objects.get().nodes_at is None


def test_only_operators_see_it(send, cluster):
    send()
    assert not LabTrace.objects.visible_to(cluster.owner).exists()
    assert not Simulation.objects.visible_to(cluster.owner).exists()


def test_what_the_laboratory_does_not_take_is_said_and_nothing_is_kept(send, operator, cluster, subtests):
    OperatorSetting.objects.create(name="laboratory_trace_mib", value=1)
    lines = RECORDS.splitlines(keepends=True)
    for words, more in {
        "column Elapsed": {"records": RECORDS.replace("00:10:00", "soon", 1)},
        "holds no job": {"records": lines[0]},
        "at most 1 MiB": {"records": lines[0] + lines[1] * 12_000},
        "not compressed by zlib": {"body": b"{}"},
        "The body is cut": {"body": zlib.compress(RECORDS.encode())[:-9]},
        "not valid JSON": {"body": zlib.compress(b"{")},
        "days": {"days": 0},
        "first line is longer": {"body": zlib.compress(b" " * MAX_BODY_BYTES)},
        "no node is described": {"nodes": []},
        "cores": {"nodes": [NODES[0] | {"cores": 5000}]},
    }.items():
        with subtests.test(words):
            answer = send(**more)
            assert answer.status_code in {400, 413}, answer.content
            assert words in answer.content.decode()
            assert not LabTrace.objects.exists()


def test_a_bridge_without_its_operator_attaches_anew(send):
    for change in (
        {"is_superuser": False, "is_staff": False},
        {"is_active": False, "is_superuser": True, "is_staff": True},
    ):
        User.objects.filter(username="ada").update(**change)
        answer = send()
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no_owner")
    Engine.objects.update(joined_by=None)
    assert send().status_code == 409
    Engine.objects.update(token_revoked_at="2026-01-01T00:00:00Z")
    assert send().status_code == 401


def test_a_berth_without_a_tenant_says_so(send):
    Tenant.objects.update(is_active=False)
    assert send().json()["error"]["code"] == "no_tenant"


def test_what_a_bridge_reads_is_what_the_laboratory_takes(send, tmp_path):
    """300 jobs of two days, as the bridge reads them."""
    runner = Local(environ={"PATH": str(sacct_put(tmp_path, month(300, now=time.time(), days=2)))})
    history = history_read(SlurmEngine(runner, partition="gpu"), 30)
    answer = send(records=history.text)
    assert (answer.status_code, answer.json()["jobs"]) == (201, 300), answer.content
    simulation_next()
    assert Simulation.objects.get().state == "COMPLETED", Simulation.objects.get().error
