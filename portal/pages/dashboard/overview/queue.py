"""The overview's right side and its notice: next jobs, tenants' GPUs, and idle GPUs beside waiting jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.board.facts import UP
from portal.pages.dashboard.parts.expected import starts_make
from portal.pages.dashboard.parts.formatting import number
from portal.pages.dashboard.parts.snapshot import OTHER_TENANT
from portal.pages.dashboard.parts.waiting import aside_words
from portal.people.tenants.models import Tenant
from portal.planning.rounds.read.figures import JobNumbers
from portal.planning.rounds.read.forecasts import foretold_first, ranges_trust, start_told
from portal.planning.rounds.read.kept import places_kept
from portal.planning.rounds.read.needs import start_need
from portal.planning.rounds.read.selectors import waited_s
from portal.planning.rounds.record.decisions import decisions_or_none
from portal.work.jobs.queue_counts import first_in_order
from portal.work.jobs.selectors import ANOTHERS
from portal.work.jobs.use import gpus_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.pages.dashboard.parts.context import StartsContext
    from portal.pages.dashboard.parts.snapshot import Snapshot
    from portal.planning.rounds.models import StartForecast
    from portal.work.jobs.models import Job

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
    "no-shared-gpu": "{n} share{s} GPUs, and none of these takes more now",
    "software-missing": "{n} need{s} a node with other software",
    "checkpoint-elsewhere": "{n} need{s} a node that can read the checkpoint",
    "tenant-not-trusted": "{n} may not share a node's account with another tenant",
    "solver-limit": "{n} {were} not settled within the solver's time limit",
    "reserved": "{n} would fit, but what idles is kept for other jobs",
    "profiling": "{n} {have} the speed measured first",
}


def needs_words(gpus: list[int]) -> str:
    """[4, 8] -> needs 4 or 8; [0] -> needs no GPU; [1, 2, 3, 4] -> needs 1 to 4."""
    if gpus == [0]:
        return "needs no GPU"
    if len(gpus) > 2:
        return f"needs {gpus[0]} to {gpus[-1]}"
    return "needs " + " or ".join(map(str, gpus))


# ---- next to start ---------------------------------------------------------------------------------------------------


def next_context(snapshot: Snapshot) -> dict[str, Any]:
    """Return the jobs that are expected to start next, an array as one row.

    Those with a start range come by its middle, then the others in the order of the last planning, then who came after it.
    """
    decisions = decisions_or_none(snapshot.planning)
    ranges = foretold_first()
    found = first_in_order([*ranges, *decisions.jobs[decisions.following].tolist()], count=NEXT_SHOWN)
    told = _Told([job for job, _ in found], ranges, snapshot)
    not_counted = aside_words(snapshot.queue.aside())
    return {
        "jobs": [_next_job(job, times, told) for job, times in found],
        "trust": ranges_trust() if told.ranges else None,
        "not_counted": not_counted,
        "empty": " ".join(filter(None, ["No job waits for its turn.", not_counted])),
    }


class _Told:
    """The kept forecasts of these jobs: start ranges, and for visible jobs the GPUs that must come free."""

    def __init__(self, jobs: Sequence[Job], ranges: Mapping[int, StartForecast], snapshot: Snapshot) -> None:
        self.reader, self._now, self.ranges = snapshot.reader, snapshot.now, ranges
        own = [job for job in jobs if self.reader.sees(job.tenant_id)]
        self._numbers = JobNumbers(job.reason_figures for job in own)
        self._kept = places_kept(own, snapshot.planning)

    def first(self, job: Job) -> str | None:
        """Say what must come free first, and where."""
        if not self.reader.sees(job.tenant_id):
            return None
        return self._kept.get(job.pk) or start_need(job.reason, self._numbers.told(job.reason_figures))

    def starts(self, job: Job) -> StartsContext | None:
        return starts_make(start_told(self.ranges.get(job.pk), self._now))


def _next_job(job: Job, count: int, told: _Told) -> dict[str, Any]:
    shown = told.reader.sees(job.tenant_id)
    label = job.array_id if count > 1 else job.number
    times = f" \u00d7 {count}" if count > 1 else ""
    waited = waited_s(job)
    return {
        "job_id": label if shown else None,
        "url": reverse("job-detail", args=[label]) if shown else None,
        "name": (job.name if shown else ANOTHERS) + times,
        "tenant": job.tenant.name if shown else OTHER_TENANT,
        "needs": needs_words(job.gpus),
        "reason": job.reason or NOT_PLANNED,
        "first": told.first(job),
        "lr": waited / job.age_s if job.age_s else None,
        "waited_s": waited,
        "starts": told.starts(job),
    }


# ---- tenants ---------------------------------------------------------------------------------------------------------


def tenant_shares(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return each tenant's GPUs; tenants without the reader as a member are one row."""
    held = defaultdict[int, float](float, {int(pk): gpus for pk, gpus in snapshot.facts.held_by_tenant.items()})
    tenants = list(Tenant.objects.filter(is_active=True))
    own = [tenant for tenant in tenants if snapshot.reader.sees(tenant.pk)]
    rows = [_share(tenant.name, held[tenant.pk], tenant.gpu_quota, snapshot.gpus_total) for tenant in own]
    if len(own) < len(tenants):
        rest = gpus_of(round(1000 * (sum(held.values()) - sum(held[tenant.pk] for tenant in own))))
        rows.append(_share("other tenants", rest, None, snapshot.gpus_total))
    return rows


