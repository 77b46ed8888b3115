"""The seeded workloads keep to what their docstring says."""

import pytest

from research.workloads import mixed
from research.workloads.queues import GPU_SPEEDS, instance_draw


@pytest.mark.parametrize("workload", ["gpu-only", "cores"])
def test_an_instance_is_what_the_recipe_says_and_the_same_for_the_same_seed(workload):
    made = instance_draw(gpus=400, jobs=300, seed=7, workload=workload)
    again = instance_draw(gpus=400, jobs=300, seed=7, workload=workload)
    assert (made.nodes, made.jobs) == (again.nodes, again.jobs)
    assert made.jobs != instance_draw(gpus=400, jobs=300, seed=8, workload=workload).jobs
    assert {node.gpu_type for node in made.nodes} == set(GPU_SPEEDS)
    assert sum(len(node.idle_gpus) for node in made.nodes) == pytest.approx(0.7 * 400, abs=1)
    assert {size for job in made.jobs for size in job.requirement} <= set(range(1, 17))
    assert all(1 <= made.estimator.sensitivity(job) <= 2 for job in made.jobs)
    assert len({job.tenant for job in made.jobs}) > 3


def test_only_the_cores_workload_makes_cores_scarce():
    plain, scarce = (instance_draw(gpus=400, jobs=300, seed=7, workload=name) for name in ("gpu-only", "cores"))
    assert all(len(node.idle_cores) >= 4 * len(node.idle_gpus) for node in plain.nodes)
    assert {node.cores_total for node in scarce.nodes} <= set(range(28, 65))
    assert {job.cores for job in scarce.jobs} == set(range(1, 11))


def test_mixed_nodes_are_of_all_sizes_and_types_half_of_them_short_of_cores_and_three_in_ten_partly_busy():
    made = instance_draw(gpus=3000, jobs=20, seed=7, workload="mixed")
    assert made.nodes == instance_draw(gpus=3000, jobs=20, seed=7, workload="mixed").nodes
    assert 3000 <= sum(node.gpus_total for node in made.nodes) < 3016
    assert {node.gpus_total for node in made.nodes} == set(mixed.NODE_GPUS)
    assert {node.gpu_type for node in made.nodes} == set(mixed.GPU_SPEEDS)
    scarce = sum(node.cores_total < 10 * node.gpus_total for node in made.nodes)
    busy = sum(len(node.idle_gpus) < node.gpus_total for node in made.nodes)
    assert scarce / len(made.nodes) == pytest.approx(0.5, abs=0.08)
    assert busy / len(made.nodes) == pytest.approx(0.3, abs=0.08)


@pytest.mark.parametrize("wrong", [{"workload": "disks"}, {"gpus": 0}, {"jobs": -1}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match=r"must be one of|are needed"):
        instance_draw(**{"gpus": 8, "jobs": 1, "seed": 1, "workload": "cores"} | wrong)
