"""Packing parts of GPUs on Alibaba's openb cluster, beside the published study (Weng et al., USENIX ATC '23, section 6).

1 213 nodes with 6 212 GPUs; three of the study's pod lists. Each packer gets the same arrivals and order of nodes (see
`scheduler.simulator.packing.protocol`); the study's randomness is its own, so ours are other draws from the same urn.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from portal.simulations.experiments.base import Experiment, Result, Table
from portal.simulations.parallel import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from portal.simulations.experiments.base import Options

NODES = "openb_node_list_gpu_node.csv"
LISTS = {"default": "as it was", "gpushare40": "40 % of GPU pods on parts", "multigpu20": "20 % on several GPUs"}
"""Those of the study's lists that are shown, and what they are."""

PACKERS = ("random", "dotproduct", "clustering", "packing", "bestfit", "fgd", "berth")
AT_PCT = (100, 130)
"""Of the capacity had arrived: the study's figures are those at 100 %; 130 % is the end."""

STUDY: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "default": {
        "random": (86.30, 87.47),
        "dotproduct": (90.62, 90.85),
        "clustering": (91.65, 91.88),
        "packing": (91.78, 92.00),
        "bestfit": (92.86, 93.08),
        "fgd": (95.23, 95.39),
    },
    "gpushare40": {
        "random": (84.86, 86.00),
        "dotproduct": (89.30, 89.56),
        "clustering": (89.76, 90.02),
        "packing": (89.77, 90.03),
        "bestfit": (91.44, 91.69),
        "fgd": (93.96, 94.15),
    },
    "multigpu20": {
        "random": (86.92, 88.69),
        "dotproduct": (91.85, 92.06),
        "clustering": (93.34, 93.56),
        "packing": (93.50, 93.71),
        "bestfit": (93.73, 93.93),
        "fgd": (95.53, 95.65),
    },
}
"""Allocated GPU, % of capacity, when 100 and 130 % of it had arrived: means of the study's ten seeds."""


@dataclass(frozen=True, slots=True)
class Packing:
    """One packer on one list with one seed, as a task for a process of its own."""

    folder: Path
    pods: str
    packer: str
    seed: int

    def __call__(self, tell: Callable[[float], None]) -> dict[str, Any]:
        from scheduler.simulator.packing.protocol import pack
        from scheduler.simulator.traces.openb import hosts, pods
        from scheduler.simulator.traces.source import Source

        with (self.folder / NODES).open(encoding="utf-8") as lines:
            nodes = list(hosts(NODES, lines))
        name = list_name(self.pods)
        with (self.folder / name).open(encoding="utf-8") as lines:
            demands = list(pods(Source(name, lines)))
        began_s = time.process_time()
        packed = pack(nodes, demands, self.packer, self.seed)
        spent_s = time.process_time() - began_s
        return {
            "allocated_pct": [packed.share_at(at) for at in AT_PCT],
            "bound_pct": packed.bound_pct,
            "refused_pct": 100 * packed.refused / packed.arrived,
            "solve_ms_a_pod": 1000 * spent_s / packed.arrived,
        }


def list_name(pods: str) -> str:
    return f"openb_pod_list_{pods}.csv"


def run(options: Options) -> Result:
    """A table a list that is there, the default list always."""
    folder = options.folder("openb")
    lists = [each for each in LISTS if each == "default" or (folder / list_name(each)).is_file()]
    lists = lists[:1] if options.quick else lists
    every = [
        Packing(folder, pods, packer, seed)
        for pods in lists
        for packer in PACKERS
        for seed in range(1, options.seeds + 1)
    ]
    answers = options.run_all([Task(f"{each.pods} {each.packer} {each.seed}", each) for each in every])
    found = {
        pods: {
            packer: _summary([a for e, a in zip(every, answers, strict=True) if (e.pods, e.packer) == (pods, packer)])
            for packer in PACKERS
        }
        for pods in lists
    }
    json = {"lists": found, "study_allocated_pct": {pods: STUDY[pods] for pods in lists}}
    return Result("openb", tuple(_table(pods, found[pods], options.seeds) for pods in lists), json)


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
    rows = []
    for packer, own in found.items():
        study = STUDY[pods].get(packer, (None, None))
        spread = own["allocated_pct_stdev"]
        rows.append(
            [
                packer,
                _pct(own["allocated_pct"][0]),
                _pct(spread),
                _pct(study[0]),
                _pct(own["allocated_pct"][1]),
                _pct(study[1]),
                _pct(own["bound_pct"]),
                own["refused_pct"],
                own["solve_ms_a_pod"],
            ]
        )
    columns = [
        "packer",
        "GPU allocated at 100 %",
        "std",
        "study's",
        "at 130 %",
        "study's",
        "at most",
        "pods refused, %",
        "CPU time a pod, ms",
    ]
    who = "One seed" if seeds == 1 else f"Means of {seeds} seeds"
    note = (
        f"{who}, per cent of the GPUs' capacity, when pods asking for 100 and 130 % of it have arrived. "
        "`at most`: had the accepted parts of GPUs stood together as well as can be (a linear program's bound)."
    )
    return Table(f"openb, pods {pods}: {LISTS[pods]}", columns, rows, note)


def _pct(value: float | None) -> str:
    """Two decimals, as the study gives them."""
    return "-" if value is None else f"{value:.2f}"


EXPERIMENT = Experiment("openb", "Packing parts of GPUs on Alibaba's openb cluster, beside the published packers", run)
