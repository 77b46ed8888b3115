"""Simulating: runs the engine and tells how far it has come; the command runs several policies beside each other."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.limits import asked_check
from portal.pages.laboratory.run.parallel import Task, run_tasks
from scheduler.parameters import PARAMETERS
from scheduler.simulator.world.truth import SimulationError as EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from portal.pages.laboratory.run.parallel import Tell, Watch
    from portal.pages.laboratory.sources.clusters import ClusterFile
    from portal.pages.laboratory.sources.generators import GeneratedJobs
    from portal.pages.laboratory.sources.traces import TraceFile
    from scheduler.parameters import Parameters
    from scheduler.simulator.records import Run
    from scheduler.simulator.world.truth import TracedJob, World


def simulated(
    jobs: Sequence[TracedJob],
    world: World,
    parameters: Parameters,
    *,
    seed: int,
    tell: Tell,
    until_s: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Run:
    """Return the engine's run; tell on the way what fraction is done: of the jobs, or of the time until the cut."""
    from scheduler.simulator.engine import simulate

    def progress(now_s: float, ended: int) -> None:
        done = ended / max(1, len(jobs))
        tell(min(1.0, done if until_s is None else max(done, now_s / until_s)))

    return simulate(jobs, world, parameters, seed=seed, clock=clock, progress=progress, until_s=until_s)


def policy_simulated(
    jobs: Sequence[TracedJob],
    names: Mapping[int, str],
    world: World,
    parameters: Parameters,
    *,
    seed: int,
    tell: Tell,
    until_h: float | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures, in which tenants have their `names`, and the curves of one policy."""
    from scheduler.simulator.report import curves, figures

    until_s = None if until_h is None else until_h * 3600.0
    run = simulated(jobs, world, parameters, seed=seed, tell=tell, until_s=until_s)
    found = figures(run)
    found["tenants"] = {names.get(int(number), number): own for number, own in found["tenants"].items()}
    return found, curves(run)


@dataclass(frozen=True, slots=True)
class Request:
    """A request: one trace on one cluster, under each of the policies. `until_h`: cut off then.

    `trace` can be pickled: each process reads the jobs for itself.
    """

    trace: TraceFile | GeneratedJobs
    cluster: ClusterFile
    policies: tuple[str, ...]
    seed: int = 1
    knobs: Mapping[str, Any] = field(default_factory=dict)
    until_h: float | None = None

    def check(self) -> dict[str, Parameters]:
        """Return the knobs for each policy. SimulationError names the wrong field."""
        self.trace.check()
        return asked_check(policies=self.policies, seed=self.seed, until_h=self.until_h, knobs=self.knobs)


def simulation_run(*, request: Request, processes: int = 1, watch: Watch | None = None) -> dict[str, Any]:
    """Simulate the trace under each policy, beside each other; nothing is stored.

    Answers `{"trace", "format", "gpus", "seed", "knobs", "until_h", "policies": {name: figures}, "curves": {name: curves}}`,
    the same for the same request but for the figures named `solve_*`. `watch`: see `run_tasks`; it shows the progress,
    and raises to cancel. Raises SimulationError or TraceError.
    """
    parameters = request.check()
    tasks = [Task(name, _OnePolicy(request, own)) for name, own in parameters.items()]
    try:
        answers = run_tasks(tasks, processes=processes, watch=watch)
    except EngineError as error:
        raise SimulationError("trace", str(error)) from error
    return {
        "trace": request.trace.name,
        "format": request.trace.form,
        "gpus": sum(node.gpus_total for node in request.cluster.world.nodes),
        "seed": request.seed,
        "knobs": dict(request.knobs),
        "until_h": request.until_h,
        "policies": {name: figures for name, (figures, _) in zip(parameters, answers, strict=True)},
        "curves": {name: curves for name, (_, curves) in zip(parameters, answers, strict=True)},
    }


@dataclass(frozen=True, slots=True)
class _OnePolicy:
    """The work of one process."""

    request: Request
    parameters: Parameters

    def __call__(self, tell: Tell) -> tuple[dict[str, Any], dict[str, Any]]:
        asked = self.request
        jobs, names = asked.trace.read(asked.cluster)
        world, until_h = asked.cluster.world, asked.until_h
        return policy_simulated(jobs, names, world, self.parameters, seed=asked.seed, tell=tell, until_h=until_h)


def knobs_parse(*, given: Sequence[str]) -> dict[str, Any]:
    """Return `name=value` texts as values of the knobs' kinds. An empty value means "by itself" for knobs that have it."""
    known = {each.name: each for each in PARAMETERS if each.name != "policy"}
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        knob = known.get(name)
        if knob is None or not equals:
            raise SimulationError("knob", f"{text!r} is not name=value with a name of {', '.join(known)}")
        try:
            found[name] = knob.check(value if knob.choices else (float(value) if value.strip() else None))
        except ValueError as error:
            raise SimulationError("knob", f"{text!r}: {error}") from error
    return found
