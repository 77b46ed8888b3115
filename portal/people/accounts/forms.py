"""The form of a sign-in: it asks for a second factor where the user has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.contrib.auth.forms import AuthenticationForm

from portal.foundation.errors import BerthError
from portal.people.accounts.second import CODE_CHARS, code_check

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
