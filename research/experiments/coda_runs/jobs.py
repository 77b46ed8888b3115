"""Experiment `coda`, job by job: the data of CODA's Figures 12 to 14 (VI-C, VI-D), from the runs of `coda`.

- Figure 12: the 99th percentile of each user's queueing time. A user of the paper is a tenant here.
- Figure 13: queueing and processing of single GPU jobs. Ours are the first job of each model in the measured window.
- Figure 14: the cores a GPU that a job has in the end, against what its owner asked: GPU jobs that completed.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table
from research.experiments.base import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.simulator.records import Run
    from scheduler.simulator.world.truth import TracedJob

UP, DOWN = 0.571, 0.336
"""Figure 14: GPU jobs with one to five cores more, and with one to twenty fewer, than their owners asked."""
MINUTE_S = 60.0


def jobs_of(run: Run, traced: Mapping[int, TracedJob], from_s: float) -> dict[str, Any]:
    """Return of the jobs of the measured window `waits`: tenant -> (jobs, 99th percentile of their waiting, s), and `jobs`: of
    GPU jobs that completed, job -> (model, cores a GPU that were asked, those in the end, waiting, running, s).
    """
    import numpy as np

    mine = [job for job in run.jobs if job.submitted_s >= from_s]
    waits: dict[int, list[float]] = defaultdict(list)
    for job in mine:
        waits[job.tenant].append(job.wait_s)
    jobs = {
        job.job: (job.name, asked, asked if job.cores is None else job.cores, job.wait_s, job.ran_s)
        for job in mine
        if job.requirement != (0,) and job.state == "COMPLETED"
        for asked in [traced[job.job].job.cores]
    }
    return {"waits": {who: (len(each), float(np.percentile(each, 99))) for who, each in waits.items()}, "jobs": jobs}


def tables_of(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[tuple[Table, ...], dict[str, Any]]:
    """Return the three tables and their figures. `found`: by policy, for each seed what `jobs_of` returned."""
    users, by_user = _users(found)
    tuned = {policy: _tuned(seeds) for policy, seeds in found.items()}
    faster = {policy: _faster(found["fifo"], seeds) for policy, seeds in found.items() if policy != "fifo"}
    return (users, _single(found, faster), _changed(tuned)), {"users": by_user, "tuned": tuned, "faster": faster}


def _users(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[Table, dict[str, dict[int, float]]]:
    names = sorted({who for seeds in found.values() for seed in seeds for who in seed["waits"]})
    minutes = {
        policy: {
            who: statistics.median(seed["waits"][who][1] / MINUTE_S for seed in seeds if who in seed["waits"])
            for who in names
        }
        for policy, seeds in found.items()
    }
    counts = [
        statistics.median(seed["waits"].get(who, (0,))[0] for seeds in found.values() for seed in seeds)
        for who in names
    ]
    rows = [(who, count, *(minutes[policy][who] for policy in found)) for who, count in zip(names, counts, strict=True)]
    note = (
        "Minutes, medians of the seeds. The paper draws curves without figures and says: FIFO is longer than DRF for most users, "
        "CODA much shorter than both for all, and users 15 to 20, which have only CPU jobs, wait slightly longer under CODA."
    )
    title = "Figure 12: 99th percentile of each user's queueing time"
    return Table(title, ("user", "jobs", *found), rows, note), minutes


def _single(found: Mapping[str, Sequence[Mapping[str, Any]]], faster: Mapping[str, Mapping[str, float]]) -> Table:
    jobs = {policy: seeds[0]["jobs"] for policy, seeds in found.items()}
    both = sorted(set.intersection(*(set(each) for each in jobs.values())))
    shown = {jobs["fifo"][number][0]: number for number in reversed(both)}
    rows = [
        (
            model,
            jobs["fifo"][number][1],
            *(
                value
                for each in jobs.values()
                for value in (each[number][2], *(s / MINUTE_S for s in each[number][3:]))
            ),
        )
        for model, number in sorted(shown.items())
    ]
    told = "; ".join(
        f"{policy}: {parts['queued']:.0%} queued no longer, {parts['ran']:.0%} ran shorter and {parts['longer']:.0%} longer, "
        f"{parts['whole']:.0%} were over sooner"
        for policy, parts in faster.items()
    )
    note = (
        "Cores a GPU in the end, minutes queued, minutes run; the first job of each model in seed 1. Of all GPU jobs against "
        f"FIFO: {told}. The paper: both shorter for most jobs, processing slightly longer for a few short ones."
    )
    columns = [f"{policy}: {what}" for policy in found for what in ("cores", "queued", "ran")]
    return Table("Figure 13: latencies of single GPU jobs", ("model", "asked", *columns), rows, note)


def _faster(fifo: Sequence[Mapping[str, Any]], mine: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the parts of the jobs that completed under both with shorter times than under FIFO; a second is no difference."""
    pairs = [
        (before["jobs"][number][3:], after["jobs"][number][3:])
        for before, after in zip(fifo, mine, strict=True)
        for number in before["jobs"].keys() & after["jobs"].keys()
    ]
    count = max(1, len(pairs))
    return {
        "queued": sum(after[0] <= before[0] + 1 for before, after in pairs) / count,
        "ran": sum(after[1] < before[1] - 1 for before, after in pairs) / count,
        "longer": sum(after[1] > before[1] + 1 for before, after in pairs) / count,
        "whole": sum(sum(after) < sum(before) - 1 for before, after in pairs) / count,
    }


def _tuned(seeds: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the parts of the jobs that have more cores in the end than they asked, and fewer; and the most of either."""
    changes = [cores - asked for seed in seeds for _, asked, cores, *_ in seed["jobs"].values()]
    count = max(1, len(changes))
    return {
        "up": sum(change > 0 for change in changes) / count,
        "down": sum(change < 0 for change in changes) / count,
        "most_up": max([0, *changes]),
        "most_down": -min([0, *changes]),
    }


def _changed(tuned: Mapping[str, Mapping[str, float | None]]) -> Table:
    rows = [
        (
            policy,
            Figure(each["up"], UP if policy == "coda" else None),
            each["most_up"],
            Figure(each["down"], DOWN if policy == "coda" else None),
            each["most_down"],
        )
        for policy, each in tuned.items()
        if each["up"] or each["down"]
    ]
    note = (
        "Parts of the GPU jobs that completed, by cores a GPU; in brackets the paper's: one to five more, one to twenty fewer. "
        "By III-A 76.1 % of them ask one or two cores and 15.3 % more than ten, which is how ours are drawn."
    )
    columns = ("policy", "more cores", "most more", "fewer cores", "most fewer")
    return Table("Figure 14: cores in the end against what was asked", columns, rows, note)
