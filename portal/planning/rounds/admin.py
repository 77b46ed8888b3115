"""The console of operators: plannings with every decision, rounds, and beat's schedule; the knobs beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django_celery_beat import models as beat

from portal.foundation.console.base import ConsoleAdmin, ConsoleInline
from portal.foundation.console.fields import TimeRange
from portal.foundation.console.show import block, facts, mark
from portal.planning.rounds.admin_knobs import PolicyAdmin
from portal.planning.rounds.models import OperatorSetting, Planning, Round
from portal.planning.rounds.read.figures import JobNumbers
from portal.planning.rounds.read.selectors import figures_of
from portal.planning.rounds.record.decisions import decisions_read
from portal.planning.rounds.record.explanations import explanations_of
from portal.work.jobs.models import Job
from scheduler.explaining.sentences import sentence

DECISIONS_A_PAGE = 100


admin.site.register(OperatorSetting, PolicyAdmin)
BEAT = (beat.PeriodicTask, beat.IntervalSchedule, beat.CrontabSchedule, beat.SolarSchedule, beat.ClockedSchedule)
for foreign in BEAT:
    if admin.site.is_registered(foreign):
        admin.site.unregister(foreign)


@admin.register(Planning)
class PlanningAdmin(ConsoleAdmin):
    list_display = tuple(
        """
            number started_at state policy queue_length window_jobs placed dropped took round
        """.split()
    )
    list_filter = ("status", "policy", ("started_at", TimeRange))
    list_select_related = ("round",)
    search_fields = ("=number",)
    fields = readonly_fields = ("number", "round", "started_at", "state", "policy", "failure")

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).defer("decisions")

    @admin.display(description="Status", ordering="status")
    def state(self, obj: Planning) -> str:
        return mark(obj.status)

    @admin.display(description="Took (ms)")
    def took(self, obj: Planning) -> str:
        return f"{1000 * (obj.load_s + obj.plan_s + obj.apply_s):.0f}"

    @admin.display(description="Error")
    def failure(self, obj: Planning) -> str:
        return block(obj.error)

    def page_context(self, request: HttpRequest, obj: Planning | None) -> dict[str, Any]:
        """One page of decisions, in queue order, each with the sentence its job's page shows."""
        if obj is None:
            return {}
        decided = decisions_read(obj)
        page = Paginator(range(len(decided)), DECISIONS_A_PAGE).get_page(request.GET.get("decisions"))
        entries = [decided.entry(place) for place in page.object_list]
        below = "admin/planning_decisions.html"
        return {
            "below": below,
            "figures": figures(obj),
            "decisions": page,
            "decision_rows": decision_rows(entries, obj.number),
        }


def figures(planning: Planning) -> list[tuple[str, str]]:
    """A planning's figures as titled tables."""
    counts = {name: getattr(planning, name) for name in ("queue_length", "window_jobs", "placed", "dropped")}
    times = {name: round(getattr(planning, name), 4) for name in ("load_s", "plan_s", "apply_s")}
    return [
        ("Queue and time", facts(counts | times)),
        ("Solver", facts(planning.solver)),
        ("Metrics", facts(planning.metrics)),
        ("Settings in force", facts(planning.parameters)),
    ]


def decision_rows(decisions: Sequence[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """Decisions for a table, in three queries: a job that was deleted since keeps its number."""
    ids = [each["job"] for each in decisions]
    jobs = {job.pk: job for job in Job.objects.filter(pk__in=ids).select_related("tenant")}
    details = explanations_of(ids, number=number)
    figures = [
        figures_of(each, jobs[each["job"]], details.get(each["job"])) if each["job"] in jobs else {}
        for each in decisions
    ]
    numbers = JobNumbers(figures)
    return [
        _row(each | {"figures": numbers.told(own)}, jobs.get(each["job"]))
        for each, own in zip(decisions, figures, strict=True)
    ]


def _row(decision: dict[str, Any], job: Job | None) -> dict[str, Any]:
    placed = [
        f"{piece['node']}: {len(piece['gpus'])} GPU, {piece['cores']} cores" for piece in decision["placement"] or []
    ]
    return decision | {
        "number": job.number if job else decision["job"],
        "name": job.name if job else "",
        "tenant": job.tenant.name if job else "",
        "url": reverse("admin:jobs_job_change", args=[job.pk]) if job else "",
        "words": _words(decision, placed),
    }


def _words(decision: dict[str, Any], placed: list[str]) -> str:
    """The sentence; figures of an older version that no longer fit it are shown as they stand."""
    if decision["reason"] is None and not decision["figures"].get("nodes"):
        return "; ".join(placed)
    try:
        return sentence(decision["reason"], decision["figures"])
    except (KeyError, TypeError, ValueError):
        return ", ".join(f"{name}: {value}" for name, value in decision["figures"].items())


class PlanningInline(ConsoleInline):
    model = Planning
    fields = readonly_fields = ("number", "started_at", "status", "queue_length", "window_jobs", "placed", "dropped")
    per_page = 30
    show_change_link = True

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).defer("decisions")


@admin.register(Round)
class RoundAdmin(ConsoleAdmin):
    list_display = ("number", "started_at", "ended_at", "plannings_count")
    search_fields = ("=number",)
    fields = readonly_fields = ("number", "started_at", "ended_at")
    inlines = (PlanningInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(count=Count("plannings"))

    @admin.display(description="Plannings")
    def plannings_count(self, obj: Any) -> int:
        return obj.count


@admin.register(beat.PeriodicTask)
class PeriodicTaskAdmin(ConsoleAdmin):
    """To read only: Berth makes these rows itself; the planning's interval is the setting tick_s."""

    list_display = ("name", "every", "enabled", "last_run_at", "total_run_count")
    list_select_related = ("interval",)
    fields = readonly_fields = ("name", "task", "every", "enabled", "last_run_at", "total_run_count")

    @admin.display(description="Interval")
    def every(self, obj: beat.PeriodicTask) -> str:
        return str(obj.interval) if obj.interval else str(obj.crontab or "")
