"""A change of a running job must pay its restart within the time for which it stands (docs/decisions/0035)."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.estimator.estimator import estimator_for
from scheduler.model import Configuration, Piece, Running, Share
from scheduler.model.speeds import Cell, CellKey, Knowledge
from scheduler.parameters import Parameters
from scheduler.placement.running import Factors, Participant
from scheduler.replan.participants import restart_factor
from scheduler.replan.paying import factors, paid
from tests.scheduler.builders import job, make_plan, node
from tests.scheduler.replan.test_replans import elastic

NOW_S = 1_000_000.0


def long_running(stood_s=600.0, **more):
    """A job of ten hours that has had its present GPUs for `stood_s`."""
    live = replace(elastic(1, 4, 8, gpus=4), first_started_s=NOW_S - 36_000.0, started_s=NOW_S - stood_s)
    return replace(live, **more)


def test_a_long_job_pays_a_tenth_where_the_papers_factor_asks_nothing():
    live, knobs = long_running(), Parameters(replan_s=360, restart_cost_s=60)
    assert restart_factor(36_000.0, 0, 60.0) == pytest.approx(0.998, abs=1e-3)
    assert paid(live, knobs, NOW_S) == pytest.approx(0.9)


def test_a_job_that_crawls_moves_however_near_its_end_is_thought_to_be():
    """An expected end is of the mean size: a job on one slow GPU that was thought to be at its end stayed there for good."""
    live = long_running(expected_end_s=NOW_S + 50)
    assert paid(live, Parameters(replan_s=360), NOW_S) == pytest.approx(0.9)


def test_who_was_restarted_often_moves_for_what_pays_several_restarts_alone():
    knobs = Parameters(replan_s=360, restart_cost_s=60)
    often = [long_running(restarts=n) for n in (4, 12)]
    assert [paid(live, knobs, NOW_S) for live in often] == [pytest.approx(0.8), pytest.approx(0.6)]
    assert stops(1.25, restarts=12) == []
    assert stops(2.0, restarts=12) == [1]


def test_what_has_stood_for_hours_is_thought_to_stand_for_hours_again():
    """Alone among idle GPUs, a job that had been moved 28 times in a crowd went on at half its speed to its end."""
    knobs = Parameters(replan_s=360, restart_cost_s=60)
    stood = [paid(long_running(stood_s, restarts=28), knobs, NOW_S) for stood_s in (600.0, 1200.0, 9600.0)]
    assert stood == [pytest.approx(0.2), pytest.approx(0.6), pytest.approx(0.95)]
    assert stops(1.25, restarts=28, stood_s=1200.0) == []
    assert stops(1.25, restarts=28, stood_s=9600.0) == [1]


def stops(faster, restarts=0, stood_s=600.0, **knobs):
    """A job of ten hours on 4 GPUs of a node, and an idle node of another type where it would go so many times as fast."""
    live = long_running(stood_s, restarts=restarts)
    nodes = [node(1, 4, idle=0), node(2, 4, gpu_type="b")]
    speeds = {"a100": 1.0, "b": faster}
    common = {"running": [live], "replan": True, "gpu_speeds": speeds, "policy": "berth", "arrays": "off"}
    return [order.job for order in make_plan(nodes, [], **common, **knobs).stops]


def test_a_long_job_moves_for_what_pays_and_not_for_less():
    assert stops(1.05, gain="linear") == [1]
    assert stops(1.05) == []
    assert stops(1.25) == [1]


def test_who_has_not_waited_yields_to_those_who_have_and_not_to_who_has_waited_as_little():
    """A long job that never waited held its GPU behind the median of the waiting, while short ones waited twice their length."""
    live = replace(elastic(1, 1, 2, gpus=1), first_started_s=NOW_S - 36_000.0)
    live = replace(live, description=replace(live.description, model_label="m"))
    speeds = {1: 10.0, 2: 6.0}  # a GPU: the second adds a fifth
    cells = {CellKey("tenant:1:m", "a100", gpus=gpus): Cell(3, speed, 0.0) for gpus, speed in speeds.items()}
    rigid = Running(9, 1, (Piece(1, (1, 2, 3), (1, 2, 3), 0),), live.started_s, (3,))
    common = {"running": [live, rigid], "replan": True, "policy": "berth", "arrays": "off", "reserve_lr": None}
    common |= {"knowledge": Knowledge(cells=cells)}

    def stopped(*ratios, **knobs):
        waiting = [job(number, 1, wait_s=600.0 * ratio) for number, ratio in enumerate(ratios, start=2)]
        return [order.job for order in make_plan([node(1, 4, idle=0)], waiting, **common, **knobs).stops]

    assert stopped(0.1, 2.0, 2.0) == [1]
    assert stopped(0.1, 2.0, 2.0, gain="linear") == []
    assert stopped(2.0) == []
    assert stopped(2.0, 2.0, 2.0) == []


def grows(*, sure=True, lived_s=120.0, left_s=3_000.0, nodes=1, most_gpus=0, **more):
    """Where a job of two minutes goes that ran on one GPU and has three idle ones beside it; two GPUs are 1.4 times as fast.

    `sure`: whether that was measured. `left_s`: at its present speed.
    """
    speeds = {1: 10.0, 2: 7.0}  # a GPU
    cells = {
        CellKey("tenant:1:m", "a100", gpus=gpus): Cell(int(sure or gpus == 1), speed) for gpus, speed in speeds.items()
    }
    live = elastic(1, 1, 2, gpus=1, started_s=NOW_S - lived_s, **more)
    told = replace(
        live.description, model_label="m", total_samples=20.0 * left_s, done_fraction=0.5, most_gpus=most_gpus
    )
    common = {"replan": True, "policy": "berth", "arrays": "off", "knowledge": Knowledge(cells=cells)}
    hosts = [node(1, 4, idle=3), *(node(number, 4, idle=0) for number in range(2, nodes + 1))]
    made = make_plan(hosts, [], running=[replace(live, description=told)], **common, now_s=NOW_S)
    return [order.to_gpus for order in made.stops]


@pytest.mark.parametrize("nodes", [1, 17])  # located, and by class
def test_a_young_job_grows_to_a_size_that_nobody_knows_yet_and_not_to_a_known_one(nodes):
    """F asks of a change of a job of two minutes that it be half as fast again: with 60 s a restart, (120 - 0) / (120 + 60)."""
    assert grows(sure=True, nodes=nodes) == []
    assert grows(sure=False, nodes=nodes) == [2]


def test_to_find_out_must_pay_by_what_is_left_alone():
    assert grows(sure=False, left_s=150.0) == []
    assert grows(sure=False, restarts=12) == [2]


def test_a_size_that_it_once_had_teaches_nothing():
    assert grows(sure=False, most_gpus=2) == []


def test_an_old_job_pays_the_same_for_what_is_known_and_for_what_is_not():
    assert grows(sure=True, lived_s=36_000.0) == grows(sure=False, lived_s=36_000.0) == [2]


def test_what_a_restart_leaves():
    present = Configuration(1, (Share(1, 1, 1, 0),), 10.0, "type")
    larger = [Configuration(1, (Share(1, 4, 4, 0),), 14.0, source) for source in ("type", "foretold", "assumed")]
    moved = [Configuration(1, (Share(2, gpus, gpus, 0),), 14.0, "foretold") for gpus in (1, 2)]
    live = Participant(None, None, present, Factors(0.5, 0.9, 2), 0.0)
    assert [live.factor_of(each) for each in (present, *larger, *moved)] == [1.0, 0.5, 0.9, 0.5, 0.5, 0.5]


@given(
    lived_s=st.integers(0, 10**6),
    stood=st.floats(0.0, 1.0),
    restarts=st.integers(0, 40),
    restart_s=st.floats(1.0, 600.0),
    left_s=st.none() | st.floats(0.0, 1e6),
)
def test_what_a_change_must_pay_and_what_growth_that_teaches_must(lived_s, stood, restarts, restart_s, left_s):
    live = replace(elastic(1, 1, 2, gpus=1), first_started_s=NOW_S - lived_s, started_s=NOW_S - stood * lived_s)
    samples = None if left_s is None else left_s * 10.0
    live = replace(live, restarts=restarts, restart_s=restart_s)
    live = replace(live, description=replace(live.description, model_label="m", total_samples=samples))
    known = estimator_for(Knowledge(cells={CellKey("tenant:1:m", "a100", gpus=1): Cell(1, 10.0)}), {}, [])
    work = SimpleNamespace(parameters=Parameters(), estimator=known)
    found = factors(live, Configuration(1, (Share(1, 1, 1, 0),), 10.0, "type"), work, NOW_S)
    assert (
        0.0 <= found.usual == min(restart_factor(lived_s, restarts, restart_s), paid(live, Parameters(), NOW_S)) <= 1.0
    )
    if left_s is None:
        assert found.teaching == found.usual
    else:
        assert found.teaching == pytest.approx(max(0.0, 1.0 - restart_s / max(left_s, 1e-9)), abs=1e-9)
