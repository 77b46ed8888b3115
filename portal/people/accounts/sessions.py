"""A person's browser sessions, noted at sign-in, listed, ended; the person's own password and time zone."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.people.accounts.models import SignIn
from portal.people.tenants.selectors import time_zones
from portal.people.tenants.services import audit_record

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.people.tenants.models import User


MOST = 100
"""The most sessions of one person: the oldest is ended when another comes."""


def _signed_in(request: HttpRequest | None, user: User, **_: Any) -> None:
    key = request.session.session_key if request is not None and hasattr(request, "session") else None
    if request is None or key is None:
        return
    told = {
        "user": user,
        "address": request.META.get("REMOTE_ADDR", "")[:45],
        "browser": request.headers.get("User-Agent", "")[:200],
    }
    SignIn.objects.update_or_create(session_key=key, defaults=told)
    for old in SignIn.objects.filter(user=user)[MOST : 2 * MOST]:
        _end(old)


def _signed_out(request: HttpRequest, **_: Any) -> None:
    SignIn.objects.filter(session_key=request.session.session_key or "").delete()


def listen() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="accounts.signed-in")
    user_logged_out.connect(_signed_out, dispatch_uid="accounts.signed-out")


def sessions_of(user: User) -> list[SignIn]:
    """Return the sessions that still stand, latest first. Two queries."""
    rows = list(SignIn.objects.filter(user=user)[:MOST])
    keys = [row.session_key for row in rows]
    live = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    standing = set(live.values_list("session_key", flat=True))
    return [row for row in rows if row.session_key in standing]


def _end(row: SignIn) -> None:
    import_module(settings.SESSION_ENGINE).SessionStore(row.session_key).delete()
    row.delete()


def session_end(*, user: User, number: int) -> bool:
    """End one of the person's own sessions; False where there is none of that number."""
    row = SignIn.objects.filter(user=user, pk=number).first()
    if row is None:
        return False
    _end(row)
    audit_record(actor=user, action="session.end", target=f"user:{user.pk}")
    return True


def sessions_end(*, user: User, actor: User | None, but: str | None = None) -> int:
    """End all sessions of a person, but the one with the key `but`; return how many."""
    ended = 0
    for row in SignIn.objects.filter(user=user).exclude(session_key=but or ""):
        _end(row)
        ended += 1
    if ended:
        audit_record(actor=actor, action="session.end-all", target=f"user:{user.pk}", detail={"sessions": ended})
    return ended


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
