"""The sensitivity adjustment (Hops 3.6; algorithms.md section 7)."""

import math

from scheduler.estimator.estimator import Estimator
from scheduler.estimator.measured import signature_of
from scheduler.fairness.window import joining
from scheduler.model import Ranked
from scheduler.model.speeds import Cell, CellKey, Knowledge
from tests.scheduler.builders import job, make_plan, node, where, why


class Known:
    """A layer that says each job's sensitivity; the estimator asks nobody else."""

    def __init__(self, rhos):
        self._rhos = rhos

    def sensitivity(self, asked):
        return self._rhos[asked.id]


def joined(rhos, inside, *, idle=8, sizes=None, barred=()):
    """Ids that join a window of the first `inside` jobs of a queue with these sensitivities."""
    jobs = [job(number, (sizes or {}).get(number, 1)) for number in range(1, len(rhos) + 1)]
    queue = [Ranked(each, rank, 1.0, 1.0, 600.0, "test") for rank, each in enumerate(jobs, 1)]
    estimator = Estimator([Known(dict(enumerate(rhos, 1)))])
    return [each.job.id for each in joining(queue[:inside], queue, barred, idle, estimator, 1.4)]


def test_who_joins(subtests):
    for rhos, inside, expected in [
        ([2.0, 2.0, 1.0, 1.0], 4, []),  # all inside
        ([1.0, 1.0, 2.0, 2.0], 2, []),  # the window minds it less than the queue: 1 < 1.5
        ([2.0, 2.0, 1.0, 1.0], 2, [3, 4]),  # 2 > 1.5; 5 / 3 > 1.5; 6 / 4 = 1.5
        ([2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0], 1, [2, 3]),  # until the mean is at most 11 / 8: 4 / 3
        ([1.8, 1.5, 1.2, 1.5], 1, [3]),  # only below the queue's mean, 1.5
        ([math.inf, math.inf, 1.0, 1.0], 2, [3, 4]),  # not known: above sigma
        ([math.inf, 1.0, 2.0, 1.0], 1, [2]),  # and the most sensitive known: mean (2 + 1 + 2 + 1) / 4
        ([math.inf] * 4, 2, []),
    ]:
        with subtests.test(rhos=rhos, inside=inside):
            assert joined(rhos, inside) == expected


def test_only_who_fits_the_idle_gpus_and_its_quota():
    rhos = [2.0, 2.0, 1.0, 1.0, 1.0]
    assert joined(rhos, 2, sizes={3: 4}, idle=3) == [4, 5]
    assert joined(rhos, 2, barred={4}) == [3, 5]
    assert joined(rhos, 2, idle=0) == []


def scattered(**knobs):
    """Two idle GPUs on different nodes; in the window jobs that must not be spread, beyond it one that may."""
    nodes = [node(1, 4, idle=1), node(2, 4, idle=1)]
    jobs = [job(1, 2, wait_s=900), job(2, 6, wait_s=800), job(3, 2, wait_s=1, model_label="m")]
    return nodes, jobs, {**knobs, "arrays": "off"}


def test_a_fill_planning_lets_a_job_that_may_be_spread_into_the_window():
    nodes, jobs, knobs = scattered(policy="hops")
    known = {"knowledge": measured(rho=1.05)}
    assert where(make_plan(nodes, jobs, **knobs, **known)) == {3: {1: 1, 2: 1}}
    made = make_plan(nodes, jobs, **knobs, **known, replan=True)
    assert (where(made), why(made)[3]) == ({}, "outside-window")
    assert where(make_plan(nodes, jobs, **knobs, knowledge=measured(rho=1.5))) == {}


def test_under_berth_the_sweep_starts_it_without_any_adjustment():
    nodes, jobs, knobs = scattered(policy="berth")
    assert where(make_plan(nodes, jobs, **knobs, knowledge=measured(rho=1.05))) == {3: {1: 1, 2: 1}}
    assert where(make_plan(nodes, jobs, **knobs, knowledge=measured(rho=1.5))) == {}
    strictly = make_plan(nodes, jobs, **knobs, knowledge=measured(rho=1.05), sweep="off")
    assert (where(strictly), why(strictly)[3]) == ({}, "outside-window")


def measured(rho):
    """Tenant 1's model m, measured on one GPU and on two nodes."""
    name = signature_of(1, "m", 0)
    return Knowledge(
        {CellKey(name, "a100", gpus=1): Cell(1, 100.0), CellKey(name, "a100", gpus=2, nodes=2): Cell(1, 100.0 / rho)}
    )
