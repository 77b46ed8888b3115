"""Sia's contended workload (SOSP '23, 4 and Fig. 7): 400 jobs at 50 an hour on its 64 GPUs of three types, every policy.

A policy that sizes jobs gets them as Sia does, adaptive; one that takes a job's size as given gets them as Sia's paper gave
them to such schedulers, tuned by hand ("TunedJobs": the trace's GPUs and batch size). Two more tables run ours and Sia on the
tuned jobs too, and on jobs that keep their batch size and take fewer GPUs than tuned ("scale-gpus"), so that nothing
differs but the scheduler. `--trace` takes any workload of that form in place of the published one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Experiment, ExperimentError, Result
from research.experiments.clairvoyance import LEAST, NOTE, OVER, ROWS, Clairvoyance, over
from research.experiments.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from research.experiments.base import Options
    from scheduler.model import Node
    from scheduler.simulator.records import Run
    from scheduler.simulator.world.truth import TracedJob, World

TRACE = "workloads/scale/rate_50/workload-1.csv"
QUICK_JOBS = 40

SERVERS = (("t4", 6, 4, 48), ("rtx-2080ti", 3, 8, 40), ("a100", 2, 8, 128))
"""GPU type, servers, GPUs and cores of each: Sia's heterogeneous cluster of 64 GPUs (4.1). Cores bind nobody here."""

ADAPTIVE, TUNED, SCALED = "adaptive", "tuned", "scale-gpus"
FORMS = {ADAPTIVE: "adaptive", TUNED: "rigid", SCALED: "scale-gpus"}
"""As the trace's format calls them."""

SIZING = ("berth", "hops", "sia", "sia-hops", "gavel-hops")
"""Policies that choose a job's size; `gavel-hops` its median, as Hops ran it."""

RIGID = ("fifo", "drf", "coda", "gavel", "sjf", "tetris")
COLUMNS = {
    "mean_jct_h": "mean JCT, h",
    "median_jct_h": "median",
    "p99_jct_h": "p99",
    "makespan_h": "makespan, h",
    "mean_wait_h": "mean wait, h",
    "mean_lr": "mean LR",
    "max_lr": "max LR",
    "max_ftf": "max FTF rho",
    "fragments_per_round": "fragments",
    "gpu_active_rate": "active",
    "gpu_h": "GPU-h",
    "restarts_a_job": "restarts a job",
    "solve_round_mean_ms": "round, ms",
    "solve_round_p95_ms": "p95, ms",
}

SIA_ROUND_MS = 15.6
"""A round of Sia's own simulator with 64 GPUs, measured on a machine of this size (512 GPUs: 55, p95 92)."""


@dataclass(frozen=True, slots=True)
class Entrant:
    policy: str
    jobs: str

    def scenario(self, folder: Path, trace: Path, count: int | None, seed: int) -> Scenario:
        from scheduler.simulator.rivals import parameters_for

        prepare = partial(prepared, folder, trace, self.jobs, count)
        return Scenario(prepare, parameters_for(self.policy), seed, digest, clock=time.process_time)


def servers() -> list[Node]:
    """Return the cluster; its servers share a file system."""
    from scheduler.model import Node

    every = [(kind, gpus, cores) for kind, count, gpus, cores in SERVERS for _ in range(count)]
    return [
        Node(number, f"{kind}-{number}", kind, gpus, cores_total=cores, memory_total_mib=262_144)
        for number, (kind, gpus, cores) in enumerate(every, start=1)
    ]


def prepared(folder: Path, trace: Path, jobs: str, count: int | None, seed: int) -> tuple[Sequence[TracedJob], World]:
    """Return the first `count` jobs (None: all) and the cluster; `folder` has the profiles. Nothing is drawn at random."""
    from scheduler.simulator.traces.sia import FORMAT
    from scheduler.simulator.traces.source import Source
    from scheduler.simulator.world.truth import World

    def companion(name: str) -> list[str] | None:
        file = folder / "profiles" / name
        return file.read_text(encoding="utf-8").splitlines() if file.is_file() else None

    with trace.open(encoding="utf-8") as lines:
        found = list(islice(FORMAT.read(Source(trace.name, lines, companion), {"jobs": FORMS[jobs]}), count))
    return found, World(servers())


def digest(run: Run) -> dict[str, Any]:
    """Return the report's figures, and those of a round: of re-plans, or of all plannings for a policy without re-plans."""
    from scheduler.simulator.report import figures, mean, quantile

    found = figures(run)
    rounds = [each.solve_s for each in run.plannings if each.replan] or [each.solve_s for each in run.plannings]
    average_s, high_s = mean(rounds), quantile(rounds, 0.95)
    return found | {
        "restarts_a_job": found["restarts"] / max(1, found["jobs"]),
        "solve_round_mean_ms": None if average_s is None else average_s * 1000,
        "solve_round_p95_ms": None if high_s is None else high_s * 1000,
    }


