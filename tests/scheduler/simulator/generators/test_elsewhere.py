"""Drawn jobs on GPU types that their generator does not know."""

import numpy as np
import pytest

from scheduler.model import Node
from scheduler.simulator.generators import hops
from scheduler.simulator.world.laws import at_home
from scheduler.simulator.world.truth import Spot, World


def placed(world):
    jobs = hops.generate(np.random.default_rng(3), jobs=4)
    return jobs, at_home(jobs, world, known=hops.GPU_TYPES, reference=hops.REFERENCE)


def world_of(*gpu_types, **fields):
    nodes = [Node(n, f"n{n}", each, 4, (0, 1, 2, 3), 8, tuple(range(8)), 8, 8) for n, each in enumerate(gpu_types, 1)]
    return World(nodes, **fields)


def spot(gpu_type, speed=1.0):
    return Spot(1, gpu_type, 2, 2, speed)


def test_jobs_on_known_types_stay_as_they_are():
    jobs, there = placed(world_of("rtx3090", "titanxp"))
    assert there == jobs


def test_nodes_without_gpus_are_no_strange_type():
    jobs, there = placed(World([Node(1, "cpu", None, 0, (), 8, tuple(range(8)), 8, 8)]))
    assert there == jobs


def test_an_unknown_type_is_the_reference_times_its_relative_speed():
    jobs, there = placed(world_of("A100", "T4", gpu_speeds={"A100": 3.0}))
    for job, own in zip(jobs, there, strict=True):
        reference = job.law.rate([spot("gtx1080ti")])
        assert own.law.rate([spot("A100")]) == pytest.approx(3.0 * reference)
        assert own.law.rate([spot("A100", 0.5)]) == pytest.approx(1.5 * reference), "the node's own factor stays"
        assert own.law.rate([spot("T4")]) == reference, "a type not named has 1"
        assert own.law.rate([spot("rtx3090")]) == job.law.rate([spot("rtx3090")]), "what was measured stays"
        assert own.job == job.job
