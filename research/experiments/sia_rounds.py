"""Berth and Sia by the rules of Sia's published simulator, written anew: 64 GPUs, rounds of 60 s.

The rules are in `research.simulator.sia_rounds`. Both are told the same speeds: the truth of the moment (`known`), or what
each job's own measurements tell (`learned`). `--trace` takes any workload of that form in place of the first philly one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.run.parallel import Task
from research.experiments.base import Experiment, ExperimentError, Result
from research.experiments.sia import COLUMNS as SIA_COLUMNS
from research.experiments.sia import servers

if TYPE_CHECKING:
    from pathlib import Path

    from portal.pages.laboratory.run.parallel import Tell
    from research.experiments.base import Options

TRACE = "workloads/philly/workload-1.csv"
QUICK_JOBS = 12
KNOWN, LEARNED = "known", "learned"
POLICIES = ("sia", "berth")

SHARED = (
    "mean_jct_h",
    "median_jct_h",
    "p99_jct_h",
    "makespan_h",
    "mean_wait_h",
    "mean_lr",
    "max_lr",
    "restarts_a_job",
    "gpu_h",
)
COLUMNS = {key: SIA_COLUMNS[key] for key in SHARED} | {"cpu_wall_s": "CPU, s"}

NOTE = (
    "The rules are those of Sia's published simulator, written anew. LR: waiting over eq. 9 with "
    "the true speeds of the beginning, for both alike. CPU: seconds for the whole simulation."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One simulation. Picklable."""

    folder: Path
    trace: Path
    count: int | None
    policy: str
    speeds: str

    def __call__(self, tell: Tell) -> dict[str, Any]:
        from research.simulator.sia_rounds.berth import BerthRounds
        from research.simulator.sia_rounds.learned import Learned
        from research.simulator.sia_rounds.report import figures
        from research.simulator.sia_rounds.rounds import simulate
        from research.simulator.sia_rounds.sia import SiaRounds
        from research.simulator.sia_rounds.speeds import Known, Places
        from scheduler.parameters import Parameters

        began_s, jobs, nodes = time.process_time(), self.jobs(), servers()
        places = Places(nodes)
        speeds = Known(places) if self.speeds == KNOWN else Learned(places)
        sia = self.policy == "sia"
        decider = SiaRounds(places, speeds) if sia else BerthRounds(nodes, places, speeds, Parameters())
        simulate(jobs, places, speeds, decider, progress=tell)
        return figures(jobs, places) | {"cpu_wall_s": time.process_time() - began_s}

    def jobs(self) -> list[Any]:
        from research.simulator.sia_rounds.reading import read_jobs
        from scheduler.simulator.traces.source import Source

        def companion(name: str) -> list[str] | None:
            file = self.folder / "profiles" / name
            return file.read_text(encoding="utf-8").splitlines() if file.is_file() else None

        with self.trace.open(encoding="utf-8") as lines:
            return read_jobs(Source(self.trace.name, lines, companion))[: self.count]


def run(options: Options) -> Result:
    """Simulate both policies with both kinds of speeds. `options.data`: the folder that holds sia/."""
    if options.seeds != 1:
        raise ExperimentError("Nothing here is drawn at random: leave --seeds out.")
    folder = options.folder("sia")
    trace = options.trace or folder / TRACE
    if not trace.is_file():
        raise ExperimentError(f"There is no {trace}: name the workload with --trace F.")
    count = QUICK_JOBS if options.quick else None
    entries = [Entry(folder, trace, count, policy, speeds) for speeds in (KNOWN, LEARNED) for policy in POLICIES]
    answers = options.run_all([Task(f"{each.policy}, {each.speeds}", each) for each in entries])
    rows = [
        [each.speeds, each.policy, *(found[key] for key in COLUMNS)]
        for each, found in zip(entries, answers, strict=True)
    ]
    note = NOTE + (f" Quick: the first {QUICK_JOBS} jobs alone." if options.quick else "")
    table = Table(
        f"{trace.stem} on Sia's 64 GPUs, by its simulator's rules", ["speeds", "policy", *COLUMNS.values()], rows, note
    )
    json: dict[str, Any] = {"trace": trace.name, KNOWN: {}, LEARNED: {}}
    for each, found in zip(entries, answers, strict=True):
        json[each.speeds][each.policy] = found
    return Result("sia-rounds", (table,), json)


EXPERIMENT = Experiment(
    "sia-rounds",
    "Berth and Sia by the rules of Sia's published simulator, speeds known and learned",
    run,
    takes=frozenset({"trace"}),
)
