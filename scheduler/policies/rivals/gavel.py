"""Gavel (OSDI '20): heterogeneity-aware max-min fairness, approximated in rounds.

In every round the fractions X of time by job and GPU type are computed again (4.1: `timeshare.allocation`), with the tenants'
weights. Priorities, X over the time received, say which jobs run in the round (section 5: `timeshare.mechanism`). Jobs keep their
GPUs from round to round where possible. A round lasts 6 min: `replan_s` 360. Gavel has no elastic jobs: a job with several sizes
gets the median. Jobs are not packed together here (3.1 makes that an option), because GPUs are whole in these simulations.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from scheduler.model import SolverFigures
from scheduler.policies.policy import Policy
from scheduler.policies.rivals.timeshare import allocation
from scheduler.policies.rivals.timeshare.play import Choice, Round, play, size_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def choose(begins: Round) -> Choice:
    """Sections 4.1 and 5: the GPU type of each job that runs in the round."""
    work, gpus = begins.work, begins.gpus
    weights = {tenant.id: tenant.weight for tenant in work.state.tenants}
    rows = [
        allocation.Row(number, size_of(ranked.job), speeds, weights.get(ranked.job.tenant, 1.0))
        for number, ranked in begins.jobs.items()
        if (speeds := begins.throughput(ranked.job))
    ]
    seed = int(work.rng.integers(2**31))
    found = allocation.allocate(rows, gpus, seed=seed, remaining_s=lambda: work.remaining_s)
    if found is None:  # no time for an answer: running jobs go on
        now_on = {number: begins.now_on(number) or "" for number in begins.running}
        return Choice(now_on, out_of_time=frozenset(begins.all_gpus.waiting))
    figures = SolverFigures(
        formulation="max-min",
        status="optimal",
        incumbent="lp",
        candidates=found.variables,
        variables=found.variables,
        constraints=found.constraints,
        objective=found.level,
        gap=0.0,
    )
    entrants = [_entrant(row, found.fractions.get(row.job, {}), begins) for row in rows]
    return Choice(allocation.choose(entrants, gpus), figures)


def _entrant(row: allocation.Row, fractions: Mapping[str, float], begins: Round) -> allocation.Entrant:
    work = begins.work
    since_s = work.now_s - allocation.WINDOW_ROUNDS * work.parameters.replan_s
    there_s = work.now_s - max(since_s, begins.jobs[row.job].job.submitted_s)
    had = {name: had_s / max(there_s, had_s) for name, had_s in begins.received_s(row.job, since_s).items() if had_s}
    return allocation.Entrant(row.job, row.scale, fractions, had, begins.now_on(row.job))


MEANING = "max-min fairness of time on GPU types, by linear programs and rounds"
POLICY = Policy("gavel", MEANING, partial(play, choose=choose), replans=True)
