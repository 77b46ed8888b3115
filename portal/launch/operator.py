"""The first operator: made at the first start, password shown once and kept in DIR/operator.json (0600)."""

import secrets

from portal.launch.layout import Layout, write_json
from portal.tenants import services
from portal.tenants.models import User

USERNAME = "operator"


def password_generate() -> str:
    return secrets.token_urlsafe(12)


def operator_account() -> User:
    """The oldest active operator; raises User.DoesNotExist when there is none."""
    return User.objects.filter(is_superuser=True, is_active=True).earliest("pk")


def operator_ensure(layout: Layout) -> list[str]:
    """Make the first operator if there is none. Returns what to print: the only time the password is shown."""
    if User.objects.filter(is_superuser=True).exists():
        return []
    password = password_generate()
    services.user_create(username=USERNAME, password=password, is_operator=True)
    write_json(layout.operator, {"username": USERNAME, "password": password})
    return [f"Operator: user {USERNAME}, password {password}   (shown once; kept in {layout.operator})"]
