"""CODA's cluster with more GPU jobs than it can do: which GPUs are active while jobs queue, and why the others are not.

With the month's own load (`coda`) hardly anybody waits under CODA and Berth, so that the rate while jobs queue says nothing
of them. Here the same frozen workload has `LOAD` times the GPU jobs: with tuned cores the month needs 54 % of the GPUs,
twice that is more than there are, and jobs must queue under every policy. The paper has no such run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.pages.laboratory.output.tables import Table
from research.experiments import coda
from research.experiments.base import Experiment, Result

if TYPE_CHECKING:
    from research.experiments.base import Options

POLICIES = coda.POLICIES
LOAD = 2.0
"""Times the month's GPU jobs: the least whole number at which they need more GPUs than there are. Not set on a result."""
DAYS, WARM_DAYS = 2.0, 1.0
QUICK_DAYS, QUICK_WARM_DAYS = 0.4, 0.2

COLUMNS = {
    "gpu_active_rate_while_queued": "active while queued",
    "queued_share": "time queued",
    "fragmentation": "idle for want of cores",
    "fragment_rate_while_queued": "fragments (section 10)",
    "gpu_jobs_over_10_min": "GPU jobs > 10 min",
    "cpu_jobs_within_3_min": "CPU jobs <= 3 min",
    "gpu_utilisation": "utilisation",
}


def run(options: Options) -> Result:
    """Compare all four policies."""
    days, warm_days = (QUICK_DAYS, QUICK_WARM_DAYS) if options.quick else (DAYS, WARM_DAYS)
    found = coda.simulate(options, POLICIES, days, warm_days, load=LOAD)
    for each in (run for runs in found.values() for run in runs):
        del each[coda.JOBS]
    medians = {policy: coda.medians_of(each) for policy, each in found.items()}
    rows = [(policy, *(own[key] for key in COLUMNS)) for policy, own in medians.items()]
    note = (
        f"{days - warm_days:g} days measured after {warm_days:g} to fill the cluster, medians of {options.seeds} seeds. Parts of "
        f"the GPUs are means over the time in which GPU jobs queue. {coda.TUNES}"
    )
    table = Table(f"CODA's cluster, {LOAD:g} times the GPU jobs", ("policy", *COLUMNS.values()), rows, note)
    return Result(
        "coda-pressed",
        (table,),
        {
            "days": days,
            "warm_days": warm_days,
            "load": LOAD,
            "seeds": options.seeds,
            "policies": medians,
            "runs": found,
        },
    )


EXPERIMENT = Experiment(
    "coda-pressed", "CODA's cluster with twice the GPU jobs: what idles while jobs queue (CODA VI-B)", run
)
