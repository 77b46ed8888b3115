"""Simulating: the one service that the command, and later the laboratory's task, call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.limits import asked_check
from portal.pages.laboratory.run.parallel import Task, run_tasks
from portal.pages.laboratory.run.scenario import simulated
from scheduler.parameters import PARAMETERS
from scheduler.simulator.world.truth import SimulationError as EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.pages.laboratory.run.parallel import Tell, Watch
    from portal.pages.laboratory.sources.clusters import ClusterFile
    from scheduler.parameters import Parameters
    from scheduler.simulator.world.truth import TracedJob


class Source(Protocol):
    """Where jobs come from, for example a `TraceFile`. It can be pickled; each process reads the jobs for itself."""

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> str:
        """Return the trace's format, or the name of the generator."""
        ...

    def check(self) -> None:
        """Raise SimulationError when it is clear that it cannot be read."""
        ...

    def read(self, cluster: ClusterFile) -> tuple[list[TracedJob], dict[int, str]]:
        """Return the jobs in order of arrival, and the tenants' names by number. Raises SimulationError, TraceError."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """A request: one trace on one cluster, under each of the policies. `until_h`: cut off then."""

    trace: Source
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
        from scheduler.simulator.report import curves, figures

        asked = self.request
        jobs, names = asked.trace.read(asked.cluster)
        until_s = None if asked.until_h is None else asked.until_h * 3600.0
        run = simulated(jobs, asked.cluster.world, self.parameters, seed=asked.seed, tell=tell, until_s=until_s)
        found = figures(run)
        found["tenants"] = {names.get(int(number), number): own for number, own in found["tenants"].items()}
        return found, curves(run)


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
