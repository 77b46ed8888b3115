"""The console of operators: the policy settings, plannings with every decision, rounds, and beat's schedule.

The settings' page has a row a knob of `portal.planning.rounds.settings.knobs`, saved through `settings_update`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django_celery_beat import models as beat
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import RangeDateTimeFilter

from portal.foundation.console.base import ConsoleAdmin, OperatorOnly, is_operator
from portal.foundation.console.show import block, facts, mark
from portal.foundation.errors import BerthError, Forbidden
from portal.planning.rounds.models import OperatorSetting, Planning, Round
from portal.planning.rounds.read.figures import JobNumbers
from portal.planning.rounds.read.selectors import figures_of
from portal.planning.rounds.record.decisions import decisions_read
from portal.planning.rounds.record.explanations import explanations_of
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import KNOBS, knobs_current
from portal.work.jobs.models import Job
from scheduler.explaining.sentences import sentence
from scheduler.setting import Setting, value_words


def value_shown(value: Any) -> str:
    """A knob's value in its field: 30, not 30.0; None is empty."""
    return "" if value is None else value_words(value)


def _field(knob: Setting) -> forms.Field:
    if knob.choices:
        return forms.ChoiceField(choices=[(word, word) for word in knob.choices])
    kind = forms.IntegerField if isinstance(knob.default, int) else forms.FloatField
    low, high = knob.bounds or (None, None)
    widget = forms.NumberInput(attrs={"step": "any", "min": low, "max": high})
    # The range is the service's to check, in one place; the browser only helps.
    return kind(required=not knob.optional, widget=widget)


class PolicyForm(forms.Form):
    """A field a knob, named as the knob."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for knob in KNOBS:
            self.fields[knob.name] = _field(knob)


class PolicyAdmin(ConsoleAdmin):
    """There is nothing to list: the list's URL is the one page with all knobs."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not is_operator(request):
            raise Forbidden("Only an operator may do this.", code="operator_only")
        values = knobs_current()
        form = PolicyForm(initial={name: value_shown(value) for name, value in values.items()})
        if request.method == "POST":
            form = PolicyForm(request.POST)
            if self._save(request, form):
                return HttpResponseRedirect(request.path)
        context = {
            **self.admin_site.each_context(request),
            "title": "Policy settings",
            "form": form,
            "groups": _groups(form, values),
        }
        return TemplateResponse(request, "admin/policy.html", context, status=400 if form.errors else 200)

    def _save(self, request: HttpRequest, form: PolicyForm) -> bool:
        """Set one knob back (`reset` names it) or all to the form's values; a refusal is shown at its field."""
        before = knobs_current()
        try:
            if reset := request.POST.get("reset"):
                defaults = {knob.name: knob.default for knob in KNOBS}
                form.errors.clear()
                after = settings_update(actor=request.user, **{reset: defaults.get(reset)})
            elif form.is_valid():
                after = settings_update(actor=request.user, **form.cleaned_data)
            else:
                return False
        except BerthError as error:
            form.add_error(error.field if error.field in form.fields else None, error.detail)
            return False
        changed = [
            f"{name} {value_words(before[name])} to {value_words(after[name])}"
            for name in after
            if before[name] != after[name]
        ]
        messages.success(request, f"Changed: {'; '.join(changed)}." if changed else "Nothing was changed.")
        return True


def _groups(form: PolicyForm, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The knobs as the page shows them: title and rows of each group."""
    changes = {row.name: row for row in OperatorSetting.objects.select_related("updated_by")}
    return [
        {"title": title, "rows": [_knob_row(knob, form, values[knob.name], changes.get(knob.name)) for knob in knobs]}
        for title, knobs in groupby(KNOBS, key=lambda knob: knob.group)
    ]


def _knob_row(knob: Setting, form: PolicyForm, value: Any, change: OperatorSetting | None) -> dict[str, Any]:
    return {
        "knob": knob,
        "field": form[knob.name],
        "is_default": value == knob.default,
        "change": change,
    }


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
    list_filter = ("status", "policy", ("started_at", RangeDateTimeFilter))
    list_filter_submit = True
    list_select_related = ("round",)
    search_fields = ("=number",)
    fields = readonly_fields = ("number", "round", "started_at", "state", "policy", "failure")
    change_form_after_template = "admin/planning_decisions.html"

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
        return {"figures": figures(obj), "decisions": page, "decision_rows": decision_rows(entries, obj.number)}


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


class PlanningInline(OperatorOnly, TabularInline):
    model = Planning
    fields = readonly_fields = ("number", "started_at", "status", "queue_length", "window_jobs", "placed", "dropped")
    extra = 0
    hide_title = True
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
