"""Announce one line above everybody's pages, and end that; both are in the audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.foundation.events.services import page_event
from portal.foundation.events.shared import Sharing
from portal.people.tenants.models import User
from portal.people.tenants.services import audit_record
from portal.work.notifications.models import Announcement

if TYPE_CHECKING:
    from django.db.models import QuerySet

FRAME = "frame"
"""The shared value that has the line in force (pages/dashboard/shell/banner.py)."""


def announcements_current() -> QuerySet[Announcement]:
    """Return the lines in force, in no order: the one with the highest number is shown."""
    return Announcement.objects.filter(ended_at=None).order_by()


@transaction.atomic
def announcement_make(*, text: str, actor: User) -> Announcement:
    """Announce; the line before it ends. Raises BerthError where there are no words."""
    words = " ".join(text.split())
    if not words:
        raise BerthError("invalid", "Write one line.", field="text")
    announcements_current().update(ended_at=timezone.now())
    made = Announcement.objects.create(text=words, made_by=actor)
    audit_record(actor=actor, action="announcement.make", target=f"announcement:{made.pk}", detail={"text": words})
    _tell()
    return made


@transaction.atomic
def announcement_end(*, announcement: Announcement, actor: User) -> None:
    if Announcement.objects.filter(pk=announcement.pk, ended_at=None).update(ended_at=timezone.now()):
        audit_record(actor=actor, action="announcement.end", target=f"announcement:{announcement.pk}")
        _tell()


def _tell() -> None:
    """Have open pages ask for the line again; the one of before is given to nobody any more."""
    transaction.on_commit(lambda: Sharing().forget(FRAME))
    page_event(stream="cluster", topic="banner")
