"""Plain sentences for each reason, made from its figures: the job's page shows them first, before the numbers.

They are written for a new tenant: short, with one fact in a sentence, and the job's needs before the offers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.explaining.phrases import (
    MEMORY,
    are,
    count,
    gib,
    instant,
    kept_for_it_words,
    kept_words,
    listed,
    other_types,
    placed_words,
    set_aside_words,
    the_most,
    waiting_words,
)
from scheduler.explaining.places import QUEUES, is_strange
from scheduler.model import Figures, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


RESOURCE_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("gpus", "gpu_quota"), "GPUs"),
    **dict.fromkeys(("cores", "core_quota"), "CPU cores"),
    "memory_mib": MEMORY,
}


def sentence(reason: Reason | str | None, figures: Figures) -> str:
    """The sentences for a reason. For None: where the job was placed."""
    if reason is None:
        shared = figures.get("shared")
        return placed_words(shared) if shared else f"Placed on {_places(figures.get('nodes', {}))}."
    if "promised" in figures:
        return _promised(figures)
    return SENTENCES[Reason(reason)](figures) + set_aside_words(figures) + kept_for_it_words(figures)


def queue_words(figures: Figures) -> str:
    """For example: place 3 of 21 in the queue for jobs of 1 to 3 GPUs. From `queue`, `place` and `queue_length`."""
    return f"place {figures['place']} of {figures['queue_length']} in the queue for {QUEUES[figures['queue']]}"


def _promised(figures: Figures) -> str:
    """For a job for which others are being stopped."""
    nodes = listed(figures["promised"]["nodes"])
    needed = _need(figures)
    one = needed.startswith("1 ")
    until = "it is" if one else "all of them are"
    return (
        f"It needs {needed}, which {'is' if one else 'are'} being freed on {nodes}. It starts there when {until} idle."
    )


def _places(nodes: Mapping[str, Mapping[str, int]]) -> str:
    parts = [
        f"{name} ({count(use['gpus'], 'GPUs')}, {count(use['cores'], 'cores')})"
        if use["gpus"]
        else f"{name} ({count(use['cores'], 'cores')})"
        for name, use in nodes.items()
    ]
    return listed(parts)


def _need(figures: Figures) -> str:
    needs = figures.get("needs", {})
    if not needs.get("min_gpus"):
        return count(needs.get("cores", 0), "CPU cores")
    types = needs.get("gpu_types") or []
    return count(needs["min_gpus"], "GPUs") + (f" of type {' or '.join(types)}" if types else "")


# ---- its turn, its tenant's quota ------------------------------------------------------------------------------------


def _outside_window(figures: Figures) -> str:
    said = [f"It waits for its turn: {queue_words(figures)}."]
    if is_strange(figures["queue"], figures["needs"]["min_gpus"]):
        said.append("It stands in that queue because no node for jobs of its own size can hold it.")
    if blocked := figures.get("blocked_by"):
        whose = f"job {blocked['job']}" if blocked["job"] is not None else "a job of another tenant"
        elsewhere = f" in the queue for {QUEUES[blocked['queue']]}" if blocked["queue"] != figures["queue"] else ""
        at = f"at place {blocked['place']}{elsewhere}"
        return " ".join([*said, f"Jobs start strictly in order, and {whose} {at} does not fit yet."])
    considered, started = figures["considered"], figures["started"]
    said.append(
        f"A planning considers the first jobs of a queue until they ask for {count(figures['window_gpus'], 'GPUs')}."
    )
    said.append(f"This time it considered {count(considered, 'jobs')} and started {started or 'none'}.")
    if figures.get("share") is not None:
        said.append(
            f"Its tenant has {figures['share']:.0%} of the GPUs by weight, with its considered jobs counted. "
            f"Tenants with less go first."
        )
    return " ".join(said)


def _tenant_quota(figures: Figures) -> str:
    what = "GPUs" if figures["resource"] == "gpus" else "CPU cores"
    quota = f"Its tenant may hold {count(figures['quota'], what)} at a time, its quota."
    if "asked_ahead" in figures:
        return f"{quota} The tenant's jobs ahead of this one ask for all of that."
    held, left = are(figures["held"]).capitalize(), are(figures["left"])
    return f"{quota} {held} in use. This job needs {figures['needed']}, and {left} left."


# ---- what there is ---------------------------------------------------------------------------------------------------


def _no_node_with_type(figures: Figures) -> str:
    if "set_aside" in figures:
        return f"It needs {_need(figures)}, and no node hands out such GPUs whole."
    return f"It needs {_need(figures)}, and no node has such GPUs. {other_types(figures.get('types') or [])}"


def _not_enough_idle_gpus(figures: Figures) -> str:
    """A job runs on GPUs of one type, so of several types the one with most idle GPUs counts."""
    offered = figures["offered"]
    idle = {name: count for name, count in offered["idle_gpus"].items() if count}
    most = offered["most_of_a_type"]
    if not figures.get("ever", True):
        return f"It needs {_need(figures)}. The whole cluster has {the_most(idle, figures)}. Ask for fewer."
    if len(idle) < 2:
        return f"It needs {_need(figures)}, and {are(most)} idle."
    by_type = ", ".join(f"{count} {name}" for name, count in sorted(idle.items()))
    return f"It needs {_need(figures)}, all of one type. Idle are: {by_type}."


def _gpus_scattered(figures: Figures) -> str:
    block = figures["offered"]["largest_block"]
    return (
        f"It needs {_need(figures)} together on one node. "
        f"The most that are idle on one node are {block['gpus']}, on {listed(block['nodes'])}."
    )


def _short(figures: Figures, unit: str, what: str) -> str:
    ever = figures.get("ever", True)
    if spread := figures.get("spread"):
        there, verb = count(spread["gpus"], "GPUs"), "has" if spread["gpus"] == 1 else "have"
        so_much = f"so {'many' if what == 'CPU cores' else 'much'}{' idle' if ever else ''}"
        return (
            f"It needs {_need(figures)} over several nodes, each with {count(spread['beside'], unit)}. "
            f"{f'Only {there} {verb}' if spread['gpus'] else 'No GPU has'} {so_much}."
        )
    among = "Of the nodes that it may use" if not figures["needs"]["min_gpus"] else "Of the nodes with GPUs for it"
    idle = " idle" if ever else ""
    has = gib(figures["available"]) if unit == MEMORY else figures["available"]
    tail = "" if ever else " Ask for less." if what == "memory" else " Ask for fewer."
    return (
        f"It needs {count(figures['needed'], unit)} on one node. "
        f"{among}, the one with the most{idle} {what} has {has}.{tail}"
    )


def _nodes_unavailable(figures: Figures) -> str:
    away = [f"{each['node']} ({each['why']})" if each["why"] else each["node"] for each in figures["unavailable"]]
    if not away:
        return f"It needs {_need(figures)}. No node has joined the cluster."
    return f"It needs {_need(figures)}. The nodes that could hold it take no jobs now: {listed(away)}."


def _tenant_not_trusted(figures: Figures) -> str:
    nodes = figures["nodes"]
    where = "there" if len(nodes) == 1 else "on each of them"
    others = f"another tenant's jobs run {where} under the same account"
    return f"It would fit on {listed(nodes)}, but {others}. It waits until they end."


def _checkpoint_elsewhere(figures: Figures) -> str:
    domain = f"It goes on from its checkpoint, which only nodes of storage domain {figures['domain']} can read"
    if not figures.get("nodes"):
        return f"{domain}. None of them takes jobs now."
    return f"{domain}: {listed(figures['nodes'])}. There is no room for it there now."


def _software_missing(figures: Figures) -> str:
    need, _, git = figures["software"].partition("+")
    kind, _, name = need.partition(":")
    what, remedy = {
        "environment": (f"a node with the environment {name}", "make it on nodes and name it in the console"),
        "image": ("a node that runs container images", "install Apptainer on one (its page says what it lacks)"),
        "build": ("a node that builds environments", "install uv or pip on one and start its agent again"),
        "git": ("a node that has git", "install git on nodes and start their agents again"),
    }[kind]
    what, remedy = (f"{what} and has git", f"{remedy}, and install git there") if git else (what, remedy)
    if figures["nodes"]:
        return f"It needs {what}. These have no room for it now: {listed(figures['nodes'])}."
    up = " that takes jobs now" if figures.get("ever", True) else ""
    return (
        f"It needs {what}, and no node for it{up} is one. Ask the operator to {remedy}, or change the job's software."
    )


def _nodes_close(figures: Figures) -> str:
    """The length that decides is a limit or a guess, so the remedy is to say it, or to be stoppable."""
    idle = "The free CPU cores" if not figures["needs"]["min_gpus"] else "The GPUs that are free"
    given_back = f"{idle} are given back by {instant(figures['closes_s'])}"
    if figures["saves"]:
        return f"{given_back}. That is too soon for this job: starting it again elsewhere would cost more than it gets done."
    anew = (
        " It saves no checkpoints, so it would have to start anew."
        if figures["movable"]
        else " It saves no checkpoints."
    )
    return (
        f"{given_back}, and this job would probably still run then.{anew} "
        "If it is shorter, state a shorter time limit; or let it save checkpoints."
    )


def _restored(figures: Figures) -> str:
    nodes, more = figures["nodes"], figures.get("more", 0)
    names = listed([*nodes, f"{more} more"]) if more else listed(nodes)
    verb = "has" if len(nodes) == 1 and not more else "have"
    return (
        f"Berth was restored from a backup, and {names} {verb} not said yet what runs there. This job may be running there; "
        "it waits, so that it never runs twice at once."
    )


# ---- what others have ------------------------------------------------------------------------------------------------


def _lost(figures: Figures) -> str:
    lost = figures.get("lost_to", {})
    own = [f"job {job}" for job in lost.get("own_jobs", [])]
    others = lost.get("other_tenants_jobs", 0)
    if others:
        own.append("a job of another tenant" if others == 1 else f"{others} jobs of other tenants")
    has, gains = ("has", "gains") if len(own) == 1 and others < 2 else ("have", "gain")
    return (
        f"It would have fitted, but the room went to {listed(own)}, which {has} more priority or {gains} more from it."
        + _bound(figures.get("binding") or {})
    )


def _bound(binding: Figures) -> str:
    """The first shortfall if the job is added to the plan nevertheless."""
    resource = binding.get("resource", "")
    if resource == "trust" and binding.get("node"):
        return f" On {binding['node']} another tenant's jobs run under the same account."
    if resource not in RESOURCE_WORDS:
        return ""
    needed, left = count(binding["needed"], RESOURCE_WORDS[resource]), max(0, binding["available"])
    where = (
        "Of its tenant's quota"
        if resource.endswith("quota")
        else f"On {binding['node']}"
        if binding["node"]
        else "In all"
    )
    left = f"{gib(left)} is" if resource == "memory_mib" else are(left)
    return f" {where} it needs {needed}, and {left} left."


def awaited_words(figures: Figures) -> str:
    """Name the event that a job waits for: `other jobs to end`."""
    if "until" in figures:
        return f"its time, {figures['until']}"
    jobs = figures.get("depends_on") or []
    return f"{listed([f'job {job}' for job in jobs]) if jobs else 'other jobs'} to end"


# ---- the planning itself ---------------------------------------------------------------------------------------------


def _profiling(figures: Figures) -> str:
    on = listed([f"{each['gpu_type']} ({each['node']})" for each in figures.get("on", [])])
    where = f" on one GPU of {on}" if on else ""
    limit = f", for {figures['limit_s']:g} s at most" if "limit_s" in figures else ""
    return f"Its speed is being measured{where}{limit}. Then it is placed."


SENTENCES: Mapping[Reason, Callable[[Figures], str]] = {
    Reason.OUTSIDE_WINDOW: _outside_window,
    Reason.TENANT_QUOTA: _tenant_quota,
    Reason.NO_NODE_WITH_TYPE: _no_node_with_type,
    Reason.NOT_ENOUGH_IDLE_GPUS: _not_enough_idle_gpus,
    Reason.NOT_ENOUGH_MEMORY: lambda figures: _short(figures, MEMORY, "memory"),
    Reason.NOT_ENOUGH_CORES: lambda figures: _short(figures, "CPU cores", "CPU cores"),
    Reason.GPUS_SCATTERED: _gpus_scattered,
    Reason.LOST_TO_HIGHER_PRIORITY: _lost,
    Reason.DEPENDENCY: lambda figures: f"It waits for {awaited_words(figures)}.",
    Reason.HELD: lambda _: "It is held. Release it to let it queue.",
    Reason.PROFILING: _profiling,
    Reason.SOLVER_LIMIT: lambda figures: (
        f"The planning's time was up ({figures['limit_s']:g} s) before this job's turn. The next planning tries again."
    ),
    Reason.INVALID: lambda figures: f"It cannot be planned: {figures['detail']}.",
    Reason.NOT_PLANNED_YET: lambda _: "No planning has considered it yet. The next one will.",
    Reason.NODES_UNAVAILABLE: _nodes_unavailable,
    Reason.RESERVED: kept_words,
    Reason.TENANT_NOT_TRUSTED: _tenant_not_trusted,
    Reason.CHECKPOINT_ELSEWHERE: _checkpoint_elsewhere,
    Reason.RESTORED: _restored,
    Reason.SOFTWARE_MISSING: _software_missing,
    Reason.NO_SHARED_GPU: waiting_words,
    Reason.NODES_CLOSE: _nodes_close,
}
