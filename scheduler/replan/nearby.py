"""Re-plans of one part of a cluster that is too large for the located formulation.

Such a re-plan looks at `MOST_NODES` GPU nodes: nodes of running jobs that may be changed, drawn at random, and then the nodes
with the most idle GPUs. The front of the window is solved together with these jobs on these nodes. Then the whole window is
placed as always, on what is left. All other running jobs run on, and count as left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.placement.joint import place_jointly
from scheduler.replan.participants import MOST_NODES
from scheduler.replan.realise import realise, tidy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from scheduler.fairness.borrowing import AccessRules
    from scheduler.model import Ranked
    from scheduler.placement.outcome import DraftPlan, Staged
    from scheduler.placement.work import Work

TIME_SHARE = 0.5
"""The part of the time left that this step of a planning may use."""


def replan_nearby(
    front: Sequence[Ranked],
    solving: Work,
    work: Work,
    draft: DraftPlan,
    access_rules: Callable[[Work], AccessRules | None],
) -> Staged:
    """Solve for the participants and the head of the front on their nodes, and take the result from `work.ledger`."""
    chosen = {piece.node for each in solving.participants.values() for piece in each.live.pieces}
    capacities = [free for number, free in solving.ledger.free.items() if free.node.gpus_total and number not in chosen]
    capacities.sort(key=lambda free: (-len(free.gpus), free.node.id))
    near = replace(
        solving,
        ledger=solving.ledger.copy(chosen | {free.node.id for free in capacities[: max(0, MOST_NODES - len(chosen))]}),
        deadline_s=work.clock() + TIME_SHARE * work.remaining_s,
    )
    stage = [each.ranked for each in work.participants.values()]
    asked = 0
    for ranked in front:
        if asked >= near.ledger.idle_gpus:
            break
        stage.append(ranked)
        asked += ranked.job.min_gpus
    staged = place_jointly(stage, near, draft, access_rules=access_rules(near))
    tidy(near, draft)
    realise(work, draft)
    return replace(staged, out_of_time=frozenset())  # they still have their turn with the whole window
