"""Exploration (algorithms.md section 2): a label that nobody ever saw spread is spread once, when knowing is worth it."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.estimator.measured import cell_key
from scheduler.model import ClusterState, Piece, Running
from scheduler.model.speeds import Cell, Knowledge
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from tests.scheduler.builders import NOW_S, check_feasible, job, node, ticking

NODES = [node(1), node(2)]
NAME = "tenant:1:vgg"


def measured(*runs):
    """Knowledge of the label from runs (GPUs, nodes, per-GPU samples/s)."""
    return Knowledge({cell_key(NAME, "a100", gpus, nodes): Cell().add(speed) for gpus, nodes, speed in runs})


def asking(number=1, **more):
    return job(number, 8, 16, **{"model_label": "vgg", "movable": True, "age_s": 7200.0} | more)


def sizes(jobs, knowledge, running=(), nodes=NODES, **knobs):
    """{job: GPUs on each node} of what a planning starts."""
    state = ClusterState(nodes, jobs, running=running, knowledge=knowledge)
    made = plan(state, NOW_S, Parameters(**knobs), np.random.default_rng(1), ticking())
    check_feasible(made, state)
    return {each.job: [len(piece.gpus) for piece in each.pieces] for each in made.placements}


def test_a_label_measured_on_one_node_alone_is_spread_to_find_out():
    assert sizes([asking()], measured((8, 1, 10.0))) == {1: [8, 8]}


@pytest.mark.parametrize(
    ("jobs", "knowledge"),
    [
        ([asking()], Knowledge()),
        ([asking(movable=False)], measured((8, 1, 10.0))),
        ([asking(age_s=600.0)], measured((8, 1, 10.0))),
        ([asking(model_label=None)], measured((8, 1, 10.0))),
        ([asking()], measured((8, 1, 10.0), (2, 1, 10.0), (2, 2, 4.0))),
    ],
    ids=["never ran", "may not be stopped", "not worth a restart", "another signature", "it was found out: sensitive"],
)
def test_and_others_stay_on_one_node(jobs, knowledge):
    assert sizes(jobs, knowledge) == {1: [8]}


def test_many_jobs_of_the_label_make_it_worth_the_while():
    few = [asking(number, age_s=500.0) for number in (1, 2)]
    many = [*few, *(asking(number, age_s=500.0) for number in range(3, 6))]
    nodes = [node(number) for number in range(1, 11)]
    assert all(len(each) == 1 for each in sizes(few, measured((8, 1, 10.0)), nodes=nodes).values())
    spread = [number for number, each in sizes(many, measured((8, 1, 10.0)), nodes=nodes).items() if len(each) > 1]
    assert len(spread) == 1, "one at a time"


def test_nobody_is_needed_while_one_of_the_label_runs_over_nodes():
    live = asking(9)
    pieces = (Piece(3, tuple(range(8)), tuple(range(8)), 0), Piece(4, tuple(range(8)), tuple(range(8)), 0))
    running = Running(9, 1, pieces, NOW_S - 60, (8, 16), elastic=True, movable=True, description=live)
    busy = [replace(node(number), idle_gpus=(), idle_cores=tuple(range(8, 32))) for number in (3, 4)]
    assert sizes([asking()], measured((8, 1, 10.0)), [running], [*NODES, *busy]) == {1: [8]}


def test_what_it_finds_decides_from_then_on():
    """16 GPUs over two nodes at half the speed a GPU do no more than 8; at nine tenths they do."""
    assert sizes([asking()], measured((8, 1, 10.0), (16, 2, 4.0))) == {1: [8]}
    assert sizes([asking()], measured((8, 1, 10.0), (16, 2, 9.0))) == {1: [8, 8]}
