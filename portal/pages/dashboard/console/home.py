"""The operator's home: problems, capacity against the queue, backups, last changes, the longest waits, idle GPUs."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import admin, messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from kombu.exceptions import OperationalError

from portal.cluster.models import HEALTHS
from portal.foundation.celery import app
from portal.operate.backups.automatic import hours_between
from portal.operate.backups.contents import layout_here
from portal.operate.backups.models import Backup
from portal.pages.dashboard.console.changes import changes_make
from portal.pages.dashboard.overview.problems import problems_make
from portal.pages.dashboard.overview.queue import unused_make, waits_make
from portal.pages.dashboard.parts.formatting import count_of
from portal.pages.dashboard.parts.snapshot import Snapshot, fragment_answer, page_numbers, shared_html
from portal.pages.dashboard.shell.frame import page_follow
from portal.planning.rounds.models import Planning
from portal.planning.rounds.settings.schedule import LABORATORY
from portal.work.jobs.queue_counts import demand_by_types

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest

FAILED_READ, NODES_NAMED = 20, 3
ANY = "any type"


def home(request: HttpRequest, _extra: Any = None) -> HttpResponse:
    page_follow(request, "cluster")
    snapshot = Snapshot(request.user)
    html = shared_html(snapshot, "console", "admin/_home.html", home_make, masked=True)
    if request.GET.get("fragment"):
        return fragment_answer(html, snapshot.sharing)
    page_numbers(request, snapshot.sharing)
    return render(request, "admin/index.html", {**admin.site.each_context(request), "html": {"home": html}})


def home_make(snapshot: Snapshot) -> dict[str, Any]:
    problems = problems_make(snapshot)
    problems["shown"] += _failed(snapshot.now)
    return {
        "problems": problems,
        "capacity": capacity_make(snapshot),
        "away": _away(snapshot),
        "backups": _backups(snapshot),
        "changes": changes_make(),
        "waits": waits_make(snapshot),
        "unused": unused_make(snapshot),
    }


def backup_now(request: HttpRequest) -> HttpResponse:
    """Ask the laboratory's worker for the backup that is due."""
    try:
        app.send_task("backups.make", queue=LABORATORY, retry=False, expires=60)
    except OperationalError:
        messages.error(request, "The broker does not answer, so nobody was asked. Berth asks again by itself.")
    else:
        messages.info(request, "The laboratory's worker was asked for a backup. It stands here when it is made.")
    return redirect("admin:index")


def capacity_make(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return each GPU type with its held, free and awaited GPUs. A job counts for each type that it may have."""
    facts = snapshot.facts
    held, free, total = Counter[str](), Counter[str](), Counter[str]()
    for place in facts.alive:
        kind = facts.own_types[place] or "several types"
        total[kind] += facts.gpus[place]
        held[kind] += facts.gpus_held[place]
        free[kind] += facts.idle(place)[0]
    jobs, gpus = Counter[str](), Counter[str]()
    for least, types, count in demand_by_types():
        for kind in types or [ANY]:
            jobs[kind] += count
            gpus[kind] += count * least
    kinds = [kind for kind in sorted(total) if total[kind]]
    return [
        {
            "kind": kind,
            "held": held[kind],
            "free": free[kind],
            "total": total[kind],
            "waits": f"{count_of(jobs[kind], 'job')} wait{'s' if jobs[kind] == 1 else ''}, {count_of(gpus[kind], 'GPU')}"
            if jobs[kind]
            else "",
        }
        for kind in [*kinds, *sorted(set(jobs) - set(kinds))]
    ]


def _away(snapshot: Snapshot) -> str:
    """Say which nodes take no jobs."""
    facts = snapshot.facts
    names = [
        f"{facts.names[place]} ({word})" for place in facts.alive if (word := HEALTHS[facts.health[place]]) != "up"
    ]
    if not facts.names or not names:
        return ""
    more = f" and {len(names) - NODES_NAMED} more" if len(names) > NODES_NAMED else ""
    lead = f"{len(names)} of {count_of(len(facts.names), 'node')} take{'s' if len(names) == 1 else ''} no jobs"
    return f"{lead}: {', '.join(names[:NODES_NAMED])}{more}."


def _backups(snapshot: Snapshot) -> dict[str, Any]:
    hours = hours_between()
    if not hours:
        why = "this is a demo" if settings.DEMO else "BERTH_BACKUP_HOURS is 0"
        return {"none": f"No backups are made: {why}."}
    last = Backup.objects.first()
    kept = len(list(layout_here().backups.glob("*")))
    due = last and last.at + timedelta(hours=hours)
    return {
        "last": last,
        "last_at": last and last.at.isoformat(),
        "is_late": bool(due and due < snapshot.now),
        "next_at": due and due > snapshot.now and due.isoformat(),
        "kept": kept,
    }


def _failed(now: datetime) -> list[dict[str, Any]]:
    """The plannings that failed within a day, as one problem."""
    rows = Planning.objects.filter(status=Planning.Status.FAILED, started_at__gt=now - timedelta(days=1))
    failed = list(rows.only("pk", "error", "started_at")[:FAILED_READ])
    if not failed:
        return []
    what = f"{count_of(len(failed), 'planning')}{' or more' if len(failed) == FAILED_READ else ''} failed in a day"
    return [
        {
            "what": what,
            "since": failed[0].started_at.isoformat(),
            "note": failed[0].error[:160],
            "act": "See the last",
            "url": reverse("admin:rounds_planning_change", args=[failed[0].pk]),
            "mild": True,
            "posts": False,
        }
    ]
