"""Announcements in the operator's console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from portal.foundation.console.base import Command, ConsoleAdmin, adopt, calls
from portal.work.notifications.announcing import announcement_end, announcement_make
from portal.work.notifications.models import Announcement

if TYPE_CHECKING:
    from django.http import HttpRequest


@admin.register(Announcement)
class AnnouncementAdmin(ConsoleAdmin):
    may_add = True
    list_display = ("text", "made_at", "made_by", "ended_at")
    list_select_related = ("made_by",)
    fields = ("text",)
    commands = (
        Command(
            "end",
            "End",
            "It stands above nobody's pages any more.",
            calls(announcement_end, "announcement"),
            lambda obj: obj.ended_at is None,
        ),
    )

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        adopt(obj, announcement_make(text=form.cleaned_data["text"], actor=request.user))
