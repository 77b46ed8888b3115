"""The engine (algorithms.md section 13): given(world, jobs) -> what became of them."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.model import ArrayHistory
from scheduler.policies.registry import POLICIES
from scheduler.simulator.engine import Engine, simulate
from scheduler.simulator.load import Load
from scheduler.simulator.past import Past
from scheduler.simulator.rivals import parameters_for, policy_named
from scheduler.simulator.rounds import Rounds
from scheduler.simulator.world.truth import SimulationError, Steady, World
from tests.scheduler.builders import node
from tests.scheduler.simulator.cases import PerGpu, by_job, clock, run, traced


def test_nothing_arrives():
    made = run([], [node(1)])
    assert (made.jobs, made.plannings, made.ended_s) == ([], [], 0.0)


def test_one_job_after_the_other():
    made = by_job(run([traced(1, 4), traced(2, 4, at_s=100), traced(3, at_s=100, work=50)], [node(1, 4)]))
    assert [(each.started_s, each.ended_s, each.wait_s) for each in made.values()] == [
        (0.0, 600.0, 0.0),
        (600.0, 1200.0, 500.0),
        (600.0, 650.0, 500.0),
    ]
    assert {each.state for each in made.values()} == {"COMPLETED"}


def test_plannings_stand_at_ticks_and_what_ends_in_between_is_seen_then():
    made = run([traced(1, 4, at_s=5), traced(2, 4, at_s=10)], [node(1, 4)], tick_s=60)
    assert [each.at_s for each in made.plannings] == [60.0, 660.0, 1260.0]
    assert [each.started_s for each in made.jobs] == [60.0, 660.0]


def test_a_simulation_can_be_cut_off():
    made = run([traced(1, 4), traced(2, 4, at_s=10)], [node(1, 4)], until_s=300)
    first, second = made.jobs
    assert (first.state, first.ran_s, first.gpu_s) == ("UNFINISHED", 300.0, 1200.0)
    assert (second.started_s, second.wait_s, made.ended_s) == (None, 290.0, 300.0)


def test_the_next_round_always_lies_ahead_whatever_a_division_rounds_to():
    """Round 3 after 32004.67 s began where the third 360 s end; it then began again and again, at one instant for ever."""
    rng = np.random.default_rng(1)
    for began_s in (32004.665321924087, *rng.uniform(0, 1e5, 200)):
        rounds, now_s = Rounds(360.0), float(began_s)
        rounds.end_early(now_s)
        for _ in range(5):
            rounds.begin(now_s)
            assert now_s < rounds.next_s <= now_s + 360.0 + 1e-6
            now_s = rounds.next_s


def test_who_can_never_run_is_unfinished_and_the_simulation_ends():
    for policy in ("fifo", "berth"):
        made = by_job(run([traced(1, 16), traced(2, 1)], [node(1, 4)], policy=policy, until_s=None))
        assert (made[1].state, made[2].state) == ("UNFINISHED", "COMPLETED")


def test_who_cannot_be_planned_with_is_invalid_and_stops_nobody():
    made = by_job(run([traced(1, 4, 2), traced(2, 4)], [node(1, 4)]))
    assert (made[1].state, made[2].state) == ("INVALID", "COMPLETED")


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_input_and_seed_give_an_equal_run(policy):
    """Section 13: same input -> byte-same report; only `solve_s` is the wall's."""
    jobs = [
        traced(number, *sizes, at_s=97.0 * number, work=900.0, law=PerGpu(), tenant=1 + number % 3, movable=True)
        for number, sizes in enumerate([(1, 2, 4), (2,), (1,), (4,), (1, 2), (), (1, 4)], start=1)
    ]
    nodes = [node(1, 4), node(2, 4)]
    knobs = {"replan_s": 120, "restart_cost_s": 5}
    first, second = (run(jobs, nodes, policy=policy, noise=0.2, knobs=knobs) for _ in range(2))
    assert _timeless(first) == _timeless(second)
    assert all(each.state == "COMPLETED" for each in first.jobs)
    other = run(jobs, nodes, policy=policy, noise=0.2, knobs=knobs, seed=2)
    assert _timeless(other).jobs != first.jobs


def _timeless(made):
    return replace(made, plannings=[replace(each, solve_s=0.0) for each in made.plannings])


