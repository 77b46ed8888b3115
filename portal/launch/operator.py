"""The first operator: made at the first start, password shown once and kept in DIR/operator.json (0600) until it is used.

At the operator's first sign-in, or when the password is changed, the file has done its work and is deleted: what lies in
a file can be read by more than the one it is for.
"""

import logging
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings

from portal.layout import Layout, read_json, write_json
from portal.tenants import services
from portal.tenants.models import User

USERNAME = "operator"
log = logging.getLogger(__name__)


def password_generate() -> str:
    return secrets.token_urlsafe(12)


def operator_account() -> User:
    """The oldest active operator; raises User.DoesNotExist when there is none."""
    account: User = User.objects.filter(is_superuser=True, is_active=True).earliest("pk")
    return account


def operator_ensure(layout: Layout) -> list[str]:
    """Make the first operator if there is none. Returns what to print: the only time the password is shown."""
    if User.objects.filter(is_superuser=True).exists():
        return []
    password = password_generate()
    services.user_create(username=USERNAME, password=password, is_operator=True)
    write_json(layout.operator, {"username": USERNAME, "password": password})
    return [
        f"Operator: user {USERNAME}, password {password}   (shown once; {layout.operator} keeps it until the first sign-in)"
    ]


def forget_at_sign_in(user: User, **_: Any) -> None:
    """Receiver of `user_logged_in`."""
    _forget(user, lambda _password: True)


def forget_at_password_change(instance: User, update_fields: frozenset[str] | None, **_: Any) -> None:
    """Receiver of `post_save`: the file's password is good for nothing any more."""
    if update_fields is None or "password" in update_fields:
        _forget(instance, lambda password: not instance.check_password(password))


def _forget(user: User, is_due: Any) -> None:
    path = Layout.at(settings.DATA_DIR).operator
    if not path.exists():
        return
    kept = read_json(path) or {}
    if kept.get("username") == user.username and is_due(str(kept.get("password"))):
        _delete(path)


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:  # a sign-in does not fail for it; the next one tries again
        log.exception("%s holds the operator's first password and cannot be deleted", path)
