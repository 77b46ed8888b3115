"""Engine validity: Shockwave's 120 jobs on 32 V100 in rounds of 120 s, by the rules of the simulator that published them.

Our engine and planning run an adapter of that simulator's max-min fairness (`research.simulator.validity`, which says what
had to be matched); makespan and mean JCT must come within 1 % of the published ones. Below it, for the eye, the same jobs
on the same GPUs under our own Gavel and the plain FIFO, in rounds of 120 s, with that simulator's restart cost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.run.parallel import Task
from research.experiments.base import Experiment, ExperimentError, Figure, Result
from scheduler.simulator.traces.registry import FORMATS
from scheduler.simulator.traces.source import Source, TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from portal.pages.laboratory.run.parallel import Tell
    from research.experiments.base import Options
    from scheduler.simulator.world.truth import TracedJob

TRACE, THROUGHPUTS = "120_multigpu_dynamic.trace", "tacc_throughputs.json"
GPUS, GPU_TYPE = 32, "v100"
WITHIN = 0.01
BESIDE = ("gavel", "fifo")


def jobs_of(folder: Path) -> list[TracedJob]:
    """Return the trace's jobs, whose batch sizes grow. Raises ExperimentError naming the file that cannot be read."""

    def companion(name: str) -> Iterable[str] | None:
        path = folder / name
        return path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else None

    lines = companion(TRACE)
    if lines is None:
        raise ExperimentError(f"{folder} holds no {TRACE}.")
    options = {"batch_sizes": "dynamic", "reference": GPU_TYPE, "throughputs": THROUGHPUTS}
    try:
        return list(FORMATS["shockwave"].read(Source(TRACE, lines, companion), options))
    except TraceError as error:
        raise ExperimentError(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Entry:
    """One simulation. Picklable; `policy` None = as published."""

    folder: Path
    policy: str | None

    def __call__(self, tell: Tell) -> dict[str, Any]:
        from research.simulator import validity  # numpy and the solver are the process's own to load

        jobs = jobs_of(self.folder)

        def progress(_: float, ended: int) -> None:
            tell(ended / len(jobs))

        began_s = time.process_time()
        if self.policy is None:
            run = validity.simulate_as_published(jobs, GPUS, GPU_TYPE, clock=time.perf_counter, progress=progress)
        else:
            run = validity.simulate_beside(
                jobs, GPUS, GPU_TYPE, self.policy, clock=time.perf_counter, progress=progress
            )
        restarts = sum(each.restarts for each in run.jobs)
        return {
            **validity.figures(run),
            "restarts": restarts,
            "jobs": len(jobs),
            "cpu_wall_s": time.process_time() - began_s,
        }


def run(options: Options) -> Result:
    """Compare the adapter's run with the others'. `options.data`: the folder that holds shockwave/."""
    from research.simulator.validity import PUBLISHED

    folder = options.folder("shockwave")
    tasks = [Task("as published", _Entry(folder, None)), *(Task(name, _Entry(folder, name)) for name in BESIDE)]
    ours, *others = options.run_all(tasks)
    rows = [(name, Figure(ours[name], PUBLISHED[name]), _off(ours[name], PUBLISHED[name])) for name in PUBLISHED]
    verdict = all(abs(ours[name] / published - 1) <= WITHIN for name, published in PUBLISHED.items())
    note = (
        f"{ours['jobs']} jobs, {GPUS} V100 as one server, rounds of 120 s, {ours['restarts']} restarts; in brackets what was "
        f"published and ours over it. Within {WITHIN:.0%}: {'yes' if verdict else 'NO'}. What had to be matched: "
        "research/simulator/validity.py."
    )
    beside = Table(
        "The same jobs under other rules",
        ("policy", "makespan, s", "mean JCT, s", "restarts"),
        [
            (name, each["makespan_s"], each["mean_jct_s"], each["restarts"])
            for name, each in zip(BESIDE, others, strict=True)
        ],
        "No figures were published for these: our `gavel` plans afresh in every round and lets nobody wait for a reset.",
    )
    shown = Table("Max-min fairness as Shockwave's simulator ran it", ("figure", "seconds", "off, %"), rows, note)
    found = {"ours": ours, "published": PUBLISHED, "within": verdict, "beside": dict(zip(BESIDE, others, strict=True))}
    return Result("validity", (shown, beside), found)


def _off(ours: float, published: float) -> float:
    return 100 * (ours / published - 1)


EXPERIMENT = Experiment("validity", "the engine against a published simulator: Shockwave's 120 jobs on 32 V100", run)
