"""People's choices: events by mail, and webhooks of their own and of their tenants."""

from __future__ import annotations

import json
import math
import secrets
import uuid
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from portal.foundation.errors import BerthError, Conflict, NotFound
from portal.foundation.secret_key import seal
from portal.people.tenants.models import Tenant, User
from portal.people.tenants.selectors import manage_check
from portal.people.tenants.services import audit_record
from portal.work.notifications.guarded import url_check
from portal.work.notifications.models import Hook, Item, Wishes
from portal.work.notifications.sending import hook_call, taken
from portal.work.notifications.words import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.db.models import QuerySet

HOOKS_MOST = 5
"""The most webhooks of one person, and of one tenant."""


def events_check(events: Sequence[str], *, least: int = 0) -> list[str]:
    unknown = [each for each in events if each not in NAMES]
    if unknown or len(events) < least:
        raise BerthError("invalid", f"`events` must be some of {', '.join(NAMES)}.", field="events")
    return [name for name in NAMES if name in events]


def hours_check(value: str | float) -> float:
    try:
        hours = float(value)
    except ValueError:
        hours = math.nan
    if not 0.1 <= hours <= 8760:
        raise BerthError("out_of_range", "`waits_h` must be hours from 0.1 to 8760.", field="waits_h")
    return hours


def wishes_of(user: User) -> Wishes:
    return Wishes.objects.filter(user=user).first() or Wishes(user=user)


@transaction.atomic
def wishes_set(*, user: User, mail: Sequence[str], waits_h: str | float) -> Wishes:
    """Set the events that a person gets by mail. Waiting ones that are not wanted any more are forgotten."""
    values = {"mail": events_check(mail), "waits_h": hours_check(waits_h)}
    wishes, _ = Wishes.objects.update_or_create(user=user, defaults=values)
    Item.objects.filter(user=user, hook=None, message=None).exclude(what__in=wishes.mail).delete()
    return wishes


def hooks_of(*, user: User | None = None, tenant: Tenant | None = None) -> QuerySet[Hook]:
    return Hook.objects.filter(user=user, tenant=tenant)


@transaction.atomic
def hook_make(
    *, actor: User, url: str, events: Sequence[str], waits_h: str | float = 24, tenant: Tenant | None = None
) -> tuple[Hook, str]:
    """Make a webhook of a tenant, or of the actor; return it and the secret that signs, which is shown once."""
    if tenant is not None:
        manage_check(actor, tenant)
        Tenant.objects.select_for_update().get(pk=tenant.pk)
    else:
        User.objects.select_for_update().get(pk=actor.pk)
    owner = {"tenant": tenant, "user": None if tenant else actor}
    values = {"url": url_check(url), "events": events_check(events, least=1), "waits_h": hours_check(waits_h)}
    if Hook.objects.filter(**owner).count() >= HOOKS_MOST:
        raise Conflict("too_many", f"There are {HOOKS_MOST} webhooks already; delete one first.")
    secret = secrets.token_urlsafe(32)
    hook = Hook.objects.create(**owner, **values, secret=seal(secret), made_by=actor)
    audit_record(actor=actor, action="webhook.make", target=f"webhook:{hook.pk}", tenant=tenant)
    return hook, secret


def hook_find(*, actor: User, number: int, tenant: Tenant | None = None) -> Hook:
    """Return a webhook of the tenant, or of the actor. NotFound in the same way for a missing and a foreign one."""
    if tenant is not None:
        manage_check(actor, tenant)
    found = Hook.objects.filter(pk=number, tenant=tenant, user=None if tenant else actor).first()
    if found is None:
        raise NotFound("webhook")
    return found


@transaction.atomic
def hook_delete(*, actor: User, hook: Hook) -> None:
    audit_record(actor=actor, action="webhook.delete", target=f"webhook:{hook.pk}", tenant=hook.tenant)
    hook.delete()


def hook_test(*, hook: Hook) -> str:
    """Call it now with no events; return the outcome. A success wakes one that rested or was switched off."""
    delivery = str(uuid.uuid4())
    body = json.dumps({"id": delivery, "test": True, "events": []}).encode()
    answer = hook_call(url=hook.url, sealed=hook.secret, body=body, delivery=delivery)
    mine = Hook.objects.filter(pk=hook.pk)
    mine.update(last_answer=answer[:100], last_at=timezone.now())
    if taken(answer):
        mine.update(failures=0, rests_until=None, is_active=True)
    return answer
