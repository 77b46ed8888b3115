"""A node whose GPUs are cut by MIG says so on its page, over REST and on the command line, and its instances are no block."""

import re

import pytest

from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.pages.dashboard.rounds.blocks import blocks_context
from tests.portal import given
from tests.portal.planning.rounds.planning.test_instances import SMALL, WHOLE, cut


@pytest.fixture
def seen(cluster, client):
    client.force_login(cluster.owner)

    def get(path):
        answer = client.get(path)
        assert answer.status_code == 200
        if path.startswith("/api"):
            return answer.json()
        return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())

    return get


def hardware(client):
    return client.get("/cluster/n1/fragments/gpus").content.decode()


def test_the_nodes_page_says_what_the_instances_are_and_take(cluster, seen, client):
    cut(cluster, whole=0, small=7)
    page = seen("/cluster/n1/")
    assert f"7 instances of {WHOLE} (1g.10gb)" in page
    cut(cluster, whole=2, small=1)
    assert f"2 \u00d7 {WHOLE}, 1 instance of {WHOLE} (1g.10gb)" in seen("/cluster/n1/")
    assert f"{WHOLE}</small>" in hardware(client)
    assert "<small>MIG 1g.10gb</small>" in hardware(client), "a phone has little room"
    cut(cluster, whole=2, small=0)
    assert "instance" not in seen("/cluster/n1/")


def test_rest_names_the_profile(cluster, seen):
    cut(cluster, whole=1, small=1)
    gpus = seen("/api/v1/nodes/n1")["gpu_list"]
    known = {(gpu["gpu_type"], gpu["profile"], gpu["memory_mib"]) for gpu in gpus if not gpu["missing_since"]}
    assert known == {(WHOLE, None, 81920), (SMALL, "1g.10gb", 9856)}


def test_instances_are_no_block(cluster, seen):
    cut(cluster, whole=2, small=5)
    found = blocks_context(Snapshot(given.operator()))
    rows = {row["name"]: [cell["text"] for cell in row["cells"]] for row in found["rows"]}
    assert found["sizes"][:3] == [1, 2, 4]
    assert rows[f"n1, {SMALL}"][:3] == ["5", "\u2013", "\u2013"]
    assert rows[f"n1, {WHOLE}"][:3] == ["2", "1", "\u2013"]
    assert rows["Placeable now"][:3] == ["7", "1", "0"]
    assert "7 idle GPUs, largest placeable job 2." in found["sentence"][0]["text"]
    assert "at most 2 free on one node" in seen("/")


def test_a_node_of_instances_alone_holds_jobs_of_one_gpu(cluster, seen):
    cut(cluster, whole=0, small=7)
    assert "7 GPUs are free. The largest job that could start now needs 1" in seen("/cluster/")
