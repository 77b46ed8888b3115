"""How good start ranges are, replayed: what held, how wide they were, and the interval score, by how far ahead.

`demo`: the demo's nodes, tenants and trainings, coming as the demo's do while less is asked for than its swinging target, so
that a queue stands for a while and dissolves; a training runs for the seconds it declares, on any of its sizes. `busy`: the
same on a machine that others load, as the demo in service often is: every ten minutes another factor stretches all run times.
`philly`: of eight days of Microsoft's trace every sixth job, on 96 GPUs, in bursts of up to a hundred and with run times that
nobody declares.
The simulator plans, the service's own forecast foretells (`research.simulator.foretelling`).
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from portal.launch.demo.arrivals import CALM, CROWDED, CROWDED_SHARE, LONGEST_S, PERIOD_S, SHORTEST_S, SWING_S
from portal.launch.demo.nodes import DEMO_NODES
from portal.launch.demo.people import REPLAN_S, RESTART_COST_S, TICK_S
from portal.launch.demo.workload import TENANTS, TRAININGS
from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.sources.clusters import ClusterFile
from portal.pages.laboratory.sources.traces import TraceFile
from research.bench.errors import BenchError
from research.simulator.foretelling import Foretelling
from scheduler.model import Job, Node, Tenant
from scheduler.parameters import Parameters
from scheduler.simulator.engine import Engine
from scheduler.simulator.world.truth import Steady, TracedJob, World

WORKLOADS = ("demo", "busy", "philly")
DEMO_STOP_S, DEMO_STARTING_S = 2.0, (2.0, 6.0)
WIDE_SHARE, WIDE_GPUS, WIDE_S, WIDE_DECLARED_S, WIDE_LIMIT_S = 0.04, 10, (80.0, 130.0), 1800.0, 900.0
BUSY, BUSY_S, BUSY_RESTART_S = (1.2, 2.7), 600.0, 15.0
"""The stretch of run times on a loaded machine, its period and the cost of a restart (docs/evidence/start-ranges.md)."""
FIRST_DAY, DAYS, EVERY_NTH, PHILLY_GPUS = 28, 8, 6, 96
TICK_PHILLY_S, REPLAN_PHILLY_S = 60.0, 600.0


def demo_engine(*, seed: int, busy: bool = False) -> Engine:
    """The demo's cluster, nobody there. `busy`: restarts take longer than the operator says."""
    nodes = [
        Node(
            number,
            node.name,
            gpu_type=node.gpu_type,
            gpus_total=node.gpus,
            cores_total=node.cores,
            memory_total_mib=node.memory_mib,
            storage_domain="demo",
        )
        for number, node in enumerate(DEMO_NODES, start=1)
    ]
    world = World(
        nodes,
        [Tenant(number + 1) for number in range(len(TENANTS))],
        tick_s=TICK_S,
        restart_s=BUSY_RESTART_S if busy else RESTART_COST_S,
        stop_s=DEMO_STOP_S,
    )
    parameters = Parameters(policy="berth", tick_s=TICK_S, replan_s=REPLAN_S, restart_cost_s=RESTART_COST_S)
    return Engine([], world, parameters, seed=seed, clock=time.process_time)


class DemoFeed:
    """Submits as the demo does: all trainings of all tenants at first, then one at a time while the demand is under target.

    `busy`: what comes within `BUSY_S` works for longer, by one factor for all and a tenth of its own.
    """

    def __init__(self, seed: int, *, busy: bool = False) -> None:
        self._rng, self._number = random.Random(seed), 0  # noqa: S311 - a workload's draw
        self._seed, self._busy = seed, busy
        self.limits_s: dict[int, float] = {}
        types = {node.gpu_type for node in DEMO_NODES}
        sizes = (1, 2, 4, 8, WIDE_GPUS)
        self._known = {(name, gpus, nodes): 100.0 * gpus**-0.1 for name in types for gpus in sizes for nodes in (1, 2)}

    def __call__(self, engine: Engine, now_s: float) -> None:
        floor = engine.simulated
        if not self._number:
            for sizes, seconds in TRAININGS:
                for place in range(len(TENANTS)):
                    self._training(engine, now_s, place, sizes, seconds)
        held = sum(load.attempt.gpus for load in floor.running.values() if load.attempt is not None)
        asked = held + sum(load.traced.job.min_gpus for load in floor.waiting.values())
        target = CROWDED if now_s % SWING_S < CROWDED_SHARE * SWING_S else CALM
        if now_s and asked < target * floor.cluster.gpus_total:
            place = self._rng.randrange(len(TENANTS))
            if self._rng.random() < WIDE_SHARE:
                self._wide(engine, now_s, place)
            else:
                sizes, _ = self._rng.choice(TRAININGS)
                self._training(engine, now_s, place, sizes, self._rng.randrange(SHORTEST_S, LONGEST_S, 10))

    def _training(self, engine: Engine, now_s: float, place: int, sizes: list[int], seconds: int) -> None:
        work_s = (seconds + self._rng.uniform(*DEMO_STARTING_S)) * self._stretch(now_s)
        job = self._job(now_s, place, tuple(sizes), float(seconds))
        engine.submit(TracedJob(replace(job, model_label="charlm"), work_s, Steady(), known=self._known))

    def _wide(self, engine: Engine, now_s: float, place: int) -> None:
        job = self._job(now_s, place, (WIDE_GPUS,), WIDE_DECLARED_S)
        self.limits_s[job.id] = WIDE_LIMIT_S
        wide = frozenset({DEMO_NODES[0].gpu_type})
        engine.submit(
            TracedJob(replace(job, gpu_types=wide), self._rng.uniform(*WIDE_S) * self._stretch(now_s), Steady())
        )

    def _stretch(self, now_s: float) -> float:
        """How much longer than on an idle machine a job takes that comes now."""
        if not self._busy:
            return 1.0
        low, high = (math.log(end) for end in BUSY)
        common = random.Random(f"{self._seed} {now_s // BUSY_S}").uniform(low, high)  # noqa: S311 - a workload's draw
        return math.exp(common + self._rng.gauss(0.0, 0.1))

    def _job(self, now_s: float, place: int, sizes: tuple[int, ...], declared_s: float) -> Job:
        self._number += 1
        owner = 10 * place + self._rng.randrange(2)
        return Job(
            self._number,
            place + 1,
            sizes,
            submitted_s=now_s,
            cores=4,
            owner=owner,
            category=str(place),
            expected_duration_s=declared_s,
            movable=True,
        )


