"""Sentences of jobs that share a GPU: the neighbours and the rule of a start, or the rules that close shared GPUs to a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.explaining.phrases import count, gib, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.model import Figures

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
