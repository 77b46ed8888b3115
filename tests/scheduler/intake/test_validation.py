"""Bad input: a typed error that names the node or job, the field and the remedy."""

from dataclasses import fields, replace

import pytest

from scheduler.errors import InvalidJob, InvalidNode
from scheduler.intake.validation import check_job, check_node, is_plainly_sound
from scheduler.model import Promise, Share
from tests.scheduler.builders import job, node

NAN, INF = float("nan"), float("inf")


def test_sound_input_passes():
    check_node(node(1, idle=3), {"a100": 2.0})
    check_job(job(1, 1, 2, gpu_types=frozenset({"a100"})), {"a100"})


BAD_NODES = [
    (node(1, -1), "gpus_total is -1; it must be a whole number, 0 or more"),
    (node(1, cores=-4), "cores_total is -4"),
    (node(1, memory_mib=-4), "memory_total_mib is -4"),
    (node(1, idle_memory_mib=2.5), "idle_memory_mib is 2.5"),
    (node(1, gpus_total=True), "gpus_total is True"),
    (node(1, 2, idle_gpus=(0, 1, 2)), "idle_gpus must hold at most 2 distinct ids"),
    (node(1, 2, idle_gpus=(1, 1)), "idle_gpus must hold"),
    (node(1, 2, idle_gpus=(-1,)), "idle_gpus must hold"),
    (node(1, memory_mib=9, idle_memory_mib=10), "is above"),
    (node(1, 2, gpu_type=None), "has 2 GPUs and no gpu_type"),
    (node(1, gpus_total=10**30), "gpus_total is 1000"),
    (node(1, gpu_type=7), "gpu_type is 7; it must be a name"),
    (node(1, closes_s=NAN), "closes_s is nan; it must be a time in seconds, or inf"),
    (node(1, speed=NAN), "its speed factor is nan"),
    (node(1, gpu_type="nan"), "relative speed nan; it must be above 0"),
    (node(1, gpu_type="zero"), "relative speed 0.0"),
]


def test_bad_nodes(subtests):
    for bad, words in BAD_NODES:
        with subtests.test(bad=bad):
            with pytest.raises(InvalidNode, match="node n1: ") as caught:
                check_node(bad, {"nan": NAN, "zero": 0.0})
            assert words in str(caught.value)


BAD_JOBS = [
    (job(1, requirement=()), "requirement is empty; give at least one GPU count, or 0 for a CPU job"),
    (job(1, -1), "requirement [-1] must hold whole numbers"),
    (job(1, 1.5), "requirement [1.5] must hold whole numbers"),
    (job(1, True), "must hold whole numbers"),
    (job(1, 2, 2), "ascending and without repeats"),
    (job(1, 0, 2), "mixes 0 with GPU counts"),
    (job(1, 1, cores=0), "cores is 0; at least 1 is needed"),
    (job(1, 1, cores=-1), "cores is -1"),
    (job(1, 1, least_cores=0), "least_cores is 0; it must be a whole number from 1 to cores"),
    (job(1, 1, cores=2, least_cores=3), "least_cores is 3"),
    (job(1, 1, memory_mib=-1), "memory_mib is -1"),
    (job(1, 1, memory_mib=10**400), "memory_mib is 1000"),
    (job(1, requirement=[1, 2]), "it must be a tuple of GPU counts"),
    (job(1, 1, wait_s="1"), "wait_s is '1'; it must be a finite number"),
    (job(1, 1, wait_s=None), "wait_s is None"),
    (job(1, 1, wait_s=1e300), "wait_s is 1e+300"),
    (job(1, 1, priority=NAN), "priority is nan"),
    (job(1, 1, gpu_types="a100"), "it must be a set of names"),
    (job(1, 1, promise=Promise((Share(1, -1, 0, 0),), 0.0, "move")), "what is promised to it on node 1"),
    (job(1, 1, wait_s=NAN), "wait_s is nan; it must be a finite number"),
    (job(1, 1, wait_s=-1.0), "wait_s is -1.0"),
    (job(1, 1, age_s=INF), "age_s is inf"),
    (job(1, 1, expected_duration_s=NAN), "expected_duration_s is nan"),
    (job(1, 1, total_samples=INF), "total_samples is inf"),
    (job(1, 1, submitted_s=NAN), "submitted_s is nan"),
    (job(1, 1, gpu_types=frozenset({"x"})), "unknown GPU type x; known types: a100"),
]


def test_bad_jobs(subtests):
    for bad, words in BAD_JOBS:
        with subtests.test(bad=bad):
            with pytest.raises(InvalidJob, match="job 1: ") as caught:
                check_job(bad, {"a100"})
            assert words in str(caught.value)


def test_an_id_listed_twice():
    with pytest.raises(InvalidNode, match="listed twice"):
        check_node(node(1), {}, listed={1})
    with pytest.raises(InvalidJob, match="listed twice"):
        check_job(job(1, 1), {"a100"}, listed={1})


VALUES = (
    None,
    True,
    -1,
    0,
    1,
    2.5,
    10**30,
    1e300,
    float("nan"),
    float("inf"),
    "2",
    (),
    (1,),
    (True, 2),
    (1.0, 2),
    [1, 2],
    ([1],),
    (1, "2"),
    frozenset({"A100"}),
    {"A100"},
    frozenset({"x9"}),
    Promise((Share(1, -1, 0, 0),), 0.0, "move"),
)
PERSONAL = {
    "id",
    "tenant",
    "owner",
    "category",
    "model_label",
    "checkpoint_domain",
    "software",
    "eligible",
    "ineligible_reason",
}


def test_the_quick_look_passes_nothing_that_the_check_refuses(subtests):
    for name in sorted({each.name for each in fields(job(1)) if each.init} - PERSONAL):
        with subtests.test(name=name):
            shapes = {
                ((1, 2), frozenset()),
                ((1,), frozenset()),
                ((1, 2), frozenset({"A100"})),
                ((1,), frozenset({"A100"})),
            }
            assert is_plainly_sound(job(1, 1, 2), shapes)
            for value in VALUES:
                odd = replace(job(1, 1, 2), **{name: value})
                if is_plainly_sound(odd, shapes):
                    check_job(odd, {"A100"})
