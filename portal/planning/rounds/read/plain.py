"""Why a job waits, in a few plain words, as pages show it. REST, the command line and logs say the code.

A time is written as an instant (`scheduler.explaining.phrases`), which pages print in the reader's zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.explaining.phrases import count, gib, instant, listed
from scheduler.model import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Figures = Mapping[str, Any]


def reason_words(code: str | None, figures: Figures | None = None, *, tenant: str = "", within_s: float = 0) -> str:
    """Return why a job waits, e.g. "4 A100, 1 free"; a code that is not known, as it is; "" where there is none.

    `figures`: those stored with the reason, with numbers of jobs (`JobNumbers`); without them the words have no figures.
    `tenant`: the name of the job's tenant; `within_s`: the time to the next planning, in seconds.
    """
    if code is None or code not in SHORT:
        return code or ""
    if code in TURNS:
        return f"{SHORT[code]}, within {within_s:g} s" if within_s else SHORT[code]
    if figures is None:
        return SHORT[code]
    try:
        if "promised" in figures:
            return f"GPUs are being freed for it on {listed(figures['promised']['nodes'])}"
        said = (LONG[code](figures) if code in LONG else SHORT[code]) + _set_aside(code, figures)
    except (KeyError, TypeError, ValueError):  # figures of another reason or of an older version
        return SHORT[code]
    return said.replace(ITS_TENANT, tenant) if tenant else said


ITS_TENANT = "its tenant"
TURNS = frozenset({Reason.NOT_PLANNED_YET, Reason.SOLVER_LIMIT})
SHORT: Mapping[str, str] = {
    Reason.OUTSIDE_WINDOW: "others come first",
    Reason.TENANT_QUOTA: "its tenant's quota is used",
    Reason.NO_NODE_WITH_TYPE: "no node has such GPUs",
    Reason.NOT_ENOUGH_IDLE_GPUS: "too few GPUs are free",
    Reason.NOT_ENOUGH_MEMORY: "too little memory is free",
    Reason.NOT_ENOUGH_CORES: "too few cores are free",
    Reason.GPUS_SCATTERED: "free, but not on one node",
    Reason.LOST_TO_HIGHER_PRIORITY: "jobs that waited longer come first",
    Reason.DEPENDENCY: "waits for another job or a time",
    Reason.HELD: "held",
    Reason.PROFILING: "its speed is being measured",
    Reason.SOLVER_LIMIT: "not looked at yet",
    Reason.INVALID: "cannot run as it is described",
    Reason.NOT_PLANNED_YET: "not looked at yet",
    Reason.NODES_UNAVAILABLE: "its nodes take no jobs now",
    Reason.RESERVED: "free, but kept for another job",
    Reason.TENANT_NOT_TRUSTED: "another tenant's jobs run there",
    Reason.CHECKPOINT_ELSEWHERE: "no room where its checkpoint is",
    Reason.RESTORED: "nodes have not answered since a restore",
    Reason.SOFTWARE_MISSING: "no node with its software is free",
    Reason.NO_SHARED_GPU: "no room on a GPU for sharing",
    Reason.NODES_CLOSE: "free, but given back too soon",
}


def _needed(figures: Figures) -> str:
    """Return as: 4 A100; 4 A100 or H100; 4 GPUs."""
    needs = figures["needs"]
    types = needs.get("gpu_types") or []
    return f"{needs['min_gpus']} {' or '.join(types)}" if 0 < len(types) < 3 else count(needs["min_gpus"], "GPUs")


def _set_aside(code: str, figures: Figures) -> str:
    """Return the GPUs for jobs that share one, with which it would fit: ", and 1 GPU for sharing on n1"; "" for none."""
    aside = figures.get("set_aside")
    if aside is None or code == Reason.NO_NODE_WITH_TYPE:  # whose words say it
        return ""
    where = f" on {listed(aside['nodes'])}" if aside["nodes"] else ""
    return f", and {count(aside['gpus'], 'GPUs')} for sharing{where}"


def _quota(figures: Figures) -> str:
    what = "GPUs" if figures["resource"] == "gpus" else "cores"
    if "asked_ahead" in figures:
        return f"{ITS_TENANT} may hold {figures['quota']} {what}, and its jobs before this one ask for them"
    return f"{ITS_TENANT} holds {figures['held']} of its {figures['quota']} {what}"


def _too_few(figures: Figures) -> str:
    most = figures["offered"]["most_of_a_type"]
    if not figures.get("ever", True):
        apart = figures.get("for_sharing")
        return f"{_needed(figures)}, the cluster has {most}{f' and {apart} for sharing' if apart else ''}"
    return f"{_needed(figures)}, {most or 'none'} free"


def _scattered(figures: Figures) -> str:
    offered = figures["offered"]
    block, all_free = offered["largest_block"]["gpus"], offered["most_of_a_type"]
    if not figures.get("ever", True):
        return f"{_needed(figures)} on one node, no node has more than {block}"
    nodes = sum(each["gpus"] > 0 for each in offered["nodes"]) if "nodes" in offered else 0
    where = "on two nodes" if nodes == 2 and all_free == offered["idle_total"] else f"at most {block} on one node"
    return f"{all_free} free, but {where}"


def _short_of(say: Callable[[float], str]) -> Callable[[Figures], str]:
    def words(figures: Figures) -> str:
        available = figures["available"]
        if spread := figures.get("spread"):
            return f"{count(figures['needed'], 'GPUs')} with {say(spread['beside'])} each, {available or 'none'} free"
        if not figures.get("ever", True):
            return f"{say(figures['needed'])} on one node, no node has more than {say(available)}"
        return f"{say(figures['needed'])} on one node, at most {say(available)} free"

    return words


def _waits(figures: Figures) -> str:
    if "until_s" in figures:
        return f"not before {instant(figures['until_s'])}"
    jobs = figures.get("depends_on") or []
    return f"after {listed([f'#{job}' for job in jobs])}" if jobs else "waits for another job"


def _kept(figures: Figures) -> str:
    keepers = figures.get("keepers") or ()
    if len(keepers) + figures.get("more", 0) > 1:
        return f"kept for {len(keepers) + figures.get('more', 0)} other jobs"
    if not keepers:
        return "free, but kept for other jobs" if figures.get("kept_for") == "array" else SHORT[Reason.RESERVED]
    whom = "another tenant's job" if keepers[0]["job"] is None else f"#{keepers[0]['job']}"
    until_s = keepers[0].get("until_s")
    return f"kept for {whom}" + ("" if until_s is None else f" until {instant(until_s)}")


LONG: Mapping[str, Callable[[Figures], str]] = {
    Reason.TENANT_QUOTA: _quota,
    Reason.NO_NODE_WITH_TYPE: lambda figures: (
        f"{_needed(figures)}, {'all for sharing' if 'set_aside' in figures else 'no node has such'}"
    ),
    Reason.NOT_ENOUGH_IDLE_GPUS: _too_few,
    Reason.NOT_ENOUGH_MEMORY: _short_of(lambda mib: f"{gib(mib)} of memory"),
    Reason.NOT_ENOUGH_CORES: _short_of(lambda cores: count(cores, "cores")),
    Reason.GPUS_SCATTERED: _scattered,
    Reason.DEPENDENCY: _waits,
    Reason.NODES_UNAVAILABLE: lambda figures: (
        f"{listed([each['node'] for each in figures['unavailable']])} "
        f"take{'s' if len(figures['unavailable']) == 1 else ''} no jobs now"
        if figures["unavailable"]
        else "no node has joined yet"
    ),
    Reason.RESERVED: _kept,
    Reason.TENANT_NOT_TRUSTED: lambda figures: f"another tenant's jobs run on {listed(figures['nodes'])}",
    Reason.RESTORED: lambda figures: f"waits for {listed(figures['nodes'])} to answer after a restore",
}
