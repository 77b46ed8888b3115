"""Template tags of the overview of my jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template
from django.utils.html import format_html, format_html_join

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def whose(parts: list[tuple[str, float]], total: float, label: str, tick: float | None = None) -> SafeString:
    """Draw GPUs by whose they are, end to end on one track; `tick` marks what the tenant is entitled to."""
    rows, at = [], 0.0
    for name, amount in parts:
        width = min(100.0 - at, max(0.0, 100.0 * amount / total)) if total > 0 else 0.0
        if width > 0:
            rows.append((name, f"{at:.2f}", f"{width:.2f}"))
        at += width
    rects = format_html_join("", '<rect class="b-whose-fill-{}" x="{}%" width="{}%" height="8"></rect>', rows)
    mark = ""
    if tick is not None:
        mark = format_html('<rect class="b-bar-tick" x="{}%" y="0" width="2" height="8"></rect>', f"{100.0 * tick:.2f}")
    return format_html(
        '<svg class="b-home-whose" width="100%" height="8" role="img" aria-label="{}">'
        '<rect class="b-bar-track" width="100%" height="8"></rect>{}{}</svg>',
        label,
        rects,
        mark,
    )
