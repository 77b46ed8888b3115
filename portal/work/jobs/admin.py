"""Jobs with their attempts, for operators: facts to read, and deeds on a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from portal.foundation.console.base import Command, ConsoleAdmin, ConsoleInline, calls
from portal.foundation.console.fields import TimeRange
from portal.foundation.console.show import block, code, column, facts, mark
from portal.work.jobs.declaration.table import PLAIN
from portal.work.jobs.models import Attempt, Job, JobEvent
from portal.work.jobs.services import control
from portal.work.jobs.states import FINAL, QUEUED, JobState

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

GPUS = column("gpus", "GPUs")
GPU_TYPES = column("gpu_types", "GPU types")


class AttemptInline(ConsoleInline):
    model = Attempt
    fk_name = "job"
    fields = readonly_fields = tuple(
        """
            kind epoch state_shown on_nodes gpus cores planning_number started_at ended_at exit_code signal end_detail
        """.split()
    )
    per_page = 20

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).prefetch_related("allocations__node")

    @admin.display(description="State")
    def state_shown(self, obj: Attempt) -> str:
        return mark(obj.state, obj.get_state_display())

    @admin.display(description="Nodes")
    def on_nodes(self, obj: Attempt) -> str:
        return ", ".join(part.node.name for part in obj.allocations.all())


class JobEventInline(ConsoleInline):
    model = JobEvent
    fields = readonly_fields = ("at", "kind", "epoch", "text", "actor_name")
    per_page = 20
    verbose_name_plural = "What happened to it"


@admin.register(Job)
class JobAdmin(ConsoleAdmin):
    list_display = (
        "number",
        "name",
        "tenant",
        "owner",
        "state_shown",
        "reason_shown",
        GPUS,
        "priority",
        "submitted_at",
    )
    list_filter = ("state", "tenant", "category", ("submitted_at", TimeRange))
    list_select_related = ("tenant", "owner")
    search_fields = ("=id", "name", "owner__username")
    search_help_text = "Number, name or owner"
    inlines = (AttemptInline, JobEventInline)
    fieldsets = (
        (None, {"fields": ("number", "name", "tenant", "owner", "state_shown", "exit_code", "signal", "end_detail")}),
        ("Why it waits", {"fields": ("reason_shown", "figures", "reason_at", "in_window", "held_by")}),
        ("What it asks for", {"fields": (GPUS, GPU_TYPES, *(each.name for each in PLAIN if each.name != "name"))}),
        ("What it does", {"fields": ("command", "labels")}),
        (
            "Times and counts",
            {
                "fields": tuple(
                    """
                        submitted_at started_at ended_at waited_s age_s age_source epoch failures requeues preemptions
                    """.split()
                )
            },
        ),
    )
    readonly_fields = tuple(name for _, group in fieldsets for name in group["fields"])
    commands = (
        Command(
            "cancel",
            "Cancel",
            "A waiting job ends at once; a running one gets SIGTERM, and SIGKILL after its grace. An array goes with all "
            "its tasks.",
            calls(control.job_cancel, "job"),
            lambda job: job.state not in FINAL,
            is_destructive=True,
        ),
        Command(
            "hold",
            "Hold",
            "It keeps its place and does not start until somebody releases it. Held time does not count as waiting.",
            calls(control.job_hold, "job"),
            lambda job: job.state == JobState.PENDING,
        ),
        Command(
            "release",
            "Release",
            "It may start again.",
            calls(control.job_release, "job"),
            lambda job: job.state == JobState.HELD,
        ),
        Command(
            "requeue",
            "Requeue",
            "It is stopped and waits again. It resumes from its checkpoint, if it makes one, else from the beginning.",
            calls(control.job_requeue, "job"),
            lambda job: job.state not in FINAL | QUEUED and job.array_size is None and job.is_requeueable,
        ),
    )

    @admin.display(description="Number", ordering="id")
    def number(self, obj: Job) -> str:
        return obj.number

    @admin.display(description="State", ordering="state")
    def state_shown(self, obj: Job) -> str:
        return mark(obj.state, obj.get_state_display())

    @admin.display(description="Reason", ordering="reason")
    def reason_shown(self, obj: Job) -> str:
        return code(obj.reason)

    @admin.display(description="Figures")
    def figures(self, obj: Job) -> str:
        return facts(obj.reason_figures)

    @admin.display(description="Command")
    def command(self, obj: Job) -> str:
        return block(obj.brought.command)