def entrants() -> dict[str, list[Entrant]]:
    """Return the known policies by table: each with the jobs it is made for; then those that size jobs, with others' jobs."""
    from scheduler.policies.registry import POLICIES
    from scheduler.simulator.rivals import RIVALS

    known = POLICIES.keys() | RIVALS.keys()
    own = [Entrant(name, ADAPTIVE) for name in SIZING if name in known]
    own += [Entrant(name, TUNED) for name in RIGID if name in known]
    alike = {jobs: [Entrant(name, jobs) for name in SIZING[:3] if name in known] for jobs in (TUNED, SCALED)}
    return {ADAPTIVE: own, **alike}


def run(options: Options) -> Result:
    """Compare all known policies on the same jobs. ExperimentError for several seeds: nothing is drawn at random."""
    if options.seeds != 1:
        raise ExperimentError("This experiment replays one trace and draws nothing at random: leave --seeds out.")
    folder = options.folder("sia")
    trace = options.trace or folder / TRACE
    if not trace.is_file():
        raise ExperimentError(f"There is no {trace}: name the workload with --trace F.")
    who = entrants()
    answers, bounds = _played(options, folder, trace, who)
    tables = tuple(
        _table(title, who[form], answers[form], bounds, _note(options) if form == ADAPTIVE else "")
        for form, title in _titles(options, trace).items()
    )
    by_policy = {
        form: {each.policy: figures for each, figures in zip(who[form], answers[form], strict=True)} for form in who
    }
    json = {
        "trace": trace.name,
        "policies": by_policy[ADAPTIVE],
        "tuned": by_policy[TUNED],
        "scale_gpus": by_policy[SCALED],
        "clairvoyant": bounds,
        "jobs": {each.policy: each.jobs for each in who[ADAPTIVE]},
        "sia_simulator_round_ms": SIA_ROUND_MS,
    }
    return Result("sia", tables, json)


def _played(
    options: Options, folder: Path, trace: Path, who: Mapping[str, Sequence[Entrant]]
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, dict[str, dict[str, Any]]]]:
    """Simulate all. Return the answers by the jobs' form, and those of the clairvoyant schedules by form and row."""
    count = QUICK_JOBS if options.quick else None
    tasks = [each.scenario(folder, trace, count, 1).task() for own in who.values() for each in own]
    tasks += [
        Clairvoyance(partial(prepared, folder, trace, form, count), 1, row).task() for form in who for row in ROWS
    ]
    answers = iter(options.run_all(tasks))
    found = {form: [next(answers) for _ in own] for form, own in who.items()}
    return found, {form: {row: next(answers) for row in ROWS} for form in who}


def _titles(options: Options, trace: Path) -> dict[str, str]:
    what = "Sia's contended workload" if options.trace is None else f"{trace.name} in Sia's form"
    return {
        ADAPTIVE: f"{what}, 64 GPUs: each policy with the jobs it is made for",
        TUNED: "The same with jobs as tuned by hand alone",
        SCALED: "The same with jobs that keep their batch size on fewer GPUs",
    }


def _note(options: Options) -> str:
    note = (
        "`round`: CPU time of a planning at a round's start (without rounds: of any). "
        f"Sia's own simulator takes {SIA_ROUND_MS} ms for a round with 64 GPUs."
    )
    return note + (f" Quick: the first {QUICK_JOBS} jobs alone." if options.quick else "")


def _table(
    title: str,
    who: Sequence[Entrant],
    answers: Sequence[dict[str, Any]],
    bounds: Mapping[str, Mapping[str, dict[str, Any]]],
    note: str,
) -> Table:
    """Return the entrants' rows, and the clairvoyant schedules' rows for each form of job among them."""
    every = [(each.policy, each.jobs, figures) for each, figures in zip(who, answers, strict=True)]
    every += [(row, jobs, bounds[jobs][row]) for jobs in dict.fromkeys(each.jobs for each in who) for row in ROWS]
    rows = [
        [name, jobs, *(figures.get(key) for key in COLUMNS), over(figures, bounds[jobs][LEAST])]
        for name, jobs, figures in every
    ]
    return Table(title, ["policy", "jobs", *COLUMNS.values(), OVER], rows, f"{note} {NOTE}".strip())


EXPERIMENT = Experiment(
    "sia",
    "Sia's contended workload (50 jobs an hour) on its 64 GPUs of three types, every policy",
    run,
    takes=frozenset({"trace"}),
)
