"""Hops 4.5 and 4.4: what the queue's priority does to starvation, and finish-time fairness, on hops-512's workload.

Fig. 13: the scheduler stays Hops, the priority alone changes. Fig. 12 (right): with finish-time fairness as the priority
and lambda = 2 the largest rho, against Sia and Gavel as Hops ran them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from research.experiments.base import Experiment, Result
from research.experiments.hops.gpus_512 import QUICK, SETTING
from research.experiments.hops.setting import Entrant, entrants, medians, runs, table

if TYPE_CHECKING:
    from research.experiments.base import Options

PRIORITIES = ("lrf", "las", "sjf", "srtf", "fifo")
FTF = (("priority", "ftf"), ("lambda", 2.0))
SHOWN = ("max_lr", "mean_lr", "p99_jct_h", "mean_jct_h", "mean_wait_h", "makespan_h")
SHOWN_FTF = ("max_ftf", "mean_jct_h", "makespan_h", "max_lr")

PAPER = {"lrf": {"max_lr": 3.0}, "las": {"max_lr": 80.0}, "sjf": {"max_lr": 80.0}, "srtf": {"max_lr": 80.0}}
"""4.5: "many jobs wait more than 80 times", "a maximum job latency ratio of 3"; read off the text, not off a table."""

PAPER_FTF = {"hops": {"max_ftf": 2.15}, "sia-hops": {"max_ftf": 28.27}, "gavel-hops": {"max_ftf": 32.01}}


def run(options: Options) -> Result:
    """Return both figures."""
    setting = QUICK if options.quick else SETTING
    of_priorities = runs(setting, [Entrant(name, "hops", (("priority", name),)) for name in PRIORITIES], options)
    fair = (Entrant("berth", "berth", FTF), Entrant("hops", "hops", FTF), *entrants("sia-hops", "gavel-hops"))
    of_fair = runs(setting, fair, options)
    queue = {name: medians(seeds) for name, seeds in of_priorities.items()}
    share = {name: medians(seeds) for name, seeds in of_fair.items()}
    note = f"Medians of {options.seeds} seeds; in brackets the paper's and ours over the paper's." + (
        " Quick: a smaller instance, so the paper's figures do not apply." if options.quick else ""
    )
    tables = (
        table("Hops Fig. 13: the priority alone", queue, {} if options.quick else PAPER, keys=SHOWN, note=note),
        table(
            "Hops Fig. 12: priority ftf, lambda 2",
            share,
            {} if options.quick else PAPER_FTF,
            keys=SHOWN_FTF,
            note=note,
        ),
    )
    return Result("priorities", tables, {"policies": queue, "ftf": share, "paper": PAPER, "paper_ftf": PAPER_FTF})


EXPERIMENT = Experiment("priorities", "Hops' Fig. 12 and 13: queue priorities, and finish-time fairness", run)
