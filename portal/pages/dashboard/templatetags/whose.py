"""Template tags of the overview of my jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template

from portal.pages.dashboard.home.lines import whose_bar

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def whose(parts: list[tuple[str, float]], total: float, label: str, tick: float | None = None) -> SafeString:
    """GPUs by whose they are, as one bar."""
    return whose_bar(parts, total, label, tick=tick)
