"""Plain sentences for kept resources: their keepers, the end of the keeping, and the choices of a job that is kept out.

A time is written as an instant, 2026-11-22T07:14Z. Pages print it in the reader's time zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.explaining.phrases import instant, listed
from scheduler.explaining.places import QUEUES
from scheduler.fairness.keepers import RESERVATION

if TYPE_CHECKING:
    from scheduler.model import Figures

MOVING = frozenset({"resize", "move"})
"""Causes of stops that make room for the stopped job itself."""


def kept_words(figures: Figures) -> str:
    """For a job that would fit idle resources if they were not kept for others."""
    if figures.get("kept_for") == "array":
        return _kept_in_pool(figures)
    keepers = figures.get("keepers") or ()
    if not keepers:  # figures of an older version
        return "Idle resources are kept for another job."
    said = [_kept(each, figures) for each in keepers[:3]]
    if rest := len(keepers) - 3 + figures.get("more", 0) if len(keepers) > 3 else figures.get("more", 0):
        said.append(f"More is kept for {rest} other {'jobs' if rest > 1 else 'job'}.")
    return " ".join([*said, _then(keepers[0]) if len(keepers) == 1 else "It could start with all of them."])


def kept_for_it_words(figures: Figures) -> str:
    """Follows the reason of a job that has waited long: the resources that are kept for it until other jobs end."""
    if (kept := figures.get("kept_for_it")) is None:
        return ""
    ended = f", when what runs there has ended: by about {instant(kept['until_s'])}" if "until_s" in kept else ""
    return f" What becomes idle on {listed(kept['nodes'])} is kept for it until it starts there{ended}."


def _kept(keeper: Figures, figures: Figures) -> str:
    gpus, where = keeper.get("gpus"), listed(keeper["nodes"])
    if not figures["needs"]["min_gpus"]:
        what = f"Idle CPU cores on {where} are"
    elif gpus:
        what = f"The idle GPU on {where} is" if gpus == 1 else f"The {gpus} idle GPUs on {where} are"
    else:
        what = f"Idle resources on {where} are" if gpus == 0 else f"Idle GPUs on {where} are"
    whom = "a job of another tenant" if keeper["job"] is None else f"job {keeper['job']}"
    until = ""
    if (until_s := keeper.get("until_s")) is not None:
        at = instant(until_s)
        until = f" until about {at}" if keeper["cause"] == RESERVATION else f" until {at} at the latest"
    return f"{what} kept for {whom}{until}."


def _then(keeper: Figures) -> str:
    """When the keeper's job starts, and which jobs may use the nodes meanwhile."""
    it = "That job" if keeper["job"] is None else f"Job {keeper['job']}"
    if keeper["cause"] == RESERVATION:
        return (
            f"{it} has waited long for its length and should start there then. "
            "Only a job that should end before that time may use them."
        )
    if keeper["cause"] in MOVING:
        return f"{it} goes on there as soon as it has stopped where it runs now."
    return f"{it} starts there as soon as others have stopped for it."


def _kept_in_pool(figures: Figures) -> str:
    """`owner`: the pool that the idle resources belong to. It lends them to jobs that can be stopped."""
    stoppable = "a job that can be stopped may borrow them: one that is checkpointable or restartable."
    is_cpu, owner = figures["array"] == "gpu", str(figures.get("owner"))
    if not is_cpu and owner not in QUEUES:
        return "Idle GPUs are kept for other jobs."
    what = "CPU cores" if is_cpu else "CPU cores beside idle GPUs" if owner == "cpu" else "GPUs"
    kept = f"Idle {what} are kept for {'GPU jobs' if is_cpu else QUEUES[owner]}"
    if not figures.get("borrowing", True):
        return f"{kept}, and on this cluster no job may borrow them."
    return f"{kept}{'' if is_cpu else ', and such jobs queue'}. Only {stoppable}"
