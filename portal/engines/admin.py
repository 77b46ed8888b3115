"""Partitions of other schedulers, for operators: the line that attaches one, and the last words of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.template.response import TemplateResponse

from portal.cluster.admin_joining import portal_here
from portal.cluster.services.joining import join_token_create
from portal.engines.models import Engine, EngineJob
from portal.engines.services import bridge_line, engine_detach
from portal.foundation.console.base import Command, ConsoleAdmin, ConsoleInline, calls
from portal.foundation.console.fields import ConsoleForm, moment
from portal.foundation.console.show import NAMES, column, mark
from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

NAMES["engine"] = (Engine, "name")


class EngineJobInline(ConsoleInline):
    model = EngineJob
    fields = readonly_fields = (
        *("name", "state", column("ticket", "Its number there"), "reason", column("gpus", "GPUs")),
        *("host", "node", "since", "ends_at", "ended_at"),
    )
    per_page = 20
    verbose_name_plural = "Orders"


class AttachForm(ConsoleForm):
    partition = forms.CharField(max_length=50, help_text="Its name in Slurm, as sinfo -s lists it.")
    gpus_max = forms.IntegerField(
        initial=8, min_value=1, max_value=1_000_000, label="GPUs at most", help_text="Berth holds no more at once."
    )


@admin.register(Engine)
class EngineAdmin(ConsoleAdmin):
    may_add = True
    change_list_template, change_form_template = "admin/engines.html", "admin/engine.html"
    list_display = ("name", "standing_shown", "form", "version", column("gpus_max", "GPUs at most"), "heard", "refused")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    *("standing_shown", "heard", "away_since", column("away_reason", "Why it is away"), "refused"),
                    *("registered_at", "joined_by", "detached_at"),
                )
            },
        ),
        (
            "As its bridge says",
            {
                "fields": (
                    *("kind", "version", "cluster", "partition", "form", column("gpus_max", "GPUs at most")),
                    *(column("gpus_per_pilot", "GPUs of a pilot (0: whole nodes)"), "limit", "idle", "tenant"),
                )
            },
        ),
    )
    readonly_fields = tuple(name for _, group in fieldsets for name in group["fields"])
    inlines = (EngineJobInline,)
    commands = (
        Command(
            "detach",
            "Detach",
            "Berth asks for nothing more there. Idle pilots are given back at once, others when their jobs have ended. "
            "Then the bridge ends. `./berth bridge` attaches it again, with a new join token.",
            calls(engine_detach, "engine"),
            lambda engine: engine.standing != "detached",
            is_destructive=True,
        ),
    )

    @admin.display(description="State")
    def standing_shown(self, obj: Engine) -> str:
        return mark(obj.standing, "not answering" if obj.standing == "silent" else obj.standing)

    @admin.display(description="Last exchange", ordering="last_contact_at")
    def heard(self, obj: Engine) -> str:
        return moment(obj.last_contact_at)

    @admin.display(description="Last refusal", ordering="refused_at")
    def refused(self, obj: Engine) -> str:
        return f"{obj.refused_reason} ({obj.refused_at:%Y-%m-%d %H:%M} UTC)" if obj.refused_at else "none"

    @admin.display(description="Time limit of a pilot")
    def limit(self, obj: Engine) -> str:
        return f"{obj.limit_s / 3600:g} h"

    @admin.display(description="Given back when idle for")
    def idle(self, obj: Engine) -> str:
        return f"{obj.idle_s} s"

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Ask for the partition; show the line with its join token once, in the answer itself."""
        if not self.has_add_permission(request):
            raise BerthError("forbidden", "Only an operator may do this.", status=403)
        form = AttachForm(request.POST if request.method == "POST" else None)
        context = {**self.admin_site.each_context(request), "title": "Attach a cluster", "form": form}
        if request.method == "POST" and form.is_valid():
            made, secret = join_token_create(actor=request.user)
            line = bridge_line(**portal_here(request), secret=secret, **form.cleaned_data)
            context |= {"made": made, "line": line, "check": f"{line} --check"}
        return TemplateResponse(request, "admin/attach.html", context)