def test_the_walls_speed_decides_nothing():
    """A planning's time limit cannot bite: its clock stands still."""
    jobs = [traced(number, 1, 2, at_s=10.0 * number) for number in range(1, 9)]
    results = []
    for step_s in (0.0, 1e6):
        readings = iter(range(10**6))
        made = simulate(
            jobs,
            World([node(1, 4)]),
            parameters_for("hops"),
            seed=1,
            clock=lambda: next(readings) * step_s,  # noqa: B023
        )
        results.append(made.jobs)
    assert results[0] == results[1]


def test_a_restart_costs_its_time_and_a_stop_too():
    """The owner's job calls its node back (section 4): the borrower goes on later, its work kept."""
    nodes, knobs = [node(1, 8), node(2, 1)], {"large_array_share": 1.0}
    borrower = traced(1, 1, at_s=1, work=3000, movable=True)
    jobs = [traced(9, 1, work=9000), borrower, traced(2, 8, at_s=500, work=600, tenant=2)]
    made = by_job(run(jobs, nodes, policy="coda", knobs=knobs, stop_s=20.0, restart_s=60.0))
    assert (made[2].started_s, made[1].restarts, made[1].wait_s) == (520.0, 1, 600.0)
    assert made[1].ended_s == 1120 + 60 + (3001 - 520)
    jobs[1] = replace(borrower, restart_s=7.0)
    made = by_job(run(jobs, nodes, policy="coda", knobs=knobs, restart_s=60.0))
    assert made[2].started_s == 500.0  # a stop that takes no time: the promise is redeemed in the same instant
    assert made[1].ended_s == 1100 + 7 + (3001 - 500)


@pytest.mark.parametrize(
    ("sizes", "peak"), [([(0,)], None), ([(1,), (0,)], 0), ([(1, 2, 4, 8)], 0), ([(1,), (4, 8), (8,)], 12)]
)
def test_large_jobs_of_the_past_divide_the_nodes_and_small_ones_alone_leave_them_whole(sizes, peak):
    told = []
    Engine(
        [traced(number, *size) for number, size in enumerate(sizes, start=1)],
        World([node(number, 8, cores=64) for number in range(1, 5)]),
        parameters_for("berth"),
        seed=1,
        clock=clock(),
        watch=lambda state, *_: told.append(state.array_history.large_gpus_peak),
    ).run(1.0)
    assert told[0] == peak


def test_a_week_after_the_last_gpu_job_nothing_is_known_of_large_ones():
    week = 7 * 86_400.0
    past = Past(raqlr_hours=1.0)
    load = Load(traced(1, 1))
    past.arrived(load)
    assert past.arrays(2 * week).large_gpus_peak == 0, "it is still there"
    past.ended(load, 5.0)
    assert [past.arrays(now_s).large_gpus_peak for now_s in (week, week + 6)] == [0, None]


def test_noise_is_each_attempts_own_and_has_mean_one():
    jobs = [traced(number, 1, work=1000.0) for number in range(1, 201)]
    world = World([node(1, 200, cores=200)], noise=0.3)
    made = simulate(jobs, world, parameters_for("fifo"), seed=1, clock=clock())
    speeds = [1000.0 / each.ran_s for each in made.jobs]
    assert sum(speeds) / len(speeds) == pytest.approx(1.0, abs=0.08)
    assert 0.22 < (sum((each - 1) ** 2 for each in speeds) / len(speeds)) ** 0.5 < 0.38
    alone = run([traced(7, 1, work=1000.0)], [node(1, 1)], noise=0.3, policy="berth")
    assert alone.jobs[0].ran_s == made.jobs[6].ran_s  # the same under any policy, whoever else is there


def test_failures_are_played_if_the_world_has_them():
    jobs = [
        traced(1, 1, fails=(0.5,)),
        traced(2, 1, fails=(0.5,), retries=1),
        traced(3, 1, fails=(0.25, 0.5), retries=2, movable=True),
    ]
    made = by_job(run(jobs, [node(1, 4)], failures=True, restart_s=10.0))
    assert [(each.state, each.ended_s) for each in made.values()] == [
        ("FAILED", 300.0),
        ("COMPLETED", 910.0),
        ("COMPLETED", 620.0),
    ]
    assert {each.ended_s for each in run(jobs, [node(1, 4)]).jobs} == {600.0}


