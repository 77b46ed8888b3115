"""For which jobs idle resources are kept, and until when: promises (section 7) and reservations (section 4).

Such a job is a *keeper*. Its time is when it should start, or when its promise lapses. A waiting job shows one keeper: the
first, by time, whose resources would be enough to start the waiting job. If no single one would, it shows all keepers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.placement.free_capacity import Withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from scheduler.model import Job, Promise, Promised, Ranked, Running
    from scheduler.placement.ledger import Ledger

RESERVATION = "reservation"
KEEPERS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Keeper:
    """A job that resources are kept for. `gpus`: idle ones of them; None where another keeps some of the same node.

    `until_s`: on the snapshot's clock. `cause`: "reservation", or that of the promise's stop.
    """

    job: int
    tenant: int
    nodes: frozenset[int]
    gpus: int | None
    until_s: float
    cause: str


def in_the_way(keepers: Iterable[Keeper], helps: Callable[[frozenset[int]], bool]) -> list[Keeper]:
    """The keeper to tell of, or all of them, soonest first. `helps`: whether these nodes would let the job start."""
    every = sorted(keepers, key=lambda each: (each.until_s, each.job))
    alone = next((each for each in every if helps(each.nodes)), None)
    return every if alone is None else [alone]


def kept_figures(job: Job, keepers: Sequence[Keeper], names: Mapping[int, str]) -> dict[str, Any]:
    """The figures for the job's tenant: another tenant's job has no id. `names`: of nodes."""
    told = [
        {
            "job": each.job if each.tenant == job.tenant else None,
            "nodes": sorted(names[node] for node in each.nodes)[:KEEPERS_SHOWN],
            "gpus": each.gpus,
            "until_s": each.until_s,
            "cause": each.cause,
        }
        for each in keepers[:KEEPERS_SHOWN]
    ]
    kind = "job" if all(each.cause == RESERVATION for each in keepers) else "promise"
    return {"kept_for": kind, "keepers": told, "more": max(0, len(keepers) - KEEPERS_SHOWN)}


def promise_keepers(
    promised: Mapping[int, Promise],
    promises: Iterable[Promised],
    final: Ledger,
    queue: Iterable[Ranked],
    running: Iterable[Running],
    *,
    now_s: float,
    lapse_s: float,
) -> list[Keeper]:
    """The jobs for whose promises, given before and by this plan, something idles.

    `final`: the rest after the plan, promised resources withheld. `lapse_s`: a promise that is older than this is given up.
    """
    given = {number: (kept.shares, kept.given_s, kept.cause) for number, kept in promised.items()}
    given |= {each.job: (each.shares, now_s, each.cause) for each in promises}
    if not given:
        return []
    tenants = {live.job: live.tenant for live in running if live.job in given}
    tenants |= {each.job.id: each.job.tenant for each in queue if each.job.id in given}
    idle = {number: free.kept for number, free in final.free.items() if free.kept != Withheld()}
    holders = Counter(node for shares, _, _ in given.values() for node in {share.node for share in shares})
    found = []
    for number, (shares, given_s, cause) in given.items():
        nodes = frozenset(share.node for share in shares if share.node in idle)
        alone = all(holders[node] == 1 for node in nodes)
        gpus = sum(len(idle[node].gpus) for node in nodes) if alone else None
        if nodes and number in tenants:
            found.append(Keeper(number, tenants[number], nodes, gpus, given_s + lapse_s, cause))
    return found
