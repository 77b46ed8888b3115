"""Packing parts of GPUs on Alibaba's openb cluster, beside the published study (Weng et al., USENIX ATC '23, section 6).

1 213 nodes with 6 212 GPUs; the pod lists that stand in the folder, or any others (`--list`). Each packer gets the same
arrivals and order of nodes (see `research.simulator.packing.protocol`); the study's randomness is its own, so ours are other
draws from the same urn.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.run.parallel import Task
from research.experiments.base import Experiment, ExperimentError, Result
from research.experiments.openb_study import study_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from research.experiments.base import Options

NODES = "openb_node_list_gpu_node.csv"
DEFAULT, BEFORE, AFTER = "default", "openb_pod_list_", ".csv"
"""The list as it was; and what a list's file is called around its name."""

PACKERS = ("random", "dotproduct", "clustering", "packing", "bestfit", "fgd", "berth")
AT_PCT = (100, 130)
"""Of the capacity had arrived: the study's figures are those at 100 %; 130 % is the end."""

COLUMNS = (
    "packer",
    "GPU allocated at 100 %",
    "std",
    "study's",
    "at 130 %",
    "study's",
    "at most",
    "pods refused, %",
    "CPU time a pod, ms",
)


@dataclass(frozen=True, slots=True)
class Packing:
    """One packer on one list with one seed, as a task for a process of its own."""

    nodes: Path
    pods: Path
    packer: str
    seed: int

    def __call__(self, tell: Callable[[float], None]) -> dict[str, Any]:
        from research.simulator.packing.openb import hosts, pods
        from research.simulator.packing.protocol import pack
        from scheduler.simulator.traces.source import Source

        with self.nodes.open(encoding="utf-8") as lines:
            nodes = list(hosts(self.nodes.name, lines))
        with self.pods.open(encoding="utf-8") as lines:
            demands = list(pods(Source(self.pods.name, lines)))
        began_s = time.process_time()
        try:
            packed = pack(nodes, demands, self.packer, self.seed)
        except ValueError as error:
            raise ExperimentError(f"{self.pods}: {error}.") from error
        spent_s = time.process_time() - began_s
        return {
            "allocated_pct": [packed.share_at(at) for at in AT_PCT],
            "bound_pct": packed.bound_pct,
            "refused_pct": 100 * packed.refused / packed.arrived,
            "solve_ms_a_pod": 1000 * spent_s / packed.arrived,
        }


def lists_of(folder: Path, options: Options) -> dict[str, Path]:
    """Return the lists to pack, by name: those asked for, else those in the folder (quick: only the default one).

    ExperimentError where there is none, or two have the same name.
    """
    if options.lists:
        names = [file.stem.removeprefix(BEFORE) for file in options.lists]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ExperimentError(f"--list: two lists are called {twice[0]}; call them something else.")
        return dict(zip(names, options.lists, strict=True))
    found = {file.stem.removeprefix(BEFORE): file for file in sorted(folder.glob(f"{BEFORE}*{AFTER}"))}
    if options.quick:
        found = {name: file for name, file in found.items() if name == DEFAULT}
    if not found:
        wanted = BEFORE + (DEFAULT if options.quick else "*") + AFTER
        raise ExperimentError(f"{folder} holds no {wanted}: name the lists with --list F.")
    return found


def run(options: Options) -> Result:
    """Return a table for each list."""
    folder = options.folder("openb")
    if not (folder / NODES).is_file():
        raise ExperimentError(f"{folder} holds no {NODES}, the nodes to pack on.")
    lists = lists_of(folder, options)
    every = [
        Packing(folder / NODES, pods, packer, seed)
        for pods in lists.values()
        for packer in PACKERS
        for seed in range(1, options.seeds + 1)
    ]
    answers = options.run_all([Task(f"{each.pods.stem} {each.packer} {each.seed}", each) for each in every])
    found = {
        name: {
            packer: _summary([a for e, a in zip(every, answers, strict=True) if (e.pods, e.packer) == (pods, packer)])
            for packer in PACKERS
        }
        for name, pods in lists.items()
    }
    json = {"lists": found, "study_allocated_pct": {name: study_of(name) for name in lists}}
    return Result("openb", tuple(_table(name, found[name], options.seeds) for name in lists), json)


def _summary(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    at_full = [each["allocated_pct"][0] for each in seeds]
    return {
        "allocated_pct": [mean(each["allocated_pct"][n] for each in seeds) for n in range(len(AT_PCT))],
        "allocated_pct_stdev": stdev(at_full) if len(at_full) > 1 else None,
        "bound_pct": mean(each["bound_pct"] for each in seeds),
        "refused_pct": mean(each["refused_pct"] for each in seeds),
        "solve_ms_a_pod": mean(each["solve_ms_a_pod"] for each in seeds),
    }


def _table(pods: str, found: Mapping[str, Mapping[str, Any]], seeds: int) -> Table:
    rows = [_row(packer, own, study_of(pods).get(packer, (None, None))) for packer, own in found.items()]
    who = "One seed" if seeds == 1 else f"Means of {seeds} seeds"
    note = (
        f"{who}, per cent of the GPUs' capacity, when pods asking for 100 and 130 % of it have arrived. "
        "`at most`: had the accepted parts of GPUs stood together as well as can be (a linear program's bound)."
    )
    return Table(f"openb, pods {pods}", COLUMNS, rows, note)


def _row(packer: str, own: Mapping[str, Any], study: Sequence[float | None]) -> list[object]:
    """Return a packer's cells by `COLUMNS`. `study`: its published figures at 100 and 130 %, None when not published."""
    return [
        packer,
        _pct(own["allocated_pct"][0]),
        _pct(own["allocated_pct_stdev"]),
        _pct(study[0]),
        _pct(own["allocated_pct"][1]),
        _pct(study[1]),
        _pct(own["bound_pct"]),
        own["refused_pct"],
        own["solve_ms_a_pod"],
    ]


def _pct(value: float | None) -> str:
    """Return a figure with two decimals, as the study gives them."""
    return "-" if value is None else f"{value:.2f}"


EXPERIMENT = Experiment(
    "openb",
    "Packing parts of GPUs on Alibaba's openb cluster, beside the published packers",
    run,
    takes=frozenset({"lists"}),
)
