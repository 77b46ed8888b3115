"""Shared fragments of HTML: rendered once for all readers with equal rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpResponse
from django.template.loader import render_to_string

from portal.foundation.events.shared import STREAM
from portal.pages.dashboard.parts.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest

    from portal.foundation.events.shared import Sharing


def shared_html(
    snapshot: Snapshot, key: str, template: str, context: Callable[[Snapshot], dict[str, Any]], *, masked: bool
) -> str:
    """Return a fragment's HTML. `masked`: it names jobs, so it is shared by readers of the same tenants only."""
    audience = snapshot.reader.key if masked else "all"

    def make(inner: Sharing) -> str:
        own = Snapshot(snapshot.user, hours=snapshot.hours, sharing=inner, reader=snapshot.reader)
        own.knobs = snapshot.knobs  # the same for all of a page's fragments: one read
        return render_to_string(template, context(own))

    return snapshot.sharing.get(f"html:{key}:{snapshot.hours:g}:{audience}", make)


def fragment_answer(html: str, sharing: Sharing) -> HttpResponse:
    """Answer a fragment; one that is older than the last event says so, and the page asks again in a second."""
    response = HttpResponse(html)
    if sharing.late:
        response["Berth-Late"] = "1"
    return response


def page_numbers(request: HttpRequest, sharing: Sharing) -> None:
    """Tell the page the last event that all its parts know: a later one is then a gap, and it asks for them again."""
    numbers = getattr(request, "live_numbers", None)
    if numbers and sharing.number is not None and STREAM in numbers:
        numbers[STREAM] = min(numbers[STREAM], sharing.number)
