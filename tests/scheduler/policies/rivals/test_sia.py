"""Policies `sia` (SOSP '23) and `sia-hops` (Hops 4.2) in the simulator: rounds, growth, types, what is left alone.

Rounds are of 60 s; the first begins at 60 s.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from scheduler.simulator.engine import Engine
from scheduler.simulator.rivals import parameters_for
from scheduler.simulator.world.truth import World
from tests.scheduler.builders import Orders, check_orders, node
from tests.scheduler.simulator.cases import PerGpu, run, traced

SIZES = (1, 2, 4, 8)


@dataclass(frozen=True)
class ByType:
    """The units a second on each GPU of a type."""

    speeds: tuple[tuple[str, float], ...]

    def rate(self, spots):
        return sum(spot.gpus * dict(self.speeds)[spot.gpu_type] for spot in spots)


def known(law, sizes=SIZES, **nodes):
    """Per GPU and size, on nodes of so many GPUs."""
    return {(name, size, -(-size // gpus)): dict(law.speeds)[name] for name, gpus in nodes.items() for size in sizes}


def asked(number, *sizes, speeds=(("a", 1.0),), work=2000.0, node_gpus=4, **more):
    law = ByType(speeds)
    told = known(law, sizes, **{name: node_gpus for name, _ in speeds})
    return traced(number, *sizes, law=law, work=work, movable=True, reports=True, known=told, **more)


def watched(jobs, nodes, until_s, *, policy="sia", **world):
    """[(seconds, job, GPUs by node)] of what was started."""
    log = []

    def watch(state, plan, decided):
        made = Orders.of(decided)
        check_orders(made, state)
        log.extend((engine.now_s, each.job, {p.node: len(p.gpus) for p in each.pieces}) for each in made.placements)

    knobs = parameters_for(policy, {"replan_s": 60, "tick_s": 30, "restart_cost_s": 1})
    engine = Engine(jobs, World(nodes, **world), knobs, seed=1, clock=lambda: 0.0, watch=watch)
    engine.run(until_s)
    return log


def a_nodes(*numbers):
    return [node(number, 4, gpu_type="a") for number in numbers]


class TestRounds:
    def test_a_job_starts_with_its_fewest_gpus_and_doubles_each_round(self):
        """3.2, 3.3: 1, 2, 4 GPUs of a node, then two whole nodes."""
        log = watched([asked(1, *SIZES)], a_nodes(1, 2), 250.0, restart_s=1.0)
        assert [(at_s, sum(spots.values())) for at_s, _, spots in log] == [
            (60.0, 1),
            (120.0, 2),
            (180.0, 4),
            (240.0, 8),
        ]

    def test_nothing_is_given_out_between_rounds(self):
        """3.1: who comes at 70 s waits for the round that begins at 120 s, though GPUs are idle."""
        log = watched([asked(1, 1), asked(2, 1, at_s=70.0)], a_nodes(1), 130.0)
        assert [(at_s, number) for at_s, number, _ in log] == [(60.0, 1), (120.0, 2)]

    def test_goodput_decides_who_gets_which_type(self):
        """3.4: the one that gains most from the fast type has it."""
        slow, fast = (("a", 1.0), ("b", 1.2)), (("a", 1.0), ("b", 5.0))
        nodes = [node(1, 1, gpu_type="a"), node(2, 1, gpu_type="b")]
        log = watched([asked(1, 1, speeds=slow), asked(2, 1, speeds=fast)], nodes, 60.0)
        assert [(number, spots) for _, number, spots in log] == [(1, {1: 1}), (2, {2: 1})]

    def test_a_running_job_makes_room_for_those_who_come(self):
        """3.4: one job has all eight GPUs; when one comes that asks for four, 0.6 + 0.6 is more than 0.746."""
        jobs = [asked(1, *SIZES, work=1e5), asked(2, 4, at_s=600.0)]
        log = watched(jobs, a_nodes(1, 2), 900.0, restart_s=1.0)
        last = {number: spots for _, number, spots in log}
        assert [sum(last[number].values()) for number in (1, 2)] == [4, 4]

    def test_a_rigid_job_has_its_size_on_any_type(self):
        """3.4, limited adaptivity."""
        log = watched([asked(1, 6, node_gpus=4)], a_nodes(1, 2), 60.0)
        assert [(number, spots) for _, number, spots in log] == [(1, {1: 4, 2: 2})]

    def test_a_job_that_resumes_is_left_alone(self):
        """A restart of 100 s, rounds of 60 s: from one restart to the next are at least two rounds."""
        log = watched([asked(1, *SIZES, restart_s=100.0, work=1e6)], a_nodes(1, 2), 1500.0)
        times = [at_s for at_s, _, _ in log]
        assert len(times) > 2
        assert all(later - earlier >= 100 for earlier, later in pairwise(times[1:]))

    def test_a_running_job_is_not_stopped_for_its_equal_that_was_stopped(self):
        """3.4: to start it anew is a restart too. Two jobs make room for a third; when that is through, one of them starts
        again beside one that came meanwhile and never ran, and so it stays.
        """
        jobs = [asked(n, 1, work=1e5) for n in (1, 2)]
        jobs += [asked(3, 2, at_s=70.0, work=400.0, node_gpus=2), asked(4, 1, at_s=80.0, work=1e5)]
        log = watched(jobs, [node(1, 2, gpu_type="a")], 1500.0, restart_s=30.0)
        starts = [(at_s, number) for at_s, number, _ in log]
        assert starts == [(60.0, 1), (60.0, 2), (120.0, 3), (360.0, 1), (360.0, 4)]

    @pytest.mark.parametrize("policy", ["sia", "sia-hops"])
    def test_whole_runs_keep_the_books(self, policy):
        jobs = [asked(n, 1, 2, 4, at_s=37.0 * n, work=300.0 + 40 * n) for n in range(1, 9)]
        made = run(jobs, a_nodes(1, 2), policy=policy, knobs={"replan_s": 60, "restart_cost_s": 5}, restart_s=5.0)
        assert {each.state for each in made.jobs} == {"COMPLETED"}

    def test_cpu_jobs_are_placed_at_once(self):
        log = watched([traced(1, at_s=10.0, law=PerGpu())], a_nodes(1), 30.0)
        assert [(at_s, number) for at_s, number, _ in log] == [(10.0, 1)]


class TestAsHopsRanIt:
    def test_every_requirement_is_a_configuration(self):
        """4.2: {3, 4} takes three at first, where Sia's own sizes leave four alone."""
        for policy, gpus in (("sia-hops", 3), ("sia", 4)):
            log = watched([asked(1, 3, 4)], a_nodes(1), 60.0, policy=policy)
            assert [sum(spots.values()) for _, _, spots in log] == [gpus]

    def test_the_latency_ratio_decides_between_equals(self):
        """The second has waited as long for a shorter run: its ratio is larger, and it is first."""
        jobs = [asked(3, 1, work=150.0), asked(1, 1, at_s=61.0, work=9e3), asked(2, 1, at_s=61.0, work=90.0)]
        jobs = [replace(each, job=replace(each.job, total_samples=each.work)) for each in jobs]
        for policy, second in (("sia-hops", 2), ("sia", 1)):
            log = watched(jobs, [node(1, 1, gpu_type="a")], 240.0, policy=policy)
            assert [number for _, number, _ in log] == [3, second]