def _share(name: str, held: float, quota: int | None, total: int) -> dict[str, Any]:
    return {
        "name": name,
        "held": gpus_of(round(1000 * held)),
        "quota": quota,
        "total": total,
        "share": held / total if total else 0.0,
        "full": quota is not None and held >= quota,
    }


# ---- notice ----------------------------------------------------------------------------------------------------------


def idle_notice(snapshot: Snapshot) -> dict[str, Any] | None:
    """Say that GPUs idle while eligible jobs wait, once a planning has looked at those jobs."""
    stuck: Counter[str] = Counter()
    for group in snapshot.queue.eligible:
        if group.gpus and group.reason not in {"", NOT_PLANNED}:
            stuck[group.reason] += group.jobs
    facts = snapshot.facts
    idle, jobs = sum(facts.idle(place)[0] for place, health in enumerate(facts.health) if health == UP), stuck.total()
    if not idle or not jobs:
        return None
    apart, most = gpus_for_sharing(snapshot), largest_block(snapshot)
    more = f" (besides {number(apart)} for jobs that share a GPU)" if apart else ""
    return {
        "lead": f"{number(idle)} GPU{'s idle' if idle != 1 else ' idle'}{more}, at most {most} on one node, while "
        f"{number(jobs)} job{'s wait' if jobs != 1 else ' waits'}.",
        "text": _causes(stuck, snapshot.queue.aside()["tenant-quota"]),
        "url": reverse("cluster"),
        "link": "Fragmentation",
    }


def largest_block(snapshot: Snapshot) -> int:
    """Return the most idle GPUs of one node that one job could have."""
    return max((each.most for own in snapshot.facts.blocks for each in own), default=0)


def gpus_for_sharing(snapshot: Snapshot) -> int:
    """Return how many GPUs are for jobs that share one, and have none: a job that wants whole GPUs does not get them."""
    facts = snapshot.facts
    return sum(facts.for_sharing(place) for place in range(len(facts.names)))


def _causes(stuck: Counter[str], at_quota: int) -> str:
    words = [
        _BECAUSE.get(reason, f"{{n}} wait{{s}}: {reason}").format(
            n=number(n), s="s" if n == 1 else "", were="was" if n == 1 else "were", have="has" if n == 1 else "have"
        )
        for reason, n in stuck.most_common()
    ]
    if at_quota:
        words.append(f"{number(at_quota)} more wait{'s' if at_quota == 1 else ''} for a tenant's quota")
    return f"{'; '.join(words)}." if words else ""
