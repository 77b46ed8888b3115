"""One plain sentence per reason, from its figures: what the job's page says first, before the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.model import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from scheduler.model import Figures

RESOURCE_WORDS: Mapping[str, str] = {
    "gpus": "GPUs",
    "cores": "CPU cores",
    "memory_mib": "MiB of memory",
    "gpu_quota": "GPUs of the tenant's quota",
    "core_quota": "CPU cores of the tenant's quota",
    "trust": "place beside another tenant's jobs",
}


def sentence(reason: Reason | str | None, figures: Figures) -> str:
    """The sentence for a reason of the vocabulary; for None, where the job was placed. Missing figures are left out."""
    if reason is None:
        return f"Placed on {_places(figures.get('nodes', {}))}."
    if "promised" in figures:
        return _promised(figures)
    return SENTENCES[Reason(reason)](figures) + _kept_for_it(figures)


def _promised(figures: Figures) -> str:
    """For a job that others are being stopped for, whatever kept it from starting at once."""
    nodes = _listed(figures["promised"]["nodes"])
    needed = _need(figures)
    one = needed.startswith("1 ")
    until = "it is" if one else "all of them are"
    return (
        f"It needs {needed}, which {'is' if one else 'are'} being freed on {nodes}: it starts there when {until} idle."
    )


def _kept_for_it(figures: Figures) -> str:
    """After the reason of a job that waited long: what is kept for it until others end by themselves."""
    if (kept := figures.get("kept_for_it")) is None:
        return ""
    return (
        f" Idle GPUs on {_listed(kept['nodes'])} are kept for it; it should start there in about {_minutes(kept)} min."
    )


def _minutes(figures: Figures) -> int:
    return max(1, round(float(figures["in_s"]) / 60))


def _count(number: Any, word: str) -> str:
    return f"{number} {word}" if number != 1 else f"{number} {word.removesuffix('s')}"


def _listed(names: Sequence[Any], most: int = 3) -> str:
    shown = [str(name) for name in names[:most]]
    rest = len(names) - len(shown)
    if rest:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _places(nodes: Mapping[str, Mapping[str, int]]) -> str:
    parts = [
        f"{name} ({_count(use['gpus'], 'GPUs')}, {_count(use['cores'], 'cores')})"
        if use["gpus"]
        else f"{name} ({_count(use['cores'], 'cores')})"
        for name, use in nodes.items()
    ]
    return _listed(parts)


def _need(figures: Figures) -> str:
    needs = figures.get("needs", {})
    if not needs.get("min_gpus"):
        return _count(needs.get("cores", 0), "CPU cores")
    types = needs.get("gpu_types") or []
    return _count(needs["min_gpus"], "GPUs") + (f" of type {' or '.join(types)}" if types else "")


def _block(figures: Figures) -> str:
    block = figures.get("offered", {}).get("largest_block", {})
    if not block.get("gpus"):
        return "none is idle on any node it may use"
    return f"the largest free block is {block['gpus']} ({_listed(block['nodes'])})"


def _outside_window(figures: Figures) -> str:
    blocked = figures.get("blocked_by")
    if blocked:
        whose = f"job {blocked['job']}" if blocked.get("job") is not None else "a job of another tenant"
        place = blocked["place"]
        return (
            f"Waiting at place {figures['place']}: the queue is strict, and {whose} at place {place} does not fit yet."
        )
    if "share" in figures:
        return _outside_shares(figures)
    window = figures.get("window")
    if window:  # of an array, as the caller found it in the plan
        return (
            f"Waiting at place {figures['array_place']} of {window['array']}: its window holds "
            f"{_count(window['jobs'], 'jobs')} that ask for {window['counted']} GPUs at their smallest sizes, and closes "
            f"at {window['capacity']}."
        )
    return (
        f"Waiting at place {figures['place']} of {figures['queue_length']}: this planning considered the first "
        f"{_count(figures['window_jobs'], 'jobs')}, whose smallest sizes add up to the cluster's "
        f"{figures['window_gpus']} GPUs."
    )


def _outside_shares(figures: Figures) -> str:
    """Turns are taken by the tenants' shares, so a place in the queue alone says little."""
    array = figures.get("array")
    whose = f"the {array} array" if array else "the cluster"
    share = figures["share"]
    tenant = "" if share is None else f" Its tenant has {share:.0%} of the GPUs by weight, counting its jobs ahead."
    return (
        f"Waiting at place {figures['place']} of {figures['queue_length']}: the smallest sizes of the "
        f"{_count(figures['window_jobs'], 'jobs')} whose turn comes first add up to the {figures['window_gpus']} GPUs of "
        f"{whose}.{tenant}"
    )


def _tenant_quota(figures: Figures) -> str:
    what = "GPUs" if figures["resource"] == "gpus" else "CPU cores"
    if "asked_ahead" in figures:
        return f"The tenant's quota is {figures['quota']} {what}, and its jobs ahead of this one ask for all of them."
    return (
        f"The tenant's quota is {figures['quota']} {what}, of which {figures['held']} are in use; this job needs "
        f"{figures['needed']} and {figures['left']} are left."
    )


def _no_node_with_type(figures: Figures) -> str:
    return f"It needs {_need(figures)}, and no node has such GPUs. Allow another type or ask the operator."


