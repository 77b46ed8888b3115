"""Whatever a snapshot holds, a planning answers: what is unsound is named and left out, the rest is planned."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.intake.take_in import take_in
from scheduler.model import (
    ArrayHistory,
    ClusterState,
    Ended,
    Job,
    Piece,
    Promise,
    Running,
    Sample,
    Share,
    Tenant,
)
from scheduler.model.speeds import Cell, CellKey, Knowledge, Link, Loading, Part, Profile
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from scheduler.policies.registry import POLICIES
from scheduler.simulator.rivals import RIVALS, policy_named
from tests.scheduler.builders import NOW_S, decisions_of, job, node, past_of, ticking, where

NAN, INF = math.nan, math.inf


def faults(**changes):
    """What is said of a state, as (subject, key, detail)."""
    found = take_in(replace(ClusterState([node(1)], [job(1, 1)]), **changes))
    return found.state, [(each.subject, each.key, each.detail) for each in found.faults]


def test_a_sound_state_is_left_as_it_is():
    state, said = faults(
        running=[Running(7, 1, (Piece(1, (0,), (0, 1), 10),), requirement=(1,))],
        tenants=[Tenant(1, 2.0, 4, None)],
        ended=[Ended(1.0, 2.0, 3.0)],
        history=past_of((60.0, 1, "cv"), told={1: [1.5]}),
        array_history=ArrayHistory((3.0,), 8),
        gpu_speeds={"a100": 2.0},
    )
    assert said == []
    assert state.running[0].job == 7
    assert state.tenants == [Tenant(1, 2.0, 4, None)]
    assert state.history == past_of((60.0, 1, "cv"), told={1: [1.5]})


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (Running(7, 1, (Piece(1, (0,), (0,), 5),), requirement=(1,), started_s=NAN), "its started_s is nan"),
        (Running(7, 1, (Piece(1, (0,), (0,), 5),), requirement=(1,), expected_end_s=INF), "its expected_end_s is inf"),
        (Running(7, 1, (Piece(1, (0,), (0,), 5),), requirement=(1,), restarts=-1), "its restarts is -1"),
        (Running(7, 1, (Piece(1, (0,), (0,), 5),), requirement=(1,), restart_s=-2.0), "its restart_s is -2.0"),
        (Running(7, 1, (Piece(1, (0,), (0,), 5),), requirement=(1.5,)), "its requirement is (1.5,)"),
    ],
)
def test_a_running_job_keeps_what_it_holds_and_is_left_alone(bad, words):
    state, said = faults(running=[replace(bad, movable=True, elastic=True)])
    ((subject, key, detail),) = said
    assert (subject, key) == ("job", 7)
    assert words in detail
    (left,) = state.running
    assert (left.gpus, left.cores, left.movable, left.elastic) == (1, 1, False, False)


def test_a_job_that_runs_on_gpus_and_is_described_without_is_left_alone():
    """It stopped a re-plan once: a participant without a GPU has no throughput per GPU."""
    held = (Piece(1, (0,), (0,), 5),)
    for pieces, described in ((held, job(7)), ((*held, Piece(2, (), (0,), 5)), job(7, 1))):
        live = Running(7, 1, pieces, requirement=(1,), elastic=True, movable=True, description=described)
        state, said = faults(running=[live])
        assert "each part must hold some" in said[0][2]
        assert (state.running[0].description, state.running[0].gpus) == (None, 1)


def test_a_movable_job_without_a_core_for_each_gpu_is_left_alone():
    """It stopped a re-plan once: its throughput was 0, and gains are over it."""
    one = Running(
        7, 1, (Piece(1, (0,), (), 5),), requirement=(1, 2), elastic=True, movable=True, description=job(7, 1, 2)
    )
    two = replace(one, pieces=(Piece(1, (0, 1), (0,), 5), Piece(2, (0,), (0,), 5)))
    for live in (one, two):
        state, said = faults(running=[live])
        assert "a core for each of its GPUs" in said[0][2]
        assert (state.running[0].description, state.running[0].gpus) == (None, live.gpus)
        made = plan(
            ClusterState([node(1, idle=6), node(2, idle=7)], [job(1, 1)], [live]),
            NOW_S,
            Parameters(),
            np.random.default_rng(1),
            ticking(),
            replan=True,
        )
        assert (made.stops, len(made.placements)) == ((), 1)


def test_a_piece_that_is_no_count_is_left_out():
    state, said = faults(running=[Running(7, 1, (Piece(1, (0,), (0,), -5), Piece(2, (0,), (0,), 5)), requirement=(2,))])
    assert "ids and counts" in said[0][2]
    assert [piece.node for piece in state.running[0].pieces] == [2]


@pytest.mark.parametrize(
    ("bad", "kept", "words"),
    [
        (Tenant(1, NAN), Tenant(1, 1.0), "weight is nan"),
        (Tenant(1, 0.0), Tenant(1, 1.0), "weight is 0.0"),
        (Tenant(1, 1.0, -1), Tenant(1, 1.0, 0), "gpu_quota is -1"),
        (Tenant(1, 1.0, None, NAN), Tenant(1, 1.0, None, 0), "core_quota is nan"),
    ],
)
def test_a_tenant_in_doubt_gets_nothing_beyond_it(bad, kept, words):
    state, said = faults(tenants=[bad])
    assert state.tenants == [kept]
    assert said[0][:2] == ("tenant", 1)
    assert words in said[0][2]


def test_figures_of_the_past_that_are_no_numbers_are_left_out():
    state, said = faults(
        ended=[Ended(1.0, 2.0, 0.0), Ended(NAN, 1.0, 1.0), Ended(1.0, 2.0, 3.0)],
        history=past_of((NAN, 1, "cv"), (-1.0, 1, "cv"), (INF, 2, "cv"), told={1: [NAN], 2: [1.0]}),
        array_history=ArrayHistory((3.0, NAN), -4),
        gpu_weights={"a100": NAN},
        gpu_speeds={"nobody has it": 0.0},
    )
    assert state.ended == [Ended(1.0, 2.0, 3.0)]
    assert state.history.told[2] == Sample([1.0])
    assert not any(len(sample) for sample in (state.history.told[1], *state.history.like.values()))
    assert state.array_history == ArrayHistory((3.0,), None)
    assert (state.gpu_weights, state.gpu_speeds) == ({}, {})
    assert {key for _, key, _ in said} == {
        "ended",
        "array_history",
        "a100",
        "nobody has it",
    }


def known(mean=10.0, weight=1.0, forward_s=0.1, within=1e9):
    return Knowledge(
        {CellKey("tenant:1:m", "a100", gpus=1): Cell(3, mean, 0.1)},
        {
            ("tenant:1:p", "a100"): Profile(
                forward_s, 0.1, 0.1, 32, 1e6, loading=Loading(1, (Part(weight, 0.1, 0.02, 0.0, 0.0, 0.0),))
            )
        },
        {"a100": Link(within, 1e8)},
    )


@pytest.mark.parametrize(
    ("knowledge", "words"),
    [
        (known(mean=NAN), "measured throughput on a100 is nan"),
        (known(mean=0.0), "measured throughput on a100 is 0.0"),
        (known(forward_s=NAN), "profile on a100 has forward_s nan"),
        (known(weight=0.0), "profile on a100 has weight 0.0"),
    ],
)
def test_a_throughput_that_is_no_number_takes_its_jobs_out_and_no_others(knowledge, words):
    jobs = [
        job(n, 1, model_label=label, age_s=None, total_samples=1000.0) for n, label in enumerate(("m", "p", "other"), 1)
    ]
    state = ClusterState([node(1)], jobs, knowledge=knowledge)
    made = plan(state, NOW_S, Parameters(), np.random.default_rng(1), ticking())
    (bad,) = [each for each in made.decisions if each.reason == "invalid"]
    assert bad.job == (1 if "measured" in words else 2)
    assert words in bad.figures["detail"]
    assert [(fault.subject, fault.key) for fault in made.faults] == [("job", bad.job)]
    assert len(where(made)) == 2


def test_bandwidths_that_are_no_numbers_leave_the_theory_layer_silent():
    state, said = faults(knowledge=known(within=NAN))
    assert state.knowledge.links == {}
    assert said[0][1] == "a100"
    assert state.knowledge.cells


# ---- whatever is thrown at it ------------------------------------------------------------------------------------------

odd = st.sampled_from([NAN, INF, -INF, -1.0, 0.0, 1e-300, 1e300, 2.5, 60.0, 3600.0])
odd_count = st.sampled_from([-1, 0, 1, 2, 4, 8, 10**15, 1.5, NAN, True])
maybe = st.none() | odd


def mostly(sound, unsound):
    """One in twenty is unsound: else nothing would ever be planned beside what is set aside."""
    return st.integers(1, 20).flatmap(lambda drawn: unsound if drawn == 7 else sound)


shares = st.builds(
    Share, st.integers(1, 4), st.integers(0, 4), st.integers(0, 4), mostly(st.integers(0, 100), odd_count)
)
nodes = st.builds(
    lambda number, gpus, idle, cores, memory, speed, kind, up: replace(
        node(number, 4, idle=idle, idle_cores=cores, gpu_type=kind, schedulable=up),
        gpus_total=gpus,
        idle_memory_mib=memory,
        speed=speed,
    ),
    st.integers(1, 4),
    mostly(st.just(4), odd_count),
    st.integers(0, 4),
    st.integers(0, 32),
    mostly(st.just(1000), odd_count),
    mostly(st.just(1.0), odd),
    mostly(st.sampled_from(["a", "b"]), st.just("nan")),
    mostly(st.just(True), st.just(False)),
)
jobs = st.builds(
    Job,
    id=st.integers(1, 9),
    tenant=st.integers(1, 3),
    requirement=mostly(
        st.sampled_from([(1,), (2,), (1, 2, 4), (8,), (0,)]),
        st.sampled_from([(), (0, 1), (2, 1), (-1,), (NAN,), (1.5,)]),
    ),
    submitted_s=mostly(st.just(5.0), odd),
    gpu_types=mostly(st.sampled_from([frozenset(), frozenset({"a"})]), st.just(frozenset({"no such type"}))),
    cores=mostly(st.integers(1, 4), odd_count),
    memory_mib=mostly(st.integers(0, 2000), odd_count),
    priority=st.integers(-100, 100),
    wait_s=mostly(st.just(60.0), odd),
    age_s=mostly(st.none(), maybe),
    owner=st.none() | st.integers(1, 2),
    category=st.sampled_from([None, "cv"]),
    model_label=st.sampled_from([None, "m", "p"]),
    expected_duration_s=mostly(st.none(), maybe),
    total_samples=mostly(st.just(100.0), maybe),
    movable=st.booleans(),
    promise=st.none() | st.builds(Promise, st.lists(shares, max_size=2).map(tuple), st.just(0.0), st.just("call-back")),
    attained_gpu_s=mostly(st.just(0.0), odd),
    done_fraction=mostly(st.just(0.5), odd),
)
pieces = st.builds(
    Piece,
    st.integers(1, 6),
    st.lists(st.integers(0, 9), max_size=4, unique=True).map(tuple),
    st.just((30,)),
    mostly(st.just(10), odd_count),
)
live = st.builds(
    Running,
    job=st.integers(11, 19),
    tenant=st.integers(1, 3),
    pieces=st.lists(pieces, max_size=2).map(tuple),
    started_s=mostly(st.just(5.0), odd),
    requirement=mostly(st.sampled_from([(1,), (4,), (0,)]), st.sampled_from([(), (NAN,)])),
    elastic=st.booleans(),
    movable=st.booleans(),
    expected_end_s=mostly(st.none(), maybe),
    restarts=mostly(st.just(0), odd_count),
    restart_s=mostly(st.none(), maybe),
    description=st.none() | jobs,
    first_started_s=mostly(st.none(), maybe),
    stopping=mostly(st.just(False), st.just(True)),
).map(lambda each: replace(each, description=each.description and replace(each.description, id=each.job)))
tenants = st.builds(Tenant, st.integers(1, 3), mostly(st.just(1.0), odd), mostly(st.none(), odd_count))
states = st.builds(
    ClusterState,
    nodes=st.lists(nodes, min_size=1, max_size=4),
    jobs=st.lists(jobs, min_size=1, max_size=6),
    running=st.lists(live, max_size=3, unique_by=lambda each: each.job),
    tenants=st.lists(tenants, max_size=3),
    gpu_speeds=st.fixed_dictionaries({"a": mostly(st.just(2.0), odd), "nan": st.just(NAN)}),
    ended=st.lists(st.builds(Ended, odd, odd, odd), max_size=2),
    history=st.builds(lambda took_s, ratio: past_of((took_s, 1, "cv"), (60.0, 2, None), told={1: [ratio]}), odd, odd),
    gpu_weights=st.dictionaries(st.sampled_from(["a", "b"]), odd),
    array_history=st.builds(ArrayHistory, st.lists(odd, max_size=2).map(tuple), st.none() | odd_count),
    knowledge=st.builds(known, mostly(st.just(10.0), odd), mostly(st.just(1.0), odd), mostly(st.just(0.1), odd), odd),
)


def test_an_unsound_job_that_bears_a_waiting_ones_number_is_not_counted_among_the_waiting():
    jobs = [job(1, 8), job(1, requirement=())]
    made = plan(ClusterState([node(1, 2)], jobs), NOW_S, Parameters(), np.random.default_rng(1), ticking())
    assert made.metrics.queue_length == 1


@settings(max_examples=16, deadline=None)
@given(states, st.sampled_from([*POLICIES, *RIVALS]), st.sampled_from(["lrf", "ftf"]), st.booleans())
def test_plan_never_raises_and_every_plan_is_feasible(state, policy, priority, replan):
    parameters = Parameters(priority=priority)
    rng, named = np.random.default_rng(1), policy_named(policy)
    made = plan(state, NOW_S, parameters, rng, ticking(), replan=replan, policy=named)
    made.as_json()
    assert len(made.decisions) == len(state.jobs)
    hosts = {}
    for host in state.nodes:
        hosts.setdefault(host.id, []).append(host)
    used = set()
    for placement in made.placements:
        for piece in placement.pieces:
            sound = [host for host in hosts[piece.node] if host.schedulable and set(piece.gpus) <= set(host.idle_gpus)]
            assert sound, "only what some listing of the node offers"
            assert any(piece.memory_mib <= host.idle_memory_mib for host in sound)  # one may be no number
            mine = {(piece.node, "gpu", gpu) for gpu in piece.gpus} | {
                (piece.node, "core", core) for core in piece.cores
            }
            assert not mine & used
            used |= mine
        assert any(placement.gpus in each.requirement for each in state.jobs if each.id == placement.job)
    for decision in decisions_of(made).values():
        assert (decision.placement is None) == (decision.reason is not None)


def test_a_cpu_job_that_shares_a_label_with_training_jobs_has_no_speed_in_samples():
    """It stopped the round once: per-GPU throughput of no GPU is none."""
    words = job(1, model_label="m", total_samples=10.0, age_s=None)
    state = ClusterState([node(1)], [words], knowledge=known())
    assert len(plan(state, NOW_S, Parameters(), np.random.default_rng(1), ticking()).placements) == 1
