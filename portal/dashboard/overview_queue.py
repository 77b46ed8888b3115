"""The overview's right side and its notice: who is next, what each tenant holds, and idle GPUs beside waiting jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from django.urls import reverse

from portal.dashboard.masking import ANOTHERS, OTHER_TENANT
from portal.jobs.states import JobState
from portal.rounds.decisions import decisions_read
from portal.tenants.models import Tenant

if TYPE_CHECKING:
    from portal.dashboard.overview_context import NextContext, NextJob, Notice, TenantShare
    from portal.dashboard.snapshot import Snapshot
    from portal.jobs.occupancy import Waiting

NEXT_SHOWN = 5
NOT_PLANNED = "not-planned-yet"
_BECAUSE = {
    "gpus-scattered": "{n} need{s} more GPUs on one node than any has idle",
    "not-enough-idle-gpus": "{n} need{s} more GPUs than are idle",
    "not-enough-cores": "{n} find{s} too few idle cores beside the idle GPUs",
    "not-enough-memory": "{n} find{s} too little memory beside the idle GPUs",
    "outside-window": "{n} stand{s} outside the planning's window",
    "lost-to-higher-priority": "{n} lost to jobs ahead",
    "no-node-with-type": "{n} ask{s} for another GPU type",
    "nodes-unavailable": "{n} need{s} nodes that take no jobs now",
    "checkpoint-elsewhere": "{n} need{s} a node that can read the checkpoint",
    "tenant-not-trusted": "{n} may not share a node's account with another tenant",
    "solver-limit": "{n} {were} not settled within the solver's time limit",
}


def needs_words(gpus: list[int]) -> str:
    """[4, 8] -> needs 4 or 8; [0] -> needs no GPU; [1, 2, 3, 4] -> needs 1 to 4."""
    if gpus == [0]:
        return "needs no GPU"
    if len(gpus) > 2:
        return f"needs {gpus[0]} to {gpus[-1]}"
    return "needs " + " or ".join(map(str, gpus))


# ---- next to start ---------------------------------------------------------------------------------------------------


def next_context(snapshot: Snapshot) -> NextContext:
    jobs = [_next_job(run, snapshot) for run in _runs(queue_order(snapshot))[:NEXT_SHOWN]]
    not_counted = _not_counted(snapshot.waiting)
    return {
        "jobs": jobs,
        "not_counted": not_counted,
        "empty": " ".join(filter(None, ["No job waits for its turn.", not_counted])),
    }


def queue_order(snapshot: Snapshot) -> list[Waiting]:
    """Return the eligible jobs in the order of the last planning; those that came after it stand behind."""
    decisions = decisions_read(snapshot.planning)
    known = zip(decisions.jobs.tolist(), decisions.columns["rank"].tolist(), strict=True)
    ranks = {job: rank for job, rank in known if rank}
    counted = [job for job in snapshot.waiting if job.counts]
    return sorted(counted, key=lambda job: ranks.get(job.id, len(decisions) + job.id))


def _runs(jobs: list[Waiting]) -> list[list[Waiting]]:
    """Fold an array's tasks at the place of the first."""
    runs: dict[tuple[str, int], list[Waiting]] = {}
    for job in jobs:
        key = ("array", job.array_id) if job.array_id else ("job", job.id)
        runs.setdefault(key, []).append(job)
    return list(runs.values())


def _next_job(run: list[Waiting], snapshot: Snapshot) -> NextJob:
    first = run[0]
    shown = snapshot.reader.sees(first.tenant_id)
    label = first.array_id or first.id
    if first.array_id and len(run) == 1:
        label = f"{first.array_id}_{first.array_index}"
    times = f" \u00d7 {len(run)}" if len(run) > 1 else ""
    return {
        "job_id": label if shown else None,
        "url": reverse("job-detail", args=[label]) if shown else None,
        "name": (first.name if shown else ANOTHERS) + times,
        "tenant": first.tenant if shown else OTHER_TENANT,
        "needs": needs_words(first.gpus),
        "reason": first.reason or NOT_PLANNED,
        "lr": first.latency_ratio(snapshot.now),
        "waited_s": first.waited_s(snapshot.now),
    }  # type: ignore[typeddict-item]