def _not_enough_idle_gpus(figures: Figures) -> str:
    if not figures.get("ever", True):
        total = figures["total_gpus"]
        return f"It needs {_need(figures)}; the whole cluster has {total} that it may use. Ask for fewer."
    idle = figures["offered"]["idle_total"]
    return f"It needs {_need(figures)}; {idle or 'none'} {'is' if idle in (0, 1) else 'are'} idle."


def _not_enough_memory(figures: Figures) -> str:
    return _short(figures, "MiB of memory")


def _not_enough_cores(figures: Figures) -> str:
    return _short(figures, "CPU cores")


def _short(figures: Figures, word: str) -> str:
    where = "that could take it" if not figures["needs"]["min_gpus"] else "with the GPUs for it"
    idle = "has" if not figures.get("ever", True) else "has idle"
    return f"It needs {figures['needed']} {word}; the most that a node {where} {idle} is {figures['available']}."


def _gpus_scattered(figures: Figures) -> str:
    return f"It needs {_need(figures)} on one node; {_block(figures)}."


def _lost(figures: Figures) -> str:
    lost = figures.get("lost_to", {})
    own = [f"job {job}" for job in lost.get("own_jobs", [])]
    others = lost.get("other_tenants_jobs", 0)
    if others:
        own.append("a job of another tenant" if others == 1 else f"{others} jobs of other tenants")
    binding = figures.get("binding") or {}
    word = RESOURCE_WORDS.get(binding.get("resource", ""), "room")
    short = f": {binding['needed']} {word} needed, {binding['available']} left" if binding.get("node") else ""
    where = f" on {binding['node']}" if binding.get("node") else ""
    return f"What it could have used went to {_listed(own)}, with more priority or more gain from it{short}{where}."


def _dependency(figures: Figures) -> str:
    jobs = figures.get("depends_on") or []
    return (
        f"It waits for {_listed([f'job {job}' for job in jobs])} to end." if jobs else "It waits for other jobs to end."
    )


def _solver_limit(figures: Figures) -> str:
    limit = f"The planning ended at its limit of {figures['limit_s']:g} s"
    return f"{limit} before this job's turn was settled; the next one tries again."


def _profiling(figures: Figures) -> str:
    on = _listed([f"{each['gpu_type']} ({each['node']})" for each in figures.get("on", [])])
    where = f" on one GPU of {on}" if on else ""
    limit = f", for at most {figures['limit_s']:g} s" if "limit_s" in figures else ""
    return f"Its speed is being measured{where}{limit}; then it is placed."


def _nodes_unavailable(figures: Figures) -> str:
    away = [f"{each['node']} ({each['why']})" if each["why"] else each["node"] for each in figures["unavailable"]]
    if not away:
        return f"It needs {_need(figures)}; no node has joined the cluster."
    return f"It needs {_need(figures)}; the nodes that could hold it take no jobs now: {_listed(away)}."


def _tenant_not_trusted(figures: Figures) -> str:
    return f"{_listed(figures['nodes'])} would fit, but another tenant's job runs there under the same account."


def _checkpoint_elsewhere(figures: Figures) -> str:
    where = f" ({_listed(figures['nodes'])})" if figures.get("nodes") else ""
    domain = f"storage domain {figures['domain']}{where}"
    return f"It resumes from a checkpoint that can only be read in {domain}, which has no room for it."


def _reserved(figures: Figures) -> str:
    if figures.get("kept_for") == "array":
        if figures["array"] == "gpu":
            return "The idle CPU cores are reserved for GPU jobs, and this job could not be stopped to give them back."
        own = figures["array"]
        return f"What is idle belongs to another array than this job's ({own}), which keeps it for jobs of its own."
    if figures.get("kept_for") == "promise":
        nodes = _listed(figures["nodes"])
        return f"Idle GPUs on {nodes} are kept for jobs that start there once others have stopped for them."
    if "in_s" not in figures:
        return "Idle GPUs are kept for another job that has waited longer."
    nodes, minutes = _listed(figures["nodes"]), _minutes(figures)
    return f"Idle GPUs on {nodes} are kept for a job that has waited longer and should start in about {minutes} min."


SENTENCES: Mapping[Reason, Callable[[Figures], str]] = {
    Reason.OUTSIDE_WINDOW: _outside_window,
    Reason.TENANT_QUOTA: _tenant_quota,
    Reason.NO_NODE_WITH_TYPE: _no_node_with_type,
    Reason.NOT_ENOUGH_IDLE_GPUS: _not_enough_idle_gpus,
    Reason.NOT_ENOUGH_MEMORY: _not_enough_memory,
    Reason.NOT_ENOUGH_CORES: _not_enough_cores,
    Reason.GPUS_SCATTERED: _gpus_scattered,
    Reason.LOST_TO_HIGHER_PRIORITY: _lost,
    Reason.DEPENDENCY: _dependency,
    Reason.HELD: lambda _: "It is held; release it to let it queue.",
    Reason.PROFILING: _profiling,
    Reason.SOLVER_LIMIT: _solver_limit,
    Reason.INVALID: lambda figures: f"It cannot be planned: {figures['detail']}.",
    Reason.NOT_PLANNED_YET: lambda _: "No planning has considered it yet; the next one will.",
    Reason.NODES_UNAVAILABLE: _nodes_unavailable,
    Reason.RESERVED: _reserved,
    Reason.TENANT_NOT_TRUSTED: _tenant_not_trusted,
    Reason.CHECKPOINT_ELSEWHERE: _checkpoint_elsewhere,
}
