"""A person changes the own password, and where times are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from portal.foundation.errors import BerthError
from portal.people.accounts.sessions import sessions_end
from portal.people.tenants.selectors import time_zones
from portal.people.tenants.services import audit_record

if TYPE_CHECKING:
    from portal.people.tenants.models import User


def password_check(*, user: User, password: str) -> None:
    """Refuse what only the person may do without the own password."""
    if not user.check_password(password):
        raise BerthError("wrong_password", "This is not your present password.", field="password")


@transaction.atomic
def password_change(*, user: User, old: str, new: str, again: str, session_key: str | None) -> None:
    """Set the new password; every session but the one with this key ends. Raises BerthError naming the field."""
    if not user.check_password(old):
        raise BerthError("wrong_password", "This is not your present password.", field="old")
    if new != again:
        raise BerthError("differs", "Both entries of the new password must be alike.", field="again")
    try:
        validate_password(new, user)
    except ValidationError as error:
        raise BerthError("weak_password", " ".join(error.messages), field="new") from error
    user.set_password(new)
    user.save(update_fields=["password"])
    sessions_end(user=user, actor=user, but=session_key)
    audit_record(actor=user, action="user.password-change", target=f"user:{user.pk}")


def time_zone_set(*, user: User, name: str) -> None:
    """Set where the person's times are shown; empty: in the browser's zone. Raises BerthError."""
    if name and name not in time_zones():
        detail = "`time_zone` must be a name such as Europe/Berlin, or empty for your browser's."
        raise BerthError("invalid", detail, field="time_zone")
    user.time_zone = name
    user.save(update_fields=["time_zone"])
