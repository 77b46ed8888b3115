"""What the submit form may start from: job templates, and settings that the person saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.templating.selectors import saved_get, saved_of, templates_for

if TYPE_CHECKING:
    from portal.tenants.models import User

SHOWN = 6
MOST_SAVED = 100


def start_context(user: User) -> dict[str, Any]:
    """Return the first templates, how many there are, and the person's saved forms. Three queries."""
    found = templates_for(user=user)
    return {"templates": list(found[:SHOWN]), "count": found.count(), "saved": list(saved_of(user, None)[:MOST_SAVED])}


def description_saved(user: User, number: str) -> dict[str, Any]:
    """Return the description that was saved of the whole form; {} for one of a template. Raises NotFound."""
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    saved = saved_get(int(number) if is_number else 0, user=user)
    return {} if saved.template_id else dict(saved.values)
