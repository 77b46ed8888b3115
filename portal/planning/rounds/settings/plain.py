"""The knobs in plain words: the ten in front with a name and a sentence, the others by subject."""

from __future__ import annotations

from typing import NamedTuple


class Plain(NamedTuple):
    """`unit` None: the knob's own."""

    label: str
    meaning: str
    unit: str | None = None


FRONT: dict[str, Plain] = {
    "policy": Plain("Rule", "Picks the next job, its place and its number of GPUs."),
    "fair_shares": Plain("Even shares", "Serve the tenant that holds least first."),
    "borrowing": Plain("Borrowing", "Jobs may use what other kinds of jobs leave free."),
    "lambda": Plain("Fairness or speed", "Higher: the longest wait goes first. 0: the fastest job does.", "0 to 4"),
    "replan_s": Plain("Round length", "How often running jobs may grow, shrink or move.", "seconds"),
    "reserve_lr": Plain("Keep nodes for a large job", "Once it has waited this many times its run time.", "times"),
    "sigma": Plain("Spread over nodes", "Only if a job loses less speed than this.", "times"),
    "reserved_cores_per_gpu": Plain("Cores for GPU jobs", "Kept free for each GPU of a node.", "cores"),
    "tune_cores": Plain("Tune cores", "Find how many cores each job really needs while it runs."),
    "shared_gpus": Plain("Share GPUs", "How many of each type small jobs may share.", "0 to 1"),
}

SUBJECTS: dict[str, str] = {
    "Who is next, and where": "Planning",
    "Window and solver": "Planning",
    "Arrays and tenants' shares": "Keeping and giving back",
    "Rounds and re-plans": "Keeping and giving back",
    "Shared GPUs": "Sharing a GPU",
    "Core tuning": "Cores, memory and profiles",
    "Memory bandwidth": "Cores, memory and profiles",
    "Profiles": "Cores, memory and profiles",
    "Figures and what is kept": "What is kept, and how long",
    "Job descriptions": "Jobs and laboratory",
    "Laboratory": "Jobs and laboratory",
}
"""A knob's group -> the folded row that it stands in."""


def label_of(name: str) -> str:
    """Return a knob's plain name; one without has its own."""
    return FRONT[name].label if name in FRONT else name