def philly_engine(data: Path, *, seed: int) -> Engine:
    """The cut of Philly, all of its jobs to come."""
    nodes = [
        Node(number, f"node-{number}", gpu_type="gpu", gpus_total=8, cores_total=64, memory_total_mib=512 * 1024)
        for number in range(1, PHILLY_GPUS // 8 + 1)
    ]
    jobs = _philly_jobs(data, World(nodes))
    tenants = [Tenant(number) for number in sorted({each.job.tenant for each in jobs})]
    world = World(nodes, tenants, tick_s=TICK_PHILLY_S)
    parameters = Parameters(policy="berth", tick_s=TICK_PHILLY_S, replan_s=REPLAN_PHILLY_S)
    return Engine(jobs, world, parameters, seed=seed, clock=time.process_time)


def _philly_jobs(data: Path, world: World) -> list[TracedJob]:
    file = data / "philly" / "philly_jobs.csv"
    try:
        jobs, _ = TraceFile(file, "philly").read(ClusterFile(world))
    except (SimulationError, ValueError) as error:
        raise BenchError(f"{error}; --data names the folder that holds philly/.") from error
    from_s, until_s = FIRST_DAY * 86_400.0, (FIRST_DAY + DAYS) * 86_400.0
    cut = sorted(
        (each for each in jobs if from_s <= each.job.submitted_s < until_s),
        key=lambda each: (each.job.submitted_s, each.job.id),
    )[::EVERY_NTH]
    return [
        replace(each, job=replace(each.job, id=number, submitted_s=each.job.submitted_s - from_s))
        for number, each in enumerate(cut, start=1)
        if each.job.min_gpus <= PHILLY_GPUS // 2
    ]


def forecast_measure(
    *, workload: str, data: Path | None, seed: int, hours: float | None, learns: bool
) -> dict[str, Any]:
    """The scores by how far ahead. BenchError for what cannot be."""
    if hours is not None and hours <= 0:
        raise BenchError("--hours must be above 0.")
    limits_s: Mapping[int, float] = {}
    if workload == "philly":
        if data is None:
            raise BenchError("Give --data DIR, the folder that holds philly/.")
        engine, feed = philly_engine(data, seed=seed), None
        hours, every_s, step_s = hours or 24.0 * DAYS, 3600.0, TICK_PHILLY_S
    else:
        engine, feed = demo_engine(seed=seed, busy=workload == "busy"), DemoFeed(seed, busy=workload == "busy")
        hours, every_s, step_s = hours or 3.0, 60.0, float(PERIOD_S)
        limits_s = feed.limits_s
    told = Foretelling(
        engine,
        every_s=every_s,
        step_s=step_s,
        clock=time.process_time,
        feed=feed,
        learns=learns,
        limits_s=limits_s,
    )
    began_s = time.process_time()
    told.run(hours * 3600, most_s=4 * hours * 3600)
    return {
        "workload": workload,
        "seed": seed,
        "hours": hours,
        "learns": learns,
        "jobs": len(engine.simulated.loads),
        "forecasts": told.forecasts,
        "cpu_s_a_forecast": round(told.cpu_s / max(1, told.forecasts), 3),
        "cpu_s": round(time.process_time() - began_s, 1),
        "unsettled": sum(each.started_s is None for each in told.given),
        "ahead": {name: asdict(each) for name, each in told.scores().items()},
    }


def forecast_report(figures: dict[str, Any], *, as_json: bool) -> str:
    """Lines for people, or JSON."""
    if as_json:
        return json.dumps(figures)
    head = (
        f"{figures['workload']}, {figures['hours']:g} h: {figures['jobs']} jobs, {figures['forecasts']} forecasts of "
        f"{figures['cpu_s_a_forecast']:g} s of processor time"
    )
    lines = [head, "", "| ahead | ranges | held | median width, s | median wait, s | score over mean wait |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, each in figures["ahead"].items():
        lines.append(
            f"| {name} | {each['jobs']} | {each['coverage']:.2f} | {each['width_s']:.0f} | {each['wait_s']:.0f} | "
            f"{each['score_of_wait']:.2f} |"
        )
    return "\n".join(lines)
