"""The context of every template: the frame of a signed-in page, as `shell`; nothing before sign-in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.functional import SimpleLazyObject

from portal.pages.dashboard.shell.frame import shell_of

if TYPE_CHECKING:
    from django.http import HttpRequest


def page(request: HttpRequest) -> dict[str, Any]:
    """Lazy, so that a fragment, which has no frame, pays nothing for it."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or request.path.startswith("/admin/"):
        return {}
    return {"shell": SimpleLazyObject(lambda: shell_of(request))}
