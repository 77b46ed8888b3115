"""The first operator: made at the first start. The password is shown once, and kept in DIR/operator.json (0600).

The file is deleted at the operator's first sign-in, or when the password is changed: a password in a file is a risk.
"""

import logging
import secrets
from typing import Any

from django.conf import settings

from portal.foundation.layout import Layout, read_json, write_json
from portal.people.tenants import services
from portal.people.tenants.models import User

USERNAME = "operator"
log = logging.getLogger(__name__)


def password_generate() -> str:
    return secrets.token_urlsafe(12)


def operator_account() -> User:
    """Return the oldest active operator. Raises User.DoesNotExist when there is none."""
    account: User = User.objects.filter(is_superuser=True, is_active=True).earliest("pk")
    return account


def operator_ensure(layout: Layout) -> list[str]:
    """Make the first operator if there is none; return the lines to print. Only then the password is shown."""
    if User.objects.filter(is_superuser=True).exists():
        return []
    password = password_generate()
    services.user_create(username=USERNAME, password=password, is_operator=True)
    write_json(layout.operator, {"username": USERNAME, "password": password})
    return [
        f"Operator: user {USERNAME}, password {password}   (shown once; {layout.operator} keeps it until the first sign-in)"
    ]


def forget_at_sign_in(user: User, **_: Any) -> None:
    """Delete the file at the operator's sign-in (receiver of `user_logged_in`)."""
    _forget(user, lambda _password: True)


def forget_at_password_change(instance: User, update_fields: frozenset[str] | None, **_: Any) -> None:
    """Delete the file when its password is no longer valid (receiver of `post_save`)."""
    if update_fields is None or "password" in update_fields:
        _forget(instance, lambda password: not instance.check_password(password))


def _forget(user: User, is_due: Any) -> None:
    path = Layout.at(settings.DATA_DIR).operator
    kept = read_json(path) or {}
    if kept.get("username") == user.username and is_due(str(kept.get("password"))):
        try:
            path.unlink(missing_ok=True)
        except OSError:  # the sign-in succeeds all the same; the next one tries again
            log.exception("%s holds the operator's first password and cannot be deleted", path)
