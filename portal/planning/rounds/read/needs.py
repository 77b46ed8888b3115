"""The resources that must come free for a job to start, in a few words, from the figures behind its reason (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scheduler.explaining.sentences import awaited_words

Figures = Mapping[str, Any]

MEMORY = "MiB of free memory"
RESOURCES = {
    "gpus": "free GPU",
    "cores": "free core",
    "memory_mib": MEMORY,
    "gpu_quota": "GPU of its tenant's quota",
    "core_quota": "core of its tenant's quota",
}
NAMES_SHOWN = 2


def start_need(reason: str | None, figures: Figures) -> str | None:
    """Return e.g. "2 more free GPUs on a100-01 or rtx-01"; None where the figures do not say."""
    make = NEEDS.get(reason or "not-planned-yet")
    if make is None:
        return None
    try:
        return make(figures)
    except (KeyError, TypeError):
        return None  # the figures are of another reason: the next planning brings the right ones


def more(count: float, what: str) -> str:
    """3, free GPU -> 3 more free GPUs."""
    if what == MEMORY:
        return f"{count / 1024:.4g} GiB more free memory"
    head, of, rest = what.partition(" of ")
    return f"{count:g} more {head}{'s' if count != 1 else ''}{of}{rest}"


def any_of(names: list[str]) -> str:
    shown = names[:NAMES_SHOWN]
    return " or ".join([*shown, f"{len(names) - len(shown)} others"] if len(names) > len(shown) else shown)


def _types(figures: Figures) -> str:
    types = figures["needs"]["gpu_types"]
    return f" of type {' or '.join(types)}" if types else ""


def _idle_gpus(figures: Figures) -> str:
    if not figures.get("ever", True):
        return "a smaller size: the cluster has not so many"
    offered = figures["offered"]
    of_one = " of one type" if sum(count > 0 for count in offered["idle_gpus"].values()) > 1 else _types(figures)
    return more(figures["needs"]["min_gpus"] - offered["most_of_a_type"], "free GPU") + of_one


def _scattered(figures: Figures) -> str:
    block = figures["offered"]["largest_block"]
    where = any_of(block["nodes"]) if block["nodes"] else "one node"
    return f"{more(figures['needs']['min_gpus'] - block['gpus'], 'free GPU')} on {where}"


def _short_of(word: str) -> Callable[[Figures], str]:
    def words(figures: Figures) -> str:
        if not figures.get("ever", True):
            return "a smaller ask: no node has so much"
        short = figures["needed"] - figures["available"]
        if spread := figures.get("spread"):
            return f"{more(short, 'free GPU')} with {more(spread['beside'], word).replace(' more', '')} each"
        return f"{more(short, word)} on one node{' beside its GPUs' if figures['needs']['min_gpus'] else ''}"

    return words


def _outside(figures: Figures) -> str:
    if figures.get("blocked_by"):
        return f"the job at place {figures['blocked_by']['place']} to start"
    ahead = figures["place"] - 1
    return f"its turn ({ahead} job{'s' if ahead != 1 else ''} ahead)" if ahead else "its turn, which is next"


def _quota(figures: Figures) -> str:
    if "asked_ahead" in figures:
        return "its tenant's jobs ahead of it to leave the queue"
    what = "GPU" if figures["resource"] == "gpus" else "core"
    return more(figures["needed"] - figures["left"], f"{what} of its tenant's quota")


def _lost(figures: Figures) -> str | None:
    binding = figures.get("binding") or {}
    what = RESOURCES.get(binding.get("resource", ""))
    if not what:
        return None
    where = f" on {binding['node']}" if binding.get("node") else ""
    return more(binding["needed"] - binding["available"], what) + where


def _reserved(figures: Figures) -> str:
    if figures.get("kept_for") == "array":
        return "free GPUs of its own queue"
    keepers = figures.get("keepers") or [{"job": None}]
    if len(keepers) > 1:
        return f"a place beside what is kept for {len(keepers)} jobs, or their start"
    whom = f"#{keepers[0]['job']}" if keepers[0]["job"] else "another job"
    return f"a place beside what is kept for {whom}, or that job's start"


NEEDS: dict[str, Callable[[Figures], str | None]] = {
    "not-enough-idle-gpus": _idle_gpus,
    "gpus-scattered": _scattered,
    "not-enough-cores": _short_of("free core"),
    "not-enough-memory": _short_of(MEMORY),
    "outside-window": _outside,
    "tenant-quota": _quota,
    "lost-to-higher-priority": _lost,
    "dependency": lambda figures: awaited_words(figures).replace("job ", "#"),
    "reserved": _reserved,
    "held": lambda _: "its release",
    "restored": lambda _: "every node to say what runs there",
    "solver-limit": lambda _: "the next planning",
    "not-planned-yet": lambda _: "the next planning",
    "profiling": lambda _: "its profile",
    "no-node-with-type": lambda _: "a node of such a type",
    "nodes-unavailable": lambda _: "such a node to come back",
    "tenant-not-trusted": lambda _: "the other tenant's jobs there to end",
    "no-shared-gpu": lambda _: "room on a GPU that jobs share",
    "nodes-close": lambda _: "a node that stays for as long as it runs",
    "software-missing": lambda _: "a node with its software",
    "checkpoint-elsewhere": lambda _: "room where its checkpoint can be read",
    "invalid": lambda figures: "Berth to be mended" if figures.get("fault") else "another description",
}
