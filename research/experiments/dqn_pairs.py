"""DqnGPU on pairs that were measured (Gavel's V100 table): trained on half of them, judged on all; and beyond the papers.

The table holds no telemetry: what jobs use is fitted to the known half (`scheduler.simulator.sharing.pairs`). Beside it the
policies, one job at a time, and what somebody who knows the whole table would do with at most a fifth of slowdown; on few jobs
every pairing is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.run.parallel import Task
from research.experiments.base import ExperimentError, Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from portal.pages.laboratory.run.parallel import Tell
    from research.experiments.base import Options
    from scheduler.simulator.sharing.pairs import PairWorld

POLICIES = ("sjf", "tetris", "res-ag", "cbp", "cbp-pp", "pair-table", "dqn")
SERVED = {
    "res-ag, 20 %": ("res-ag", 0.2, True),
    "cbp, 20 %": ("cbp", 0.2, True),
    "cbp-pp, 20 %": ("cbp-pp", 0.2, True),
    "res-ag, 20 %, all known": ("res-ag", 0.2, False),
    "cbp-pp, 20 %, all known": ("cbp-pp", 0.2, False),
}
"""As the service has them: told of the known half (or of all), they put nobody where it would be slowed by more."""
ACCEPTED = {f"cbp-pp, {limit:.0%}".replace("%", " %"): ("cbp-pp", limit, True) for limit in (0.05, 0.1, 0.2, 0.3, 0.5)}
TOLD = SERVED | ACCEPTED
"""By name: the policy, what it accepts, and whether it is told of half of the pairs alone."""
NAMES = {"sjf": "exclusive (SJF)", "pair-table": "whole pair table"}
HALF_SEED = TRAINING_SEED = 1
JOBS, FEW = 30, 8
PAPER_NOT_SLOWED = 20
EQUAL = {
    "gpu_util": "GPU use",
    "throughput": "throughput per GPU",
    "slowdown": "mean slowdown",
    "not_slowed": "not slowed of 30",
    "unknown_slowdown": "beside unknown",
    "worst_slowdown": "worst",
}
COLUMNS = (
    "policy",
    "total, s",
    "throughput per GPU",
    "not slowed of 30",
    "mean slowdown",
    "worst",
    "beside unknown",
    "out of memory",
    f"{FEW} jobs: over the best",
)

Figures = dict[str, float]


@lru_cache(maxsize=1)
def world_of(path: Path) -> PairWorld:
    """Return the table's jobs, half of the pairs known. Raises ExperimentError for a file that is no such table."""
    import numpy as np

    from scheduler.simulator.sharing.pairs import PairWorld, half_of, pairs_read
    from scheduler.simulator.sharing.training_runs import LAW

    try:
        with path.open(newline="", encoding="utf-8") as lines:
            speeds = pairs_read(lines)
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{path} cannot be read: {error}") from error
    return PairWorld.of(speeds, half_of(speeds, np.random.default_rng(HALF_SEED)), LAW)


@dataclass(frozen=True, slots=True)
class _Train:
    """The training on half of the pairs. Answers with the network's layers."""

    path: Path
    updates: int | None

    def __call__(self, tell: Tell) -> Any:
        from research.simulator.sharing.judging import train
        from scheduler.simulator.sharing.training_runs import Pairs

        return train(Pairs(world_of(self.path)), TRAINING_SEED, self.updates, tell)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One policy on one workload, large and small."""

    path: Path
    policy: str
    seed: int
    layers: Any = None

    def __call__(self, tell: Tell) -> Figures:
        from research.simulator.sharing.judging import Told, judged_on_pairs, optimum_s

        world = world_of(self.path)
        policy, limit, half = TOLD.get(self.policy, (self.policy, None, True))
        told = Told(limit, half) if self.policy in TOLD else None
        few, found = (judged_on_pairs(policy, world, self.seed, self.layers, count, told) for count in (FEW, JOBS))
        return found | {"over_best": few["total_s"] / optimum_s(world, self.seed, FEW)}


def measured(options: Options, updates: int | None) -> tuple[tuple[Table, Table], dict[str, Figures]]:
    """Return the tables (all policies; at equal use) and their figures. Raises ExperimentError where the public data are not."""
    path = options.folder("gavel") / "colocated_throughputs.csv"
    world_of(path)
    layers = options.run_all([Task("train dqn on pairs", _Train(path, updates))])[0]
    seeds = range(1, options.seeds + 1)
    names = [*dict.fromkeys((*POLICIES, *TOLD))]
    tasks = [
        Task(f"pairs, {policy}, seed {seed}", _Entry(path, policy, seed, layers if policy == "dqn" else None))
        for policy in names
        for seed in seeds
    ]
    answers = iter(options.run_all(tasks))
    found = {policy: _gathered([next(answers) for _ in seeds]) for policy in names}
    note = (
        f"{JOBS} jobs of Gavel's 26 on one V100, means of {options.seeds} seeds; worst: of all seeds. Throughput: work alone "
        "over time. Beside unknown: mean slowdown of jobs that met only neighbours beside whom they were not trained. "
        f"{FEW} jobs: seconds over those of the best pairing with nobody slowed by more than a fifth. 20 %: as served, told of "
        "the known half as measured (or of all), with `sharing_slowdown` at 0.2."
    )
    rows = [_row(each, found[each]) for each in (*POLICIES, *SERVED)]
    return (Table("Measured pairs, half of them known", COLUMNS, rows, note), _equal(found)), found


def _equal(found: Mapping[str, Figures]) -> Table:
    """Return DQN beside CBP+PP by what it accepts, and CBP+PP where it uses the GPU as much as DQN does."""
    names = [*ACCEPTED, "cbp-pp", "dqn"]
    rows = [(name, *(found[name][each] for each in EQUAL)) for name in names]
    use = found["dqn"]["gpu_util"]
    curve = sorted((found[name]["gpu_util"], *(found[name][each] for each in [*EQUAL][1:])) for name in ACCEPTED)
    below = [point for point in curve if point[0] <= use]
    above = [point for point in curve if point[0] > use]
    if below and above:
        part = (use - below[-1][0]) / (above[0][0] - below[-1][0])
        between = [low + part * (high - low) for low, high in zip(below[-1], above[0], strict=True)]
        rows.append(("cbp-pp, as much use as dqn", *between))
    note = "All told of the same half of the pairs. The last line lies on the straight line between the two next to it in use."
    return Table("At equal use of the GPU", ("policy", *EQUAL.values()), rows, note)


def _gathered(answers: Sequence[Mapping[str, float]]) -> Figures:
    """Means over the seeds, and the worst of all; slowdowns beside unknown neighbours by how many there were."""
    found = {name: fmean(answer[name] for answer in answers) for name in answers[0]}
    found["worst_slowdown"] = max(answer["worst_slowdown"] for answer in answers)
    met = sum(answer["unknown_jobs"] for answer in answers)
    if met:
        found["unknown_slowdown"] = sum(each["unknown_slowdown"] * each["unknown_jobs"] for each in answers) / met
    return found


def _row(policy: str, own: Figures) -> tuple[Any, ...]:
    return (
        NAMES.get(policy, policy),
        own["total_s"],
        own["throughput"],
        Figure(own["not_slowed"], PAPER_NOT_SLOWED if policy == "dqn" else None),
        own["slowdown"],
        own["worst_slowdown"],
        own["unknown_slowdown"] if own["unknown_jobs"] else None,
        own["oom"],
        own["over_best"],
    )
