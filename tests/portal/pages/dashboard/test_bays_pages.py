"""A node with GPUs of two types on the pages: one row, one board cell a GPU, and each type by itself where jobs would fit."""

import pytest
from django.test import Client

from portal.cluster.models import Gpu, GpuType
from portal.pages.dashboard.board.board import groups_of
from portal.pages.dashboard.board.facts import facts_read
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.pages.dashboard.rounds.blocks import blocks_context
from tests.portal import given

pytestmark = pytest.mark.django_db


@pytest.fixture
def mixed(cluster):
    """n1 with GPUs 0 to 2 of A100 and GPU 3 a T4; 8 cores."""
    Gpu.objects.filter(node=cluster.node, index=3).update(gpu_type=GpuType.objects.create(name="T4"))
    return cluster


def page(path):
    client = Client()
    client.force_login(given.operator())
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_idle_blocks_have_a_row_for_each_type(mixed):
    found = blocks_context(Snapshot(given.operator()))
    rows = {row["name"]: [cell["text"] for cell in row["cells"]] for row in found["rows"]}
    assert found["sizes"] == [1, 2, 4]
    assert (rows["n1, A100"], rows["n1, T4"]) == (["3", "1", "–"], ["1", "–", "–"])
    assert rows["Placeable now"] == ["4", "1", "0"], "no node has four of one type"
    assert "4 idle GPUs, largest placeable job 3." in found["sentence"][0]["text"]


def test_the_board_s_group_looks_at_each_type(mixed):
    facts = facts_read()
    assert facts.types == ["A100 + T4"]
    assert [(each.gpu_type, each.gpus, each.idle) for each in facts.blocks[0]] == [("A100", 3, 3), ("T4", 1, 1)]
    demand = [(4, [], 2), (2, ["T4"], 1), (2, ["H100"], 1)]
    (group,) = groups_of(facts, "type", active=[None] * 4, cores=[None], demand=demand)
    assert (group["largest"], group["short"]) == (3, 2)


def test_pages_name_both_types(mixed):
    for path in ("/cluster/n1/", "/?view=cluster"):
        assert "3 × A100, 1 × T4" in page(path), path
    assert "3 \u00d7 A100, 1 \u00d7 T4" in page("/cluster/")
    assert "<small>T4</small>" in page("/cluster/n1/fragments/gpus")
    assert "T4" in page("/jobs/new"), "a job may ask for it"


def test_rest_names_both_types_and_finds_the_node_by_either(mixed):
    client = Client()
    client.force_login(given.operator())
    assert client.get("/api/v1/nodes/n1").json()["gpus_by_type"] == {"A100": 3, "T4": 1}
    for name, found in (("T4", 1), ("A100", 1), ("H100", 0)):
        assert client.get(f"/api/v1/nodes?gpu_type={name}").json()["count"] == found
    assert 'modelName="T4"' in client.get("/metrics/gpus").content.decode()
