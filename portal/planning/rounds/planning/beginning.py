"""Settle the beginning of a planning: its round, whether it re-plans, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.planning.past import array_history_read
from portal.planning.rounds.record.metrics import round_close

if TYPE_CHECKING:
    from portal.planning.rounds.planning.lease import Begun
    from portal.planning.rounds.planning.memory import Memory
    from scheduler.parameters import Parameters

NUDGED_S = 1.0
"""Seconds, from beginning to end, of a planning that was nudged and only fills idle GPUs; the tick's does the proof."""
LEAST_SHARE, APPLY_SHARE = 0.25, 0.5
"""Parts of the time limit: the scheduler's at least, and applying's at most. A first applying writes down why each job
waits, so its length says nothing of the next ones."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One planning to be made under the lease. `new_round`: the present round ends here, before its time.

    `nudged`: it only fills what is idle and takes little time, unless its round's re-plan or a thorough one is due;
    `pauses`: first it lets more nudges come.
    """

    holder: str
    number: int
    values: dict[str, Any]
    memory: Memory
    nudged: bool = False
    pauses: bool = False
    new_round: bool = False

    def is_whole(self, record: Planning, begun: Begun, *, tick_s: float) -> bool:
        """Say whether it has its whole time limit."""
        return not self.nudged or record.replan or thorough_due(begun.thorough_at, now=begun.at, tick_s=tick_s)


def record_begin(turn: Turn, *, policy: str, now: datetime) -> Planning:
    """Return the record of a planning that begins now, not stored yet. It counts as failed until it is applied."""
    present = round_present(now=now, values=turn.values, over=turn.new_round)
    return Planning(
        number=turn.number,
        round=present,
        replan=replan_due(present),
        started_at=now,
        status=Planning.Status.FAILED,
        policy=policy,
        parameters=turn.values,
    )


def thorough_due(last: datetime | None, *, now: datetime, tick_s: float) -> bool:
    """Say whether no planning had its whole time limit for a tick: nudges in a row must not put it off for ever, nor may a
    clock that was set back, by which the last one is yet to come.
    """
    return last is None or not 0 <= (now - last).total_seconds() < tick_s


def limit_s(parameters: Parameters, *, whole: bool, load_s: float) -> float:
    """Return how long the scheduler may take: the limit, less the times of loading and of the last applying.

    Something is left however long these take, for a planning that ends in time and places nothing helps nobody.
    """
    limit = parameters.limit_s if whole else min(NUDGED_S, parameters.limit_s)
    last = Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number")
    apply_s: float = last.values_list("apply_s", flat=True).first() or 0.0
    return round(max(limit - load_s - min(apply_s, APPLY_SHARE * limit), LEAST_SHARE * limit), 2)


def replan_due(present: Round) -> bool:
    """Say whether a round still lacks its re-plan. One that was overtaken is made good; one that failed is not tried again,
    so that a fault in re-planning never keeps waiting jobs from starting.
    """
    return not present.plannings.filter(replan=True).exclude(status=Planning.Status.SUPERSEDED).exists()


def round_present(*, now: datetime, values: dict[str, Any], over: bool = False) -> Round:
    """Return the present round; a new one begins once the last is `replan_s` old, or is `over` before.

    Or where the clock was set back to before it began.
    """
    last = Round.objects.order_by("-number").first()
    if last is not None and not over and 0 <= (now - last.started_at).total_seconds() < values["replan_s"]:
        return last
    if last is not None:
        round_close(round_=last, now=now, tick_s=values["tick_s"])
    history = array_history_read(now=now, days=values["array_history_days"])
    fresh = {"started_at": now, "array_history": history}
    return Round.objects.get_or_create(number=last.number + 1 if last else 1, defaults=fresh)[0]