def test_memory_pressure_slows_all_on_the_node_while_it_lasts():
    """Two jobs draw 60 GB/s each of 100: each goes at 1 / 1.2 while both are there."""
    jobs = [
        traced(1, 1, law=PerGpu(), bandwidth_gbs=60.0, work=600.0),
        traced(2, 1, law=PerGpu(), bandwidth_gbs=60.0, work=100.0, at_s=100.0),
    ]
    made = by_job(run(jobs, [node(1, 4)], bandwidth_gbs={1: 100.0}))
    assert made[2].ended_s == pytest.approx(220.0)
    assert made[1].ended_s == pytest.approx(100 + 120 + (600 - 100 - 100))
    assert by_job(run(jobs, [node(1, 4)]))[1].ended_s == 600.0


def test_the_nodes_own_speed_is_felt():
    made = by_job(
        run([traced(1, 1, law=PerGpu()), traced(2, 1, law=PerGpu())], [node(1, 1), node(2, 1)], speeds={2: 0.5})
    )
    assert [made[1].ended_s, made[2].ended_s] == [600.0, 1200.0]


class Unmeasured:
    def rate(self, spots):
        raise ValueError(f"was not measured on {spots[0].gpu_type}")


def test_what_cannot_be_is_refused_by_name():
    cases = [
        ([traced(1, 1), traced(1, 1)], "job 1 is listed twice"),
        ([traced(1, 1, work=0.0)], "job 1 has 0.0 units of work"),
        ([traced(1, 1, at_s=-1.0)], "job 1 arrives at -1.0 s"),
        ([traced(1, 1, fails=(1.5,))], "job 1 fails at"),
        ([traced(1, 1, law=PerGpu(), bandwidth_gbs=-1.0)], "job 1 draws -1.0 GB/s"),
        ([traced(1, 1, law=Unmeasured())], "job 1: was not measured on a100"),
    ]
    for jobs, words in cases:
        with pytest.raises(SimulationError, match=words):
            run(jobs, [node(1)])
    with pytest.raises(SimulationError, match="listed twice in the world"):
        run([], [node(1), node(1)])
    with pytest.raises(SimulationError, match="there is no policy 'best'; the policies are fifo, drf"):
        policy_named("best")


def test_progress_is_told_by_time_too_so_that_slow_plannings_can_be_given_up():
    told, seconds = [], iter(range(10_000))
    jobs = [traced(number, 1, at_s=float(number), work=1.0) for number in range(1, 20)]
    world, tell = World([node(1)]), lambda *each: told.append(each)
    simulate(jobs, world, parameters_for("fifo"), seed=1, clock=lambda: next(seconds), progress=tell)
    assert len(told) >= len(jobs)


def test_progress_is_told_and_may_give_up():
    told = []
    jobs = [traced(number, 1, at_s=float(number), work=1.0) for number in range(1, 400)]
    simulate(
        jobs, World([node(1)]), parameters_for("fifo"), seed=1, clock=clock(), progress=lambda *each: told.append(each)
    )
    assert len(told) >= 1
    assert told[0][1] > 100


def test_what_is_true_of_jobs_and_nodes_is_not_shown_before_it_happens():
    """Section 13: snapshots of worlds that differ in the truth alone are equal until something of it can be measured."""

    def seen(until_s, *, work, law, reports=False, **world):
        states = []
        jobs = [traced(number, 1, 2, work=work, law=law, reports=reports, fails=(0.5,)) for number in (1, 2)]
        parameters = parameters_for("berth", {"replan_s": 50})
        engine = Engine(
            jobs,
            World([node(1, 2)], **world),
            parameters,
            seed=1,
            clock=clock(),
            watch=lambda *each: states.append(replace(each[0], array_history=ArrayHistory())),
        )
        engine.run(until_s)
        return states

    truth = {"work": 600.0, "law": PerGpu()}
    other = {"work": 9000.0, "law": Steady(), "speeds": {1: 0.1}, "noise": 0.5, "bandwidth_gbs": {1: 1.0}}
    assert len(seen(150.0, **truth)) == 4
    assert seen(150.0, **truth) == seen(150.0, **other)
    assert seen(150.0, **truth, reports=True) != seen(150.0, **other, reports=True)
