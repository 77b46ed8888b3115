"""Short spellings for traced jobs, worlds and runs, and what every run must keep."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count

from scheduler.simulator.engine import Engine
from scheduler.simulator.rivals import parameters_for
from scheduler.simulator.world.truth import Steady, TracedJob, World
from tests.scheduler.builders import check_feasible, job


@dataclass(frozen=True)
class PerGpu:
    """r GPUs do r units of work a second, slower on nodes with pressure."""

    def rate(self, spots):
        gpus = sum(spot.gpus for spot in spots) or 1
        return gpus * min(spot.speed for spot in spots) / max(1.0, *(spot.pressure for spot in spots))


def traced(number, *requirement, at_s=0.0, work=600.0, law=None, **more):
    """A job of so much work; what `TracedJob` does not know is said of its description."""
    own = {name: more.pop(name) for name in list(more) if name in TracedJob.__dataclass_fields__}
    described = replace(job(number, *requirement, wait_s=0.0, **{"age_s": None, **more}), submitted_s=at_s)
    return TracedJob(described, work, law or Steady(), f"j{number}", **own)


def clock():
    """A wall clock that moves a millisecond at each reading."""
    readings = count()
    return lambda: next(readings) * 0.001


def run(jobs, nodes, *, policy="fifo", seed=1, until_s=None, knobs=None, **world):
    """The run, its invariants checked at every planning."""
    engine = Engine(
        jobs,
        World(nodes, **world),
        parameters_for(policy, {"tick_s": 30, **(knobs or {})}),
        seed=seed,
        clock=clock(),
    )
    records = []

    def look(state, plan, decided):
        made = plan()
        check_as_planned(state, made, decided)
        records.append((len(engine._plannings), made.metrics))

    engine._watch = look
    engine.run(math.inf if until_s is None else until_s)
    made = engine.result()
    for place, told in records:
        seen = made.plannings[place]
        assert (seen.fragments, seen.queue_gpu_jobs + seen.queue_cpu_jobs) == _of_plan(told) or seen.stopped
    check_conserved(made, engine)
    return made


def _of_plan(told):
    return (told.fragments_cores + told.fragments_scattered + told.fragments_kept, told.queue_length)


def check_as_planned(state, made, decided):
    """The input that the engine keeps leads to what the service would have planned from a snapshot."""
    check_feasible(made, state)
    outcome = decided.outcome
    assert {each.placement.job: each.placement for each in outcome.draft.chosen.values()} == {
        each.job: each for each in made.placements
    }
    assert [ranked.job.id for ranked in decided.line.queue] == [
        each.job for each in made.decisions if each.rank is not None
    ]
    assert (tuple(outcome.draft.stops), tuple(outcome.draft.promises), decided.lapsed) == (
        made.stops,
        made.promises,
        made.lapsed,
    )
    assert tuple(decided.measuring.profiles.orders) == made.profiles
    waiting = [each for each in made.decisions if each.placement is None]
    assert set(decided.ineligible()) == {each.job for each in waiting if not each.eligible}
    assert decided.window_ran_out == made.window_ran_out


def check_conserved(made, engine):
    """Every GPU-second that was allocated was had by a job; nobody waits and runs at a time; nothing is lost."""
    any_quota = any(tenant.gpu_quota is not None for tenant in engine.simulated.world.tenants)
    held = Counter()
    for load in engine.simulated.running.values():
        for piece in load.attempt.pieces:
            held.update((piece.node, gpu) for gpu in piece.gpus)
    for node in engine.simulated.cluster.nodes.values():
        busy = {gpu for where, gpu in held if where == node.id}
        assert sorted([*engine.simulated.cluster.idle[node.id].gpus, *busy]) == list(range(node.gpus_total))
    assert all(times == 1 for times in held.values())
    for each in made.jobs:
        if each.ended_s is not None and each.state == "COMPLETED":
            span_s = each.ended_s - each.submitted_s - each.wait_s - each.ran_s  # neither eligible nor running
            assert span_s > -1e-6 if any_quota else abs(span_s) < 1e-6
            assert each.gpus_mean <= max(each.requirement) + 1e-9
    if engine.simulated.world.tick_s == 0 and made.plannings:
        ends = [planning.at_s for planning in made.plannings[1:]] + [engine.now_s]
        profiled = engine.simulated.profiles.gpu_s
        area = sum(
            planning.gpus_allocated * (end_s - planning.at_s)
            for planning, end_s in zip(made.plannings, ends, strict=True)
        )
        assert math.isclose(area, profiled + sum(each.gpu_s for each in made.jobs), rel_tol=1e-9, abs_tol=1e-3)


def by_job(made):
    return {each.job: each for each in made.jobs}
