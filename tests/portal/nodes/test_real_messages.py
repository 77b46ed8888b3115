"""Tests speak in the portal's name as the portal does, field by field; and the portal takes an agent's messages."""

import json
import time

import pytest
from django.test import Client

from portal.cluster.models import Node
from portal.nodes.sync import parts_wanted
from portal.people.tenants.services import secret_digest
from tests.messages import different, unlike
from tests.portal import given
from tests.real_messages import ARTEFACTS, HELLO, INVENTORY, LOGS, REPORTS, SPEC, SYNC, TELEMETRY
from workers.protocol import inventory, wire

pytestmark = pytest.mark.django_db
TOKEN = "berthnode_test"


@pytest.fixture
def door(cluster):
    """Call the agents' door as the cluster's node."""
    Node.objects.update(token_digest=secret_digest(TOKEN))

    def call(path, body=None):
        method = "GET" if body is None else "POST"
        sent = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
        answer = Client().generic(method, f"/api/agent/v1/{path}", headers={"Authorization": f"Bearer {TOKEN}"}, **sent)
        assert answer.status_code in {200, 204}, answer.content
        return answer.json() if answer.content else None

    return call


def test_what_a_part_is_said_to_be(cluster, door):
    attempt = cluster.started(gpus=1)
    assert different(SPEC, real := door(f"attempts/{attempt.key}/spec")) == []
    assert (real.pop("code"), unlike(real, wire.Spec)) == ({}, [])


def test_what_is_wanted_of_a_node(cluster):
    cluster.started(gpus=1)
    real = parts_wanted(node_id=cluster.node.pk)
    assert (different(SYNC, real), unlike(real, wire.Sync)) == ([], [])


def test_what_a_node_is_welcomed_with(cluster, door):
    real = door("hello", given.inventory(cluster.node))
    assert (different(HELLO, real), unlike(real, wire.Hello)) == ([], [])


def test_what_an_agent_says_is_of_its_shape_and_taken(cluster, door):
    attempt = cluster.started(gpus=1)
    part = given.key_of(attempt)
    reports = {"reports": [REPORTS["reports"][0] | part], "holding": [given.held(attempt)]}
    for path, body, shape, answered in (
        ("hello", INVENTORY | {"name": cluster.node.name}, inventory.Inventory, wire.Hello),
        ("report", REPORTS | reports, wire.ReportBody, wire.ReportAnswer),
        ("telemetry", TELEMETRY | {"start": time.time()}, wire.Telemetry, None),
        ("logs/together", {"pieces": [LOGS["pieces"][0] | part]}, wire.LogsBody, wire.LogsAnswer),
        ("artefacts", ARTEFACTS | part, wire.ArtefactsRequest, wire.ArtefactsAnswer),
    ):
        assert unlike(body, shape, path) == []
        assert unlike(door(path, body), answered, path) == []
