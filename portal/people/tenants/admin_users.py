"""Users, for operators: make, change, deactivate, reset the password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth.password_validation import validate_password

from portal.foundation.console.base import Command, ConsoleAdmin, adopt, always
from portal.foundation.console.fields import ConsoleForm, dress, with_times
from portal.foundation.console.show import mark
from portal.people.tenants import services
from portal.people.tenants.models import User

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


class UserAddForm(forms.ModelForm):
    password = forms.CharField(
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Ten characters at least, and not a common one.",
        strip=False,
    )

    class Meta:
        model = User
        fields = ("username", "email", "is_staff")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        dress(self.fields["password"])

    def clean_password(self) -> str:
        validate_password(self.cleaned_data["password"])
        return self.cleaned_data["password"]


class PasswordForm(ConsoleForm):
    password = forms.CharField(
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Empty: one is generated and shown once on the next page.",
    )


def _password_reset(user: User, actor: User, *, password: str) -> str | None:
    made = services.user_password_reset(user=user, actor=actor, password=password)
    return None if password else f"The new password of {user.username}, shown this once: {made}"


def _activate(user: User, actor: User, *, is_active: bool) -> None:
    services.user_update(user=user, actor=actor, is_active=is_active)


class UserAdmin(ConsoleAdmin):
    may_add = may_change = True
    list_display = ("username", "email", "state", "operator", "in_tenants", "last_login", "date_joined")
    list_filter = ("is_active", "is_staff", "tenants")
    search_fields = ("username", "email")
    ordering = ("username",)
    commands = (
        Command(
            "deactivate",
            "Deactivate",
            "The user can no longer sign in and the user's API tokens stop working. Jobs that wait or run go on.",
            lambda user, actor: _activate(user, actor, is_active=False),
            lambda user: user.is_active,
            is_destructive=True,
        ),
        Command(
            "activate",
            "Activate",
            "The user can sign in again, and API tokens that were not revoked work again.",
            lambda user, actor: _activate(user, actor, is_active=True),
            lambda user: not user.is_active,
        ),
        Command(
            "reset-password",
            "Reset password",
            "The old password stops working, and every session that was opened with it ends.",
            _password_reset,
            always,
            form=PasswordForm,
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).prefetch_related("tenants")

    def get_form(self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is None:
            kwargs["form"] = UserAddForm
        return super().get_form(request, obj, change=change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        if obj is None:
            return ("username", "email", "password", "is_staff")
        return ("username", "email", "is_staff", "state", "in_tenants", "last_login", "date_joined")

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        return with_times(User, ("username", "state", "in_tenants", "last_login", "date_joined")) if obj else ()

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "is_staff":
            field.label, field.help_text = "Operator", "May use this console and see and change every tenant's jobs."
        return field

    @admin.display(description="State", ordering="is_active")
    def state(self, obj: User) -> str:
        return mark("active" if obj.is_active else "inactive")

    @admin.display(description="Operator", boolean=True, ordering="is_staff")
    def operator(self, obj: User) -> bool:
        return obj.is_staff

    @admin.display(description="Tenants")
    def in_tenants(self, obj: User) -> str:
        return ", ".join(tenant.name for tenant in obj.tenants.all()) or "\u2013"

    def save_model(self, request: HttpRequest, obj: User, form: forms.ModelForm, change: bool) -> None:
        values = form.cleaned_data
        if change:
            user = User.objects.get(pk=obj.pk)
            made = services.user_update(
                user=user, actor=request.user, email=values["email"], is_operator=values["is_staff"]
            )
        else:
            made = services.user_create(
                username=values["username"],
                password=values["password"],
                email=values["email"],
                is_operator=values["is_staff"],
                actor=request.user,
            )
        adopt(obj, made)
