"""Cluster files: their contents, and every complaint with its field."""

import math
from pathlib import Path

import pytest

from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.sources.cluster_text import cluster_text
from portal.pages.laboratory.sources.clusters import cluster_parse, cluster_read

EXAMPLES = sorted((Path(__file__).resolve().parents[4] / "examples" / "clusters").glob("*.yaml"))
NODE = "{cores: 8, memory_gib: 64, gpus: 4, gpu_type: A100}"


def test_groups_become_nodes_with_their_factors():
    cluster = cluster_parse(
        """
        nodes:
          - {count: 2, name: dgx, gpu_type: A100, gpus: 8, cores: 128, memory_gib: 0.5, speed: 0.9, bandwidth_gbs: 200}
          - {cores: 16, memory_gib: 64, storage_domain: nfs, closes_s: 7200}
        gpu_types:
          A100: {speed: 2.5, weight: 2}
          T4: {speed: 1}
        tenants:
          - {name: vision, weight: 2, gpu_quota: 16}
          - {name: 7, core_quota: 0}
        manners: {tick_s: 30, restart_s: 10, noise: 0.1, failures: true, shared_storage: false}
        """
    )
    world = cluster.world
    assert [(node.id, node.name, node.gpus_total, node.cores_total) for node in world.nodes] == [
        (1, "dgx-1", 8, 128),
        (2, "dgx-2", 8, 128),
        (3, "group-2", 0, 16),
    ]
    assert world.nodes[0].idle_memory_mib == 512
    assert world.nodes[2].storage_domain == "nfs"
    assert [node.closes_s for node in world.nodes] == [math.inf, math.inf, 7200.0]
    assert [node.closes_s for node in cluster_parse(cluster_text(cluster)).world.nodes] == [math.inf, math.inf, 7200.0]
    assert world.speeds == {1: 0.9, 2: 0.9}
    assert world.bandwidth_gbs == {1: 200.0, 2: 200.0}
    assert world.gpu_speeds == {"A100": 2.5, "T4": 1.0}
    assert world.gpu_weights == {"A100": 2.0}
    assert cluster.gpu_speeds_option == "A100=2.5,T4=1"
    assert cluster.tenants == ("vision", "7")
    assert [(one.id, one.weight, one.gpu_quota, one.core_quota) for one in world.tenants] == [
        (1, 2.0, 16, None),
        (2, 1.0, None, 0),
    ]
    assert (world.tick_s, world.restart_s, world.noise, world.failures, world.shared_storage) == (
        30,
        10,
        0.1,
        True,
        False,
    )


def test_instances_of_mig_are_named_by_their_profile_and_are_a_part_of_a_gpu():
    text = """
        nodes:
          - {name: cut, gpus: {A100: 2, A100 MIG 1g.5gb: 7}, cores: 32, memory_gib: 64}
          - {gpus: 4, gpu_type: A100 MIG 3g.20gb, cores: 32, memory_gib: 64}
        gpu_types:
          A100 MIG 3g.20gb: {speed: 0.5}
    """
    cluster = cluster_parse(text)
    assert cluster.world.gpu_speeds == {"A100 MIG 1g.5gb": pytest.approx(1 / 7), "A100 MIG 3g.20gb": 0.5}
    assert cluster.world.gpu_weights == {
        "A100 MIG 1g.5gb": pytest.approx(1 / 7),
        "A100 MIG 3g.20gb": pytest.approx(3 / 7),
    }
    assert [(node.gpu_type, node.gpus_total) for node in cluster.world.nodes] == [
        ("A100", 2),
        ("A100 MIG 1g.5gb", 7),
        ("A100 MIG 3g.20gb", 4),
    ]
    assert cluster_parse(cluster_text(cluster)).world.gpu_speeds == cluster.world.gpu_speeds


WRONG = [
    ("nodes: [}", "cluster, line 1, column 9", "is not YAML"),
    ("- 1", "cluster", "is not a mapping of nodes"),
    ("nodes: []", "cluster: nodes", "no node is described"),
    ("nodes: 3", "cluster: nodes", "is not a list"),
    ("nodes: [3]", "cluster: nodes[0]", "is not a mapping"),
    ("nodes: [{cores: 8, memory_gib: 1}]\ncolour: red", "cluster: colour", "no such field"),
    ("nodes: [{cores: 8, memory_gib: 1, gpu: 2}]", "cluster: nodes[0].gpu", "no such field; there are count, name"),
    ("nodes: [{memory_gib: 1}]", "cluster: nodes[0].cores", "0 is not a number from 1"),
    ("nodes: [{cores: 8}]", "cluster: nodes[0].memory_gib", "is not a number above 0"),
    ("nodes: [{cores: 8, memory_gib: 1, gpus: 2}]", "cluster: nodes[0].gpu_type", "2 GPUs and no gpu_type"),
    ("nodes: [{cores: 8, memory_gib: 1, gpus: two}]", "cluster: nodes[0].gpus", "'two' is not a number"),
    ("nodes: [{cores: 8.5, memory_gib: 1}]", "cluster: nodes[0].cores", "not a whole number"),
    ("nodes: [{cores: yes, memory_gib: 1}]", "cluster: nodes[0].cores", "'yes' is not a number"),
    ("nodes: [{count: 99999, cores: 8, memory_gib: 1}]", "cluster: nodes[0].count", "from 1 to 20000"),
    (f"nodes: [{NODE}, {NODE[:-1]}, speed: 0}}]", "cluster: nodes[1].speed", "0 is not a number above 0"),
    (f"nodes: [{NODE[:-1]}, closes_s: 0}}]", "cluster: nodes[0].closes_s", "0 is not a number above 0"),
    (f"nodes: [{NODE}]\ngpu_types: {{A100: fast}}", "cluster: gpu_types.A100", "is not a mapping"),
    (f"nodes: [{NODE}]\ngpu_types: {{A100: {{speed: -1}}}}", "cluster: gpu_types.A100.speed", "-1 is not"),
    (f"nodes: [{NODE}]\ntenants: [{{weight: 1}}]", "cluster: tenants[0].name", "it is empty"),
    (f"nodes: [{NODE}]\ntenants: [{{name: a}}, {{name: a}}]", "cluster: tenants[1].name", "listed twice"),
    (f"nodes: [{NODE}]\ntenants: [{{name: a, weight: .inf}}]", "cluster: tenants[0].weight", "inf is not"),
    (f"nodes: [{NODE}]\nmanners: {{noise: 3}}", "cluster: manners.noise", "3 is not a number from 0 to 1"),
    (f"nodes: [{NODE}]\nmanners: {{failures: 1}}", "cluster: manners.failures", "1 is neither true nor false"),
]


def test_what_cannot_be_is_named_with_its_field(subtests):
    for text, field, detail in WRONG:
        with subtests.test(text=text):
            with pytest.raises(SimulationError) as found:
                cluster_parse(text)
            assert found.value.field == field
            assert detail in found.value.detail


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SimulationError, match=r"cluster: .*none\.yaml cannot be read"):
        cluster_read(tmp_path / "none.yaml")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_can_be_read(path):
    assert cluster_read(path).world.nodes
