"""The things that need me: new failures, offers that start a job sooner, quotas and time limits that are near."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.jobs.query import MINE, WITHIN, ListQuery, states_named
from portal.pages.dashboard.parts.formatting import duration, number
from portal.pages.dashboard.parts.waiting import WAITING, quota_near
from portal.people.accounts.models import Looked
from portal.planning.estimation.selectors import progress_fractions
from portal.planning.offers.models import JobOffers
from portal.planning.rounds.read.ends import expected_end, limit_at
from portal.work.jobs.models import Attempt
from portal.work.jobs.states import LIVE, QUEUED, RETRIED, JobState

if TYPE_CHECKING:
    from portal.pages.dashboard.home.scope import Scope
    from portal.work.jobs.models import Job

SHOWN = 3
FAILED_WITHIN = "7d"
OFFER_AGE = timedelta(minutes=10)
LIMIT_AHEAD = timedelta(hours=2)
READ_MOST = 200
WORDS = {
    JobState.FAILED: "failed",
    JobState.OUT_OF_MEMORY: "ran out of memory",
    JobState.TIMEOUT: "timed out",
    JobState.NODE_FAIL: "was lost with its node",
}


def needs_make(scope: Scope) -> list[dict[str, Any]]:
    """Return at most three lines. `what` and `jobs` say which line a dismissal puts aside. Eight queries at most."""
    lines = [*_failures(scope), *_offers(scope), *_limits(scope), *_quotas(scope)]
    return lines[:SHOWN]


def _seen(scope: Scope, what: str) -> set[int]:
    return set(Looked.objects.filter(user=scope.user, what=what).values_list("job_id", flat=True))


def _failures(scope: Scope) -> list[dict[str, Any]]:
    mine = scope.jobs.filter(owner=scope.user, state__in=RETRIED, ended_at__gte=scope.now - WITHIN[FAILED_WITHIN][1])
    seen = Looked.objects.filter(user=scope.user, what="end").values("job_id")
    fresh = mine.exclude(pk__in=seen).order_by("-ended_at")
    jobs = list(fresh[:READ_MOST])
    if not jobs:
        return []
    if len(jobs) == 1:
        return [_failure(jobs[0])]
    count = len(jobs) if len(jobs) < READ_MOST else fresh.count()
    listed = ListQuery(owner=MINE, state=states_named(RETRIED), when="ended", within=FAILED_WITHIN, looked="no")
    names = ", ".join(f"#{job.number}" for job in jobs[:4]) + (" and more" if len(jobs) > 4 else "")
    return [
        {
            "icon": "s-failed",
            "tone": "fail",
            "lead": f"{number(count)} jobs ended badly:",
            "text": names,
            "url": listed.url(),
            "act": "See failed",
            "what": "end",
            "jobs": ",".join(str(job.pk) for job in jobs),
        }
    ]


def _failure(job: Job) -> dict[str, Any]:
    return {
        "icon": "s-failed",
        "tone": "fail",
        "lead": f"#{job.number} {job.name} {WORDS.get(JobState(job.state), 'failed')}",
        "text": job.end_detail,
        "url": reverse("job-detail", args=[job.number]),
        "act": "See why",
        "what": "end",
        "jobs": str(job.pk),
    }


def _offers(scope: Scope) -> list[dict[str, Any]]:
    """Offers that were worked out lately for my waiting jobs, start them at once and have them over sooner."""
    kept = JobOffers.objects.filter(
        job__owner=scope.user, job__state=JobState.PENDING, at__gte=scope.now - OFFER_AGE
    ).select_related("job")
    rows = list(kept.order_by("job_id")[:READ_MOST])
    seen = _seen(scope, "offer") if rows else set()
    lines: list[dict[str, Any]] = []
    for row in rows:
        offer = next((each for each in row.answer["offers"] if each["starts"] and each["gains"]), None)
        if offer is None or row.job_id in seen:
            continue
        on, words = "".join(f"on {name} " for name in list(offer["nodes"])[:1]), offer["words"]
        url = reverse("job-detail", args=[row.job.number])
        lines.append(
            {
                "icon": "s-waiting",
                "tone": "wait",
                "lead": f"#{row.job.number} could start now",
                "text": f"{on}if you {words[0].lower()}{words[1:]}.",
                "url": f"{url}#offers",
                "act": "See offer",
                "what": "offer",
                "jobs": str(row.job_id),
            }
        )
    return lines[:1]


def _limits(scope: Scope) -> list[dict[str, Any]]:
    """My running jobs that reach their time limit soon, before they would be done."""
    live = (
        Attempt.objects.runs()
        .live()
        .filter(job__owner=scope.user, job__time_limit_s__isnull=False, started_at__isnull=False)
        .select_related("job__tenant")[:READ_MOST]
    )
    attempts = list(live)
    seen = _seen(scope, "limit") if attempts else set()
    done = progress_fractions([attempt.job for attempt in attempts]) if attempts else {}
    lines: list[dict[str, Any]] = []
    for attempt in attempts:
        job, at = attempt.job, limit_at(attempt.job, attempt)
        fraction = done.get(job.pk)
        if at is None or job.pk in seen or not scope.now <= at <= scope.now + LIMIT_AHEAD:
            continue
        end = expected_end(job, attempt, fraction, scope.now)
        if fraction is None or end is None or end.median_at != at:
            continue  # it is done before, or nobody knows
        lines.append(
            {
                "icon": "s-time-limit",
                "tone": "wait",
                "lead": f"#{job.number} {job.name} reaches its time limit in {duration((at - scope.now).total_seconds())}",
                "text": f"with {fraction:.0%} done.".replace("%", "\u00a0%"),
                "url": reverse("job-detail", args=[job.number]),
                "act": "Open",
                "what": "limit",
                "jobs": str(job.pk),
            }
        )
    return lines[:1]


def _quotas(scope: Scope) -> list[dict[str, Any]]:
    for tenant in scope.tenants:
        if (found := quota_near(tenant, scope.use[tenant.pk])) is not None:
            label, used, quota, after = found
            line = {
                "icon": "alert-triangle",
                "tone": "wait",
                "lead": f"{tenant.name} uses {number(used)} of its {number(quota)} {label}:",
                "text": after,
                "url": ListQuery(tenant=tenant.name, state=states_named(QUEUED if label == WAITING else LIVE)).url(),
                "act": "Its waiting jobs" if label == WAITING else "Its running jobs",
                "what": "",
                "jobs": "",
            }
            return [line]
    return []
