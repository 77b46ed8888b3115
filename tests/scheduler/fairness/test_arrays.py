"""CODA's arrays and their division from history (CODA V-C; algorithms.md section 4)."""

import pytest

from scheduler.fairness.arrays import UNDIVIDED, Array, PastJob, array_of, divide, peak_gpus, percentile
from scheduler.model import ArrayHistory
from tests.scheduler.builders import node


@pytest.mark.parametrize(
    ("requirement", "array"),
    [((0,), "cpu"), ((1,), "gpu-small"), ((3, 8), "gpu-small"), ((4,), "gpu-large"), ((16, 32), "gpu-large")],
)
def test_a_job_belongs_to_an_array_by_its_smallest_size(requirement, array):
    assert array_of(requirement) == array


def test_without_history_3_cores_a_gpu_and_half_of_the_nodes_with_4_gpus():
    division = divide([node(1, 8), node(2, 8), node(3, 4), node(4, 4), node(5, 2), node(6, 0)], ArrayHistory())
    assert division.large == {1, 2}
    assert division.reserved_cores == {1: 24, 2: 24, 3: 12, 4: 12, 5: 6}
    assert (division.array_of_node(1), division.array_of_node(5)) == (Array.GPU_LARGE, Array.GPU_SMALL)
    assert division.reserved(6) == 0


def test_reserved_cores_are_the_95th_percentile_of_the_tuned_ones_and_at_most_the_nodes():
    tuned = [*range(1, 20), 100]
    assert percentile(tuned, 95) == 19
    assert divide([node(1, 1), node(2, 2)], ArrayHistory(tuned)).reserved_cores == {1: 19, 2: 32}
    assert divide([node(1, 2)], ArrayHistory([2.5])).reserved_cores == {1: 5}


@pytest.mark.parametrize(("peak", "nodes"), [(0, 0), (1, 1), (8, 1), (9, 2), (32, 4), (1000, 8)])
def test_gpu_large_holds_the_peak_of_large_jobs_and_at_most_80_percent_of_the_nodes(peak, nodes):
    cluster = [*(node(number, 8) for number in range(1, 11)), node(11, 2)]
    assert len(divide(cluster, ArrayHistory((), peak)).large) == nodes


def test_the_operator_may_fix_both():
    division = divide([node(1), node(2), node(3)], ArrayHistory([9.0], 99), reserved_per_gpu=1, large_share=1.0)
    assert (division.large, division.reserved_cores) == ({1, 2, 3}, {1: 8, 2: 8, 3: 8})


def test_neither_array_is_without_a_gpu_type():
    cluster = [node(number, 8, gpu_type="a" if number < 5 else "b") for number in range(1, 9)]
    large = divide(cluster, ArrayHistory()).large
    assert {each.gpu_type for each in cluster if each.id in large} == {"a", "b"}
    assert {each.gpu_type for each in cluster if each.id not in large} == {"a", "b"}


def test_the_peak_counts_held_and_queued_together():
    jobs = [PastJob(0, 10, 4), PastJob(5, None, 8), PastJob(10, 20, 4), PastJob(12, 15, 4)]
    assert peak_gpus(jobs) == 16
    assert peak_gpus(jobs[:3]) == 12  # the third follows the first
    assert peak_gpus([]) == 0


def test_undivided_is_one_array_with_nothing_reserved():
    assert UNDIVIDED.array_of_job((8,)) == UNDIVIDED.array_of_job((1,)) == UNDIVIDED.array_of_node(3)
    assert UNDIVIDED.array_of_job((0,)) is Array.CPU
    assert UNDIVIDED.reserved(3) == 0
