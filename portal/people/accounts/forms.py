"""The forms of a sign-in: they ask for a second factor where the user has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.forms import AuthenticationForm

from portal.foundation.errors import BerthError
from portal.people.accounts.second import CODE_CHARS, code_check, factor_of

if TYPE_CHECKING:
    from portal.people.tenants.models import User


class SignInForm(AuthenticationForm):
    code = forms.CharField(required=False, max_length=CODE_CHARS)

    def confirm_login_allowed(self, user: User) -> None:
        """The password is right. Refuse who has a second factor without its code."""
        super().confirm_login_allowed(user)
        try:
            address = self.request.META["REMOTE_ADDR"]  # a trusted proxy's caller, where one asks
            code_check(user=user, code=self.cleaned_data.get("code") or "", address=address)
        except BerthError as error:
            raise forms.ValidationError(error.detail, code=error.code) from error


class ConsoleSignInForm(AdminAuthenticationForm):
    """The console's own form has no field for a code: users with a second factor sign in at the portal's."""

    def confirm_login_allowed(self, user: User) -> None:
        super().confirm_login_allowed(user)
        if factor_of(user) is not None:
            detail = "You use a second factor: sign in at /login, which asks for its code, and come back."
            raise forms.ValidationError(detail, code="code_required")
