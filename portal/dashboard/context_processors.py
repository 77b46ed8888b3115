"""What every page knows: who is signed in, the demo's banner, which navigation entries exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings

if TYPE_CHECKING:
    from django.http import HttpRequest


def page(request: HttpRequest) -> dict[str, Any]:
    match = getattr(request, "resolver_match", None)
    return {"demo": settings.DEMO, "nav": match.url_name if match else ""}
