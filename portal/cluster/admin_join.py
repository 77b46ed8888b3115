"""Join tokens, for operators: the secret and the whole line are shown once, in the answer that makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.template.response import TemplateResponse
from django.utils import timezone
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextInputWidget

from portal.cluster.joining import join_line
from portal.cluster.services import joining
from portal.foundation.console.base import Command, ConsoleAdmin
from portal.foundation.console.show import mark
from portal.foundation.errors import BerthError
from portal.foundation.layout import Layout, read_json

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from portal.cluster.models import JoinToken


class JoinTokenForm(forms.Form):
    name = forms.CharField(
        required=False,
        max_length=100,
        label="Node's name",
        widget=UnfoldAdminTextInputWidget,
        help_text="Only a node of this name may use it. Empty: any name, by default the machine's.",
    )
    hours = forms.IntegerField(
        initial=24, min_value=1, max_value=720, label="Good for (h)", widget=UnfoldAdminIntegerFieldWidget
    )
    uses = forms.IntegerField(
        initial=1,
        min_value=1,
        max_value=1000,
        label="Uses",
        widget=UnfoldAdminIntegerFieldWidget,
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
            lambda token, actor: joining.join_token_revoke(join_token=token, actor=actor),
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
            mode = read_json(Layout.at(settings.DATA_DIR).mode) or {}
            url = mode.get("base_url") or settings.BASE_URL or request.build_absolute_uri("/").rstrip("/")
            context |= {"made": made, "line": join_line(url=url, mode=mode, secret=secret, name=values["name"])}
        return TemplateResponse(request, "admin/join_token.html", context)
