"""Tenants with their members, API tokens, the audit trail and failed sign-ins, for operators; users beside it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group
from django.utils import timezone

from portal.foundation.console.base import Command, ConsoleAdmin, ConsoleInline, adopt, always, is_operator
from portal.foundation.console.fields import TimeRange, dress
from portal.foundation.console.show import NAMES, block, code, column, mark, targets_named
from portal.people.tenants import admin_users, services
from portal.people.tenants.models import ApiToken, AuditEvent, Membership, Tenant, User

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

admin.site.index_title = "Operator's console"
for foreign in (Group, AccessAttempt, AccessFailureLog, AccessLog):
    if admin.site.is_registered(foreign):
        admin.site.unregister(foreign)

admin.site.register(User, admin_users.UserAdmin)
NAMES.update(user=(User, "username"), tenant=(Tenant, "name"), token=(ApiToken, "name"))


class MembershipForm(forms.ModelForm):
    user = forms.ModelChoiceField(User.objects.all(), to_field_name="username", widget=forms.TextInput)

    class Meta:
        model = Membership
        fields = ("user", "role")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Show the user's name, and give each field a name of its own: a table's head is no label to a screen reader."""
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["user"] = self.instance.user.username
        for field in self.fields.values():
            dress(field)
            field.widget.attrs["aria-label"] = str(field.label)


class MembershipInline(ConsoleInline):
    model = Membership
    form = MembershipForm
    may_add = may_change = True
    extra = 1
    fields = ("user", "role")

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).select_related("user")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_operator(request)


@admin.register(Tenant)
class TenantAdmin(ConsoleAdmin):
    may_add = may_change = True
    list_display = (
        "name",
        "weight",
        column("gpu_quota", "GPU quota"),
        "core_quota",
        "queued_jobs_quota",
        "state",
        "members_count",
    )
    list_filter = ("is_active",)
    search_fields = ("name",)
    fields = ("name", *services.TENANT_FIELDS)
    inlines = (MembershipInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).prefetch_related("memberships")

    def get_readonly_fields(self, request: HttpRequest, obj: Tenant | None = None) -> tuple[str, ...]:
        return ("name",) if obj else ("is_active",)

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "gpu_quota":
            kwargs["label"] = "GPU quota"
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    @admin.display(description="State", ordering="is_active")
    def state(self, obj: Tenant) -> str:
        return mark("active" if obj.is_active else "inactive")

    @admin.display(description="Members")
    def members_count(self, obj: Tenant) -> int:
        return len(obj.memberships.all())

    def save_model(self, request: HttpRequest, obj: Tenant, form: forms.ModelForm, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in services.TENANT_FIELDS if name in form.cleaned_data}
        if change:
            made = services.tenant_update(tenant=Tenant.objects.get(pk=obj.pk), actor=request.user, **values)
        else:
            made = services.tenant_create(name=form.cleaned_data["name"], actor=request.user, **values)
        adopt(obj, made)

    def save_formset(self, request: HttpRequest, form: forms.ModelForm, formset: Any, change: bool) -> None:
        """Save members through the services. Another user in a row means: one member removed, one added."""
        formset.save(commit=False)
        for gone in formset.deleted_objects:
            services.membership_remove(user=gone.user, tenant=form.instance, actor=request.user)
        for row, fields in formset.changed_objects:
            if "user" in fields:
                before = Membership.objects.select_related("user").get(pk=row.pk)
                services.membership_remove(user=before.user, tenant=form.instance, actor=request.user)
        for row in [*(row for row, _ in formset.changed_objects), *formset.new_objects]:
            services.membership_add(user=row.user, tenant=form.instance, role=row.role, actor=request.user)


@admin.register(ApiToken)
class ApiTokenAdmin(ConsoleAdmin):
    list_display = ("name", "prefix_shown", "user", "tenant", "scopes_shown", "state", "expires_at", "last_used_at")
    list_filter = ("tenant", ("revoked_at", admin.EmptyFieldListFilter))
    list_select_related = ("user", "tenant")
    search_fields = ("name", "prefix", "user__username")
    fields = tuple(
        """
            name prefix_shown user tenant scopes_shown state created_at expires_at last_used_at revoked_at
        """.split()
    )
    readonly_fields = fields
    commands = (
        Command(
            "revoke",
            "Revoke",
            "Programs that use this token are refused from now on. This cannot be undone; a new token can be made.",
            lambda token, actor: services.token_revoke(token=token, actor=actor),
            lambda token: token.revoked_at is None,
            is_destructive=True,
        ),
    )

    @admin.display(description="Begins with")
    def prefix_shown(self, obj: ApiToken) -> str:
        return code(f"{obj.prefix}\u2026")

    @admin.display(description="Scopes")
    def scopes_shown(self, obj: ApiToken) -> str:
        return ", ".join(obj.scopes)

    @admin.display(description="State")
    def state(self, obj: ApiToken) -> str:
        if obj.revoked_at:
            return mark("revoked")
        return mark("expired" if obj.expires_at and obj.expires_at <= timezone.now() else "usable")


@admin.register(AuditEvent)
class AuditEventAdmin(ConsoleAdmin):
    list_display = ("at", "actor_name", "action", "target_named", "tenant", "detail_short")
    list_filter = (
        ("at", TimeRange),
        "action",
        ("actor", admin.RelatedOnlyFieldListFilter),
        ("tenant", admin.RelatedOnlyFieldListFilter),
    )
    list_select_related = ("tenant",)
    search_fields = ("target", "actor_name", "action")
    search_help_text = "Actor, action or target, for example job:42"
    fields = ("at", "actor_name", "action", "target_named", "tenant", "detail_whole")
    readonly_fields = fields

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Name the targets of a page of the list together."""
        changes = super().get_changelist_instance(request)
        named = targets_named(event.target for event in changes.result_list)
        for event in changes.result_list:
            event.named = named.get(event.target, event.target)
        return changes

    @admin.display(description="Target", ordering="target")
    def target_named(self, obj: Any) -> str:
        return getattr(obj, "named", None) or targets_named([obj.target]).get(obj.target, obj.target)

    @admin.display(description="Detail")
    def detail_short(self, obj: AuditEvent) -> str:
        text = json.dumps(obj.detail, ensure_ascii=False) if obj.detail else ""
        return text if len(text) <= 90 else text[:89] + "\u2026"

    @admin.display(description="Detail")
    def detail_whole(self, obj: AuditEvent) -> str:
        return block(json.dumps(obj.detail, indent=2, ensure_ascii=False) if obj.detail else "")


@admin.register(AccessAttempt)
class FailedSignInAdmin(ConsoleAdmin):
    """The failures that the lock-out counts; an operator lets a locked-out person in again."""

    list_display = ("username", "ip_address", "failures_since_start", "attempt_time")
    search_fields = ("username", "ip_address")
    fields = ("username", "ip_address", "failures_since_start", "attempt_time", "user_agent")
    readonly_fields = fields
    commands = (
        Command(
            "forget",
            "Forget failures",
            "The failed sign-ins of this name from this address are forgotten, so that the person may try again.",
            lambda attempt, actor: services.sign_in_failures_forget(
                username=attempt.username, ip_address=attempt.ip_address, actor=actor
            ),
            always,
        ),
        Command(
            "forget-everywhere",
            "Forget failures from everywhere",
            "The failed sign-ins of this name from every address are forgotten; this ends a lock of the name.",
            lambda attempt, actor: services.sign_in_failures_forget(
                username=attempt.username, ip_address=None, actor=actor
            ),
            always,
        ),
    )

    def _after(self, objects: list[Any]) -> str:
        return self._list_url()
