"""The price of turns by shares in a simulation: its jobs under the same rule with turns and without. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portal.pages.dashboard.parts.formatting import share
from portal.pages.laboratory.output.chance import LEAST, is_clear

Answer = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Figures and curves of one run."""
WAITS = 1.5
"""A tenant that waits this many times as long without turns is named,"""
WAITS_H = 1 / 60
"""if that is at least as many hours more."""


def turns_cost(turns: Answer, without: Answer) -> dict[str, Any]:
    """Return `cost`, the part of the mean JCT without turns that they add, and whether it is `clear` of chance; `tenant`, the one
    that waits longest without them, and how many `times` as long.

    {} where a run was cut off: its ended jobs are not all.
    """
    (mine, curves), (other, others) = turns, without
    if any(each.get("jobs_unfinished") or not each.get("mean_jct_h") for each in (mine, other)):
        return {}
    cost = mine["mean_jct_h"] / other["mean_jct_h"] - 1.0
    return {"cost": cost, "clear": is_clear("mean JCT", curves, others), **_tenant(mine["tenants"], other["tenants"])}


def _tenant(mine: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    waits = {name: (own["mean_wait_h"], other[name]["mean_wait_h"]) for name, own in mine.items() if name in other}
    worse = {
        name: without / max(turns, 1e-9)
        for name, (turns, without) in waits.items()
        if mine[name]["jobs"] >= LEAST and without >= WAITS * turns and without - turns >= WAITS_H
    }
    name = max(worse, key=worse.__getitem__, default=None)
    return {"tenant": name, "times": None if name is None else min(worse[name], MANY)}


MANY = 10.0


def turns_words(found: Mapping[str, Any]) -> str:
    """Return the figures as a sentence; nothing of none."""
    if not found:
        return ""
    waits = ""
    if found["tenant"] is not None:
        times = found["times"]
        many = "many times" if times >= MANY else "twice" if 1.9 <= times <= 2.1 else f"{times:.2g} times"
        waits = f"; without them {found['tenant']} waits {many} as long"
    cost = share(abs(found["cost"]))
    if not found["clear"]:
        return f"Turns by shares: no difference to tell in the mean time to completion{waits}."
    if found["cost"] > 0:
        return f"Turns by shares cost {cost} of the mean time to completion here{waits}."
    return f"Turns by shares cost nothing here: the mean time to completion is {cost} shorter with them{waits}."
