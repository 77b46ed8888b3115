"""Set and remove secrets, and open them for the node that runs a job which names them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from portal.foundation import checks
from portal.foundation.disk import disk_require
from portal.foundation.errors import BerthError, Conflict, NotFound
from portal.foundation.secret_key import SealBroken, seal, unseal
from portal.people.tenants.models import Tenant
from portal.people.tenants.selectors import manage_check, work_check
from portal.people.tenants.services import audit_record
from portal.work.secrets.models import Secret

if TYPE_CHECKING:
    from collections.abc import Collection

    from portal.people.tenants.models import User

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
SHORTEST, LONGEST_BYTES = 8, 32 * 1024
"""Characters that one line has at least: logs could not leave out less without leaving out common words; and bytes."""
MOST_SECRETS = 100
_NAME = re.compile(NAME_PATTERN.replace("$", r"\Z"))


def secret_name_check(value: object, field: str = "name") -> str:
    name = checks.text(value, field, max_chars=63)
    if not _NAME.match(name):
        detail = f"{checks.quoted(name)} is no name of a secret: 1 to 63 letters, digits and `._-`, first no mark."
        raise BerthError("bad_name", detail, field=field)
    return name


def _value_check(value: object) -> str:
    """Return the value with Unix line ends. No error repeats any of it."""
    if not isinstance(value, str):
        raise checks.wrong_type(value, "value", "text")
    found = checks.text_safe(value, "value").replace("\r\n", "\n")
    if max(len(line.strip()) for line in found.split("\n")) < SHORTEST:
        detail = f"`value` has no line of {SHORTEST} characters or more; so short a secret could not be hidden in a job's log."
        raise BerthError("too_short", detail, field="value")
    if len(found.encode()) > LONGEST_BYTES:
        raise BerthError("too_long", f"`value` is longer than {LONGEST_BYTES // 1024} KiB.", field="value")
    return found


@transaction.atomic
def secret_set(*, actor: User, tenant: Tenant, name: object, value: object) -> Secret:
    """Set a secret, a new one or another value of the one with its name. Raises BerthError; 409 `too_many`."""
    work_check(actor, tenant)
    name, value = secret_name_check(name), _value_check(value)
    disk_require()
    tenant = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    found = Secret.objects.filter(tenant=tenant, name=name).first() or Secret(tenant=tenant, name=name)
    if found.pk is None and Secret.objects.filter(tenant=tenant).count() >= MOST_SECRETS:
        raise Conflict(
            "too_many", f"{tenant.name} has {MOST_SECRETS} secrets; remove one that no job uses.", field="name"
        )
    found.sealed, found.changed_by, found.changed_at = seal(value), actor.username, timezone.now()
    found.save()
    audit_record(actor=actor, action="secret.set", target=f"secret:{found.pk}", tenant=tenant, detail={"name": name})
    return found


@transaction.atomic
def secret_remove(*, actor: User, tenant: Tenant, name: str) -> None:
    """Remove a secret; managers do. A job that names it fails at its next start, and says so."""
    manage_check(actor, tenant)
    found = Secret.objects.filter(tenant=tenant, name=name).first()
    if found is None:
        raise NotFound("secret")
    audit_record(actor=actor, action="secret.remove", target=f"secret:{found.pk}", tenant=tenant, detail={"name": name})
    found.delete()


def secrets_open(*, tenant: Tenant, names: Collection[str], field: str = "secrets") -> dict[str, str]:
    """Return the values by name. Raises BerthError where the tenant has no such secret, or it cannot be opened here."""
    rows = dict(Secret.objects.filter(tenant=tenant, name__in=names).values_list("name", "sealed")) if names else {}
    values = {}
    for name in names:
        again = f"Set it on the page of {tenant.name}, or with `berth secrets set {name}`"
        if name not in rows:
            detail = f"{tenant.name} has no secret {checks.quoted(name)}. {again}."
            raise BerthError("unknown_secret", detail, field=field)
        try:
            values[name] = unseal(rows[name])
        except SealBroken:
            detail = f"The secret {name} was sealed with another signing key and cannot be opened. {again} again."
            raise Conflict("secret_unreadable", detail, field=field) from None
    return values