def _not_counted(waiting: list[Waiting]) -> str | None:
    """Say what else is in the queue but does not wait for its turn."""
    others = Counter(_aside(job) for job in waiting if not job.counts)
    words = [
        f"{count} {phrase if count == 1 else plural}"
        for kind, phrase, plural in (
            ("dependency", "waits on a dependency", "wait on a dependency"),
            ("tenant-quota", "waits for its tenant's quota", "wait for their tenant's quota"),
            ("held", "held", "held"),
            ("invalid", "cannot be planned", "cannot be planned"),
        )
        if (count := others[kind])
    ]
    return f"Not counted: {', '.join(words)}." if words else None


def _aside(job: Waiting) -> str:
    return "held" if job.state == JobState.HELD else job.reason


# ---- tenants ---------------------------------------------------------------------------------------------------------


def tenant_shares(snapshot: Snapshot) -> list[TenantShare]:
    """Return what each tenant holds; those that the reader is not a member of are one row."""
    held: Counter[int] = Counter()
    for part in snapshot.parts:
        held[part.attempt.job.tenant_id] += len(part.gpu_allocations.all())
    tenants = list(Tenant.objects.filter(is_active=True))
    own = [tenant for tenant in tenants if snapshot.reader.sees(tenant.pk)]
    rows = [_share(tenant.name, held[tenant.pk], tenant.gpu_quota, snapshot.gpus_total) for tenant in own]
    if len(own) < len(tenants):
        rest = sum(held.values()) - sum(held[tenant.pk] for tenant in own)
        rows.append(_share("other tenants", rest, None, snapshot.gpus_total))
    return rows


def _share(name: str, held: int, quota: int | None, total: int) -> TenantShare:
    return {
        "name": name,
        "held": held,
        "quota": quota,
        "total": total,
        "share": held / total if total else 0.0,
        "full": quota is not None and held >= quota,
    }


# ---- notice ----------------------------------------------------------------------------------------------------------


def idle_notice(snapshot: Snapshot) -> Notice | None:
    """Say that GPUs idle while eligible jobs wait, once a planning has looked at those jobs."""
    blocks = idle_blocks(snapshot)
    stuck = [job for job in snapshot.waiting if job.counts and job.gpus != [0] and job.reason not in {"", NOT_PLANNED}]
    idle = sum(blocks)
    if not idle or not stuck:
        return None
    return {
        "lead": f"{idle} GPU{'s idle' if idle != 1 else ' idle'}, at most {max(blocks)} on one node, while "
        f"{len(stuck)} job{'s wait' if len(stuck) != 1 else ' waits'}.",
        "text": _causes(stuck, snapshot),
        "url": reverse("cluster"),
        "link": "Fragmentation",
    }


def idle_blocks(snapshot: Snapshot) -> list[int]:
    """Return the idle GPUs of each node that takes jobs."""
    return [
        len(node.gpus_present) - sum(len(part.gpu_allocations.all()) for part in snapshot.parts_by_node[node.pk])
        for node in snapshot.nodes
        if node.is_schedulable
    ]


def _causes(stuck: list[Waiting], snapshot: Snapshot) -> str:
    counts = Counter(job.reason for job in stuck)
    words = [
        _BECAUSE[reason].format(n=n, s="s" if n == 1 else "", were="was" if n == 1 else "were")
        for reason, n in counts.most_common()
        if reason in _BECAUSE
    ]
    quota = sum(1 for job in snapshot.waiting if _aside(job) == "tenant-quota")
    if quota:
        words.append(f"{quota} more wait{'s' if quota == 1 else ''} for a tenant's quota")
    return f"{'; '.join(words)}." if words else ""
