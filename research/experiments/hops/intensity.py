"""Hops 4.6 (Fig. 13): mean JCT by arrival rate. The paper shows curves and says that its advantage grows with density."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Experiment, Result
from research.experiments.hops.gpus_512 import QUICK, SETTING
from research.experiments.hops.setting import entrants, medians, runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from research.experiments.base import Options

RATES = (30, 60, 120, 300, 600, 1200)
QUICK_RATES = (60, 600)
POLICIES = ("berth", "hops", "sia-hops", "gavel-hops")


def run(options: Options) -> Result:
    """Return the mean JCT of each policy at each rate, and Sia's and Gavel's divided by Hops' and Berth's."""
    base, rates = (QUICK, QUICK_RATES) if options.quick else (SETTING, RATES)
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for rate in rates:
        of_seeds = runs(replace(base, per_hour=float(rate)), entrants(*POLICIES), options)
        found[str(rate)] = {name: medians(seeds) for name, seeds in of_seeds.items()}
        options.say(f"{rate} jobs an hour: done")
    pairs = [(rival, own) for own in ("berth", "hops") for rival in ("sia-hops", "gavel-hops")]
    rows = [
        [int(rate), *(_jct(of, name) for name in POLICIES), *(_over(_jct(of, r), _jct(of, own)) for r, own in pairs)]
        for rate, of in found.items()
    ]
    columns = ["jobs an hour", *(f"{name}, h" for name in POLICIES), *(f"{rival}/{own}" for rival, own in pairs)]
    note = f"Mean JCT in hours, medians of {options.seeds} seeds. The paper (Fig. 13) shows curves without figures."
    shown = Table("Hops 4.6: mean JCT by arrival rate", columns, rows, note)
    return Result("intensity", (shown,), {"rates": found})


def _jct(of_policies: Mapping[str, Mapping[str, float | None]], name: str) -> float | None:
    return of_policies[name]["mean_jct_h"]


def _over(rival: float | None, own: float | None) -> float | None:
    return rival / own if rival and own else None


EXPERIMENT = Experiment("intensity", "Hops 4.6: mean JCT as jobs arrive more densely", run)
