"""A job that landed on a node without tuning gets the cores that it asked for (ours; algorithms.md section 8).

Where some nodes tune, jobs are planned with N_start. On another node nobody would correct it: after everybody has been placed,
such a job gets what it asked, as far as cores are idle there and its quota allows, and gives back what it did not ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.model import Configuration, Piece, Share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler.model import Chosen, Job, Ranked
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.outcome import DraftPlan


def give_asked(queue: Sequence[Ranked], ledger: Ledger, draft: DraftPlan) -> None:
    """Change the cores of the placements of this planning that are on one such node."""
    untuned = {number for number, free in ledger.free.items() if not free.node.tunes}
    if not untuned:
        return
    for ranked in queue:
        job, chosen = ranked.job, draft.chosen.get(ranked.job.id)
        if chosen is None or job.asked_cores is None or len(chosen.placement.pieces) != 1:
            continue
        if chosen.placement.pieces[0].node in untuned:
            draft.chosen[job.id] = _asked(job, job.asked_cores, chosen, ledger)


def _asked(job: Job, asked: int, chosen: Chosen, ledger: Ledger) -> Chosen:
    (piece,), (share,) = chosen.placement.pieces, chosen.configuration.shares
    more = asked * len(piece.gpus) - len(piece.cores)
    cores = piece.cores[: len(piece.cores) + min(0, more)]
    if more < 0:
        back = Piece(piece.node, (), piece.cores[len(cores) :], 0)
        ledger.release([back], job.tenant, job.id)
    elif more := min(more, _left(job, piece.node, ledger)):
        added = Configuration(job.id, (Share(piece.node, 0, more, 0),), 0.0, "")
        cores += ledger.take(added, job.tenant).pieces[0].cores
    configuration = replace(chosen.configuration, shares=(replace(share, cores=len(cores)),))
    placement = replace(chosen.placement, pieces=(replace(piece, cores=tuple(sorted(cores))),))
    return replace(chosen, configuration=configuration, placement=placement)


def _left(job: Job, node: int, ledger: Ledger) -> int:
    idle = ledger.cores_for(node, limited=job.id in ledger.limited)
    allowance = ledger.allowances.get(job.tenant)
    quota = None if allowance is None else allowance.cores
    return max(0, idle if quota is None else min(idle, quota))
