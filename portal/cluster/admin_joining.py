"""Join tokens and named software environments, for operators. A token's secret and whole line are shown once, in the answer
that makes them; an environment shows which nodes have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.template.response import TemplateResponse
from django.utils import timezone

from portal.cluster.selectors import software_told
from portal.cluster.services import joining, operating
from portal.cluster.services.joining import join_line
from portal.foundation.console.base import Command, ConsoleAdmin, adopt, always, calls
from portal.foundation.console.fields import ConsoleForm
from portal.foundation.console.show import mark
from portal.foundation.errors import BerthError
from portal.foundation.layout import Layout, read_json

if TYPE_CHECKING:
    from django.db.models import Model
    from django.http import HttpRequest, HttpResponse

    from portal.cluster.models import JoinToken, NamedEnvironment


SHOWN = 20


class NamedEnvironmentAdmin(ConsoleAdmin):
    may_add = may_change = True
    list_display = ("name", "directory", "note", "offered_by")
    search_fields = ("name",)
    commands = (
        Command(
            "remove",
            "Remove",
            "Jobs can ask for it no more. What lies on nodes stays there, and what runs in it runs on.",
            calls(operating.environment_remove, "environment"),
            always,
            is_destructive=True,
        ),
    )

    def get_fields(self, request: HttpRequest, obj: NamedEnvironment | None = None) -> tuple[str, ...]:
        return ("name", "directory", "note", *(("offered_by", "not_offered_by") if obj else ()))

    def get_readonly_fields(self, request: HttpRequest, obj: NamedEnvironment | None = None) -> tuple[str, ...]:
        return ("name", "offered_by", "not_offered_by") if obj else ()

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        told = software_told()
        for row in found.result_list:
            row.told = told
        return found

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            found.told = software_told()
        return found

    def _after(self, objects: list[Model]) -> str:
        return self._list_url()  # its own page may be gone

    @admin.display(description="Nodes that have it")
    def offered_by(self, obj: Any) -> str:
        having = [name for name, told in obj.told.items() if obj.name in told.get("environments", ())]
        more = f" and {len(having) - SHOWN} more" if len(having) > SHOWN else ""
        return f"{len(having)}: {', '.join(having[:SHOWN])}{more}" if having else "none yet"

    @admin.display(description="Nodes that do not, and why")
    def not_offered_by(self, obj: Any) -> str:
        key = f"environment:{obj.name}"
        lacking = [(name, told["missing"][key]) for name, told in obj.told.items() if key in told.get("missing", ())]
        said = [f"{name}: {why}" for name, why in lacking[:SHOWN]]
        more = [f"and {len(lacking) - SHOWN} more"] if len(lacking) > SHOWN else []
        return "; ".join([*said, *more]) or "none"

    def save_model(self, request: HttpRequest, obj: NamedEnvironment, form: forms.ModelForm, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in ("directory", "note")}
        if change:
            made = operating.environment_change(environment=obj, actor=request.user, **values)
        else:
            made = operating.environment_add(name=form.cleaned_data["name"], actor=request.user, **values)
        adopt(obj, made)


def portal_here(request: HttpRequest) -> dict[str, Any]:
    """Return `url`, the portal's address for others, and `mode`, as of `join_line`."""
    mode = read_json(Layout.at(settings.DATA_DIR).mode) or {}
    url = mode.get("base_url") or settings.BASE_URL or request.build_absolute_uri("/").rstrip("/")
    return {"url": url, "mode": mode}


class JoinTokenForm(ConsoleForm):
    name = forms.CharField(
        required=False,
        max_length=100,
        label="Node's name",
        help_text="Only a node of this name may use it. Empty: any name, by default the machine's.",
    )
    hours = forms.IntegerField(initial=24, min_value=1, max_value=720, label="Good for (h)")
    uses = forms.IntegerField(
        initial=1,
        min_value=1,
        max_value=1000,
        label="Uses",
        help_text="How many nodes may join with it.",
    )


class JoinTokenAdmin(ConsoleAdmin):
    may_add = True
    list_display = ("id", "node", "state", "uses_left", "expires_at", "created_at", "created_by")
    list_select_related = ("created_by",)
    ordering = ("-id",)
    fields = ("node", "state", "uses_left", "expires_at", "created_at", "created_by")
    readonly_fields = fields
    commands = (
        Command(
            "revoke",
            "Revoke",
            "Nothing more can join with this token. Nodes that joined with it stay.",
            calls(joining.join_token_revoke, "join_token"),
            lambda token: token.uses_left > 0,
            is_destructive=True,
        ),
    )

    @admin.display(description="For node")
    def node(self, obj: JoinToken) -> str:
        return obj.node_name or "any"

    @admin.display(description="State")
    def state(self, obj: JoinToken) -> str:
        if obj.uses_left == 0:
            return mark("used up", "used up or revoked")
        return mark("expired" if obj.expires_at <= timezone.now() else "usable")

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Ask for name, time and uses; show the secret and the whole line once, in the answer itself."""
        if not self.has_add_permission(request):
            raise BerthError("forbidden", "Only an operator may do this.", status=403)
        form = JoinTokenForm(request.POST if request.method == "POST" else None)
        context = {**self.admin_site.each_context(request), "title": "Add a node", "form": form}
        if request.method == "POST" and form.is_valid():
            values = form.cleaned_data
            made, secret = joining.join_token_create(
                actor=request.user, name=values["name"], expires_in_s=values["hours"] * 3600, uses=values["uses"]
            )
            line = join_line(**portal_here(request), secret=secret, name=values["name"])
            context |= {"made": made, "line": line}
        return TemplateResponse(request, "admin/join_token.html", context)
