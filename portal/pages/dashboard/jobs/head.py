"""The head of a job's page: its state, its place and owner, and the actions that it allows now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.engines.selectors import order_of
from portal.pages.dashboard.jobs.facts import facts_make
from portal.pages.dashboard.jobs.rows import actions_of, failed_count
from portal.pages.dashboard.jobs.running import extensions, idle_make
from portal.pages.dashboard.parts.plain import run_words, sizes_gpus
from portal.pages.dashboard.ports.views import ports_make
from portal.planning.templating.models import JobTemplate
from portal.work.jobs.listing import attempts_of
from portal.work.jobs.states import FINAL, LIVE, JobState

if TYPE_CHECKING:
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Attempt, Job

LABELS = {
    "cancel": "Cancel",
    "hold": "Hold",
    "release": "Release",
    "requeue": "Let it wait again",
    "retry": "Run again",
}
ICONS = {"cancel": "x", "hold": "player-pause", "release": "player-play"}
FRONT = frozenset({"hold", "release"})
"""Actions with a button of their own; the others stand in *More*, and *Cancel* at the end."""


def header_make(job: Job, attempts: Sequence[Attempt] | None = None, *, user: User | None = None) -> dict[str, Any]:
    """Fill the page's head as `user` sees it; None: an array's, without the actions of some.

    `attempts`: the job's runs, where they were read.
    """
    attempts = list(attempts_of(job)) if attempts is None else attempts
    ports = ports_make(job, user)
    return {
        "id": job.number,
        "name": job.name,
        "state": job.state,
        "since": _since(job, attempts),
        "line": _line(job, attempts, user),
        "facts": facts_make(job) if job.array_size else [],
        "actions": _actions(job),
        "extensions": extensions(job),
        "terminal_url": None if ports is None else reverse("job-terminal", args=[job.number]),
        "ports": ports or [],
        "idle": idle_make(job, user),
        "relaunch_url": f"{reverse('job-submit')}?from={job.array_id or job.pk}",
        "relaunch": "card" if job.state in LIVE and not job.array_size else "edit",
        "template": _template(job),
        "log": {"download_url": reverse("job-log-download", args=[job.number])} if attempts else None,
    }


def _line(job: Job, attempts: Sequence[Attempt], user: User | None) -> dict[str, Any]:
    """Return its GPUs and nodes, its owner, and how long it may run or ran."""
    done = job.state == JobState.COMPLETED
    return {
        "gpus": _gpus(job, attempts[0] if attempts else None),
        "nodes": _nodes(attempts[0]) if attempts else [],
        "owner": job.owner.username,
        "tenant": job.tenant.name if user is not None and user.is_operator else None,
        "array": job.array_id,
        "ran_s": job.ran_s if done else None,
        "waited_s": job.waited_s,
        "limit_s": job.time_limit_s if job.state not in FINAL else None,
        "submitted_at": job.submitted_at.isoformat() if job.state in FINAL and not done else None,
    }


def _nodes(run: Attempt) -> list[dict[str, str]]:
    """Return the nodes of a run; of an allocation also the job of the other scheduler that held it, by one query."""
    found = []
    for part in run.allocations.all():
        node = part.node
        order = order_of(node.pk, at=run.created_at) if node.is_allocation or node.ends_at or node.left_at else None
        held = f"{order.engine.scheduler} job {order.ticket}" if order is not None and order.ticket else ""
        found.append({"name": node.name, "held_by": held})
    return found


def _gpus(job: Job, run: Attempt | None) -> str:
    """Return 2 A100 of a job that runs or ran, and 4 RTX 3090 or 1, 2 or 4 GPUs of one that waits."""
    if job.gpus == [0]:
        cores = run.cores if run is not None else job.cores or 1
        return f"{cores} core{'' if cores == 1 else 's'}"
    if run is None:
        return (
            f"{sizes_gpus(job.gpus).rpartition(' ')[0]} {job.gpu_types[0]}"
            if len(job.gpu_types) == 1
            else sizes_gpus(job.gpus)
        )
    types = {str(part.node.gpu_type) for part in run.allocations.all() if part.node.gpu_type}
    return f"{run.gpus} {types.pop()}" if len(types) == 1 else f"{run.gpus} GPU{'' if run.gpus == 1 else 's'}"


def _template(job: Job) -> dict[str, Any]:
    """Return the way to the template that it was made of, and to one made of it."""
    made_of = job.brought.template
    is_there = bool(made_of) and JobTemplate.objects.filter(pk=made_of["id"]).exists()
    again = f"{reverse('template-use', args=[made_of['id']])}?from={job.number}" if is_there else None
    words = f"{made_of['name']} {made_of['version']}" if made_of else None
    return {"again_url": again, "words": words, "save_url": f"{reverse('template-new')}?from={job.number}"}


def _since(job: Job, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """Say since when it is in its state, which run that is, and how long a run took that did not end well."""
    moment, ran_s = job.submitted_at, None
    last = attempts[0] if attempts else None
    if job.state in FINAL:
        moment = job.ended_at
        if job.state != JobState.COMPLETED and last and last.started_at and last.ended_at and not job.array_size:
            ran_s = (last.ended_at - last.started_at).total_seconds()
    elif job.state in LIVE and last:
        moment = last.started_at or last.created_at
    elif last and last.ended_at:
        moment = last.ended_at
    return {
        "at": moment.isoformat(),
        "ended": job.state in FINAL,
        "ran_s": ran_s,
        "run": run_words(job.epoch) if job.epoch > 1 else None,
    }


def _actions(job: Job) -> list[dict[str, Any]]:
    running = job.state in LIVE
    confirm = {
        "cancel": f"Cancel job {job.number}?" + (" It is stopped on its node." if running else ""),
        "requeue": f"Stop job {job.number} and let it wait again?",
    }
    return [
        {
            "verb": verb,
            "label": f"Run {failed_count(job)} failed again" if verb == "retry" and job.array_size else LABELS[verb],
            "icon": ICONS.get(verb, "refresh"),
            "front": verb in FRONT or (verb == "retry" and bool(job.array_size)),
            "confirm": confirm.get(verb),
        }
        for verb in reversed(actions_of(job))
    ]
