"""Pieces of the sentences: counts, lists and times; kept resources; jobs that share a GPU.

A time is written as an instant, 2026-11-22T07:14Z. Pages print it in the reader's time zone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.explaining.places import QUEUES
from scheduler.fairness.keeping import RESERVATION
from scheduler.model.placements import is_instance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model import Figures


MEMORY = "MiB of memory"


def count(number: Any, word: str) -> str:
    """For example: 1 GPU, 4 GPUs; memory, which is counted in MiB, in GiB: 4 GiB of memory."""
    if word == MEMORY:
        return f"{gib(number)} of memory"
    return f"{number} {word}" if number != 1 else f"{number} {word.removesuffix('s')}"


def are(number: Any) -> str:
    return f"{number or 'none'} {'is' if number in (0, 1) else 'are'}"


def listed(names: Sequence[Any]) -> str:
    shown = [str(name) for name in names[:3]]
    rest = len(names) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def instant(at_s: float) -> str:
    """A time of the snapshot's clock as ISO 8601 in UTC, to the next full minute: 2026-11-22T07:14Z."""
    return f"{np.datetime64(math.ceil(at_s / 60.0), 'm')}Z"


def gib(mib: float) -> str:
    """For example: 4 GiB, 8.79 GiB."""
    return f"{round(mib / 1024, 2):g} GiB"


def the_most(by_type: Mapping[str, int], figures: Mapping[str, Any]) -> str:
    """For example: 8 of type A100 that it may use, besides 1 for jobs that share a GPU."""
    most = max(by_type.values(), default=0)
    largest = [name for name, count in by_type.items() if count == most]
    of_one = "" if len(by_type) < 2 else f" of type {largest[0]}" if len(largest) == 1 else " of one type"
    shared = figures.get("for_sharing")
    return f"{most}{of_one} that it may use" + (f", besides {shared} for jobs that share a GPU" if shared else "")


def other_types(types: Sequence[str]) -> str:
    """The cluster's GPU types, and the choices of a job that may use none of them."""
    if not types:
        return "No node of the cluster has GPUs. Ask the operator."
    there = f"The cluster has GPUs of type {' and '.join(types)}."
    if all(map(is_instance, types)):
        return (
            f"{there} These are instances (MIG), and each takes jobs of one GPU. Accept one GPU, or ask the operator."
        )
    return f"{there} Allow another type, or ask the operator."


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


CLOSED: Mapping[str, str] = {
    "memory": "too little of its GPU memory is left",
    "compute": "too little of its compute is left",
    "correlated": "a job there uses most when this one does",
    "unknown": "it or a job there was never seen to run, so nobody can say how well they get on",
    "no trend": "nothing can be forecast from the use of its memory so far",
    "peak": "the memory in use is forecast to leave too little",
    "declined": "the learned policy would rather wait, or start others there",
    "exceeds": "with the jobs there it would use more of the GPU than there is",
    "little": "it and the jobs there would get hardly more done together than the jobs there alone",
    "apart": "it is kept apart from {whom}: they ran out of GPU memory together",
    "slowed": "it and a job there were measured to slow each other more than the operator accepts (`sharing_slowdown`)",
    "crowded": "by what it and the jobs there used before, they would slow each other more than the operator accepts "
    "(`sharing_slowdown`)",
    "node": "its node has too few idle cores or too little memory",
    "barred": "its type, node or software is not what it may use",
}
"""Why a GPU is closed to a job, by rule: `scheduler.sharing.model.Rule`, and two of the planning's own."""
RULES: Mapping[str, str] = {
    "alone": "nobody else is on it",
    "fits": "what it asks for is left there",
    "learned": "the learned policy would start it there now",
    "uncorrelated": "its use and that of the jobs there do not rise together (correlation {correlation:g}, at most 0.5)",
    "measured": "it ran beside the jobs there before, and none was slowed by more than the operator accepts",
    "forecast": "the memory in use there is forecast at {ahead_mib:g} MiB, which leaves room for it",
}


HARVESTED = "For it, jobs there gave back memory that they were granted and do not use."


def placed_words(shared: Figures) -> str:
    """The place of its start, its part of the GPU, the jobs beside it, and the rule."""
    words, others = [f"job {number}" for number in shared["beside_own"]], shared["beside_others"]
    if others:
        words.append("a job of another tenant" if others == 1 else f"{others} jobs of other tenants")
    beside = f", beside {listed(words)}" if words else ""
    why = RULES[shared["rule"]].format(**shared)
    given = f" {HARVESTED}" if shared.get("harvested") else ""
    return (
        f"It gets {part_words(shared['compute'], shared['memory_mib'])} of GPU {shared['gpu']} on {shared['node']}"
        f"{beside}: {why}.{given}"
    )


def part_words(compute: int, memory_mib: int) -> str:
    """For example: 25 % of the compute and 2 GiB."""
    return f"{compute / 10:g} % of the compute and {gib(memory_mib)}"


def waiting_words(figures: Figures) -> str:
    """The job's part of a GPU, and how many shared GPUs are closed to it for which reason."""
    asked, shared = figures["needs"], figures["shared"]
    needed = part_words(asked["gpu_compute"], asked["gpu_memory_mib"])
    if shared["policy"] == "off":
        return f"It shares a GPU, with {needed}, and no job starts on shared GPUs now: the operator switched that off."
    if not shared["gpus"]:
        return f"It shares a GPU, with {needed}, and no shared GPU takes jobs now."
    named = [f"job {number}" for number in shared.get("apart_own", ())]
    whom = listed(named) if named else "a job there"
    closed = listed([f"on {number} {CLOSED[rule].format(whom=whom)}" for rule, number in shared["closed"].items()])
    gpus = count(shared["gpus"], "GPUs")
    return f"It shares a GPU, with {needed}. None of {gpus} that jobs may share takes it now: {closed}."


def set_aside_words(figures: Figures) -> str:
    """For a job that would fit if some GPUs were not set aside for jobs that share one."""
    if (aside := figures.get("set_aside")) is None:
        return ""
    nodes = [str(name) for name in aside["nodes"]]
    gpus = count(aside["gpus"], "GPUs") if len(nodes) < 2 else "GPUs"
    are = "is" if aside["gpus"] == 1 and len(nodes) < 2 else "are"
    where, there = (f" on {' or '.join(nodes[:MOST_NODES])}", " there") if nodes else ("", "")
    return f" It would fit{where}, but {gpus}{there} {are} set aside for jobs that share a GPU."


MOST_NODES = 3
