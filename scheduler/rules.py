"""The rules of `berth` by name. Each can be left out, to measure what it is worth (`./berth experiment ablation`).

Some are knobs of the operator. The others are switched off by `Parameters.off`, which no operator sees: on a real cluster all of
them are on. Without a rule a planning is still sound: nothing is handed out twice, and every decision has its reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.copies import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.parameters import Parameters

BY_KNOB: Mapping[str, Mapping[str, Any]] = {
    "arrays": {"arrays": "off"},
    "fair turns": {"fair_shares": "off"},
    "borrowing": {"borrowing": "off"},
    "sweep": {"sweep": "off"},
    "early rounds": {"replan_early_s": None},
    "preemption": {"preemption": "off"},
}
"""Rule -> the knobs with which it is off."""

CALL_BACKS, RESERVATIONS, URGENT = "call-backs", "reservations", "urgent jobs"
STAGES, PROMISES, TOPPING_UP = "fronts and backfills", "promises", "topping up"

BY_SWITCH: Mapping[str, str] = {
    STAGES: "the front of each window is placed before its backfill",
    CALL_BACKS: "an array's owners get back what others borrowed",
    RESERVATIONS: "nodes are kept for the starving first job of an array",
    URGENT: "room is made for jobs whose wait has doubled since the last re-plan, against the objective too",
    PROMISES: "resources of an attempt that was stopped for a job are kept for it",
    TOPPING_UP: "resources that a gap or a limit left idle are handed out in order",
}
"""Rule -> what it does; off while `Parameters.off` names it."""

RULES = (*BY_KNOB, *BY_SWITCH)


def without(parameters: Parameters, rule: str) -> Parameters:
    """The same parameters without the rule. KeyError if there is no rule of that name."""
    if rule in BY_KNOB:
        return replace(parameters, **BY_KNOB[rule])
    if rule not in BY_SWITCH:
        raise KeyError(rule)
    return replace(parameters, off=(*parameters.off, rule))
