"""How the console shows things: state marks, JSON facts, durations. Everything from outside is escaped here."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.timesince import timesince

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from django.db.models import Model
    from django.utils.safestring import SafeString


TONES = {
    "run": {"RUNNING", "COMPLETED", "up", "applied", "usable", "active", "attached"},
    "wait": {"PENDING", "STARTING", "unreachable", "superseded", "expired", "silent"},
    "fail": {"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "dead", "failed"},
    "stop": {"HELD", "PREEMPTED", "CANCELLED", "drained", "revoked", "used up", "inactive", "detached"},
}
GLYPHS = {
    "run": "\u25cf",
    "wait": "\u25d4",
    "fail": "\u2715",
    "stop": "\u25a0",
}  # they differ in shape, not only in hue


def column(name: str, title: str) -> Callable[[Any], Any]:
    """Return a model's column with a better title, for lists and facts."""

    @admin.display(description=title, ordering=name)
    def value(obj: Any) -> Any:
        return getattr(obj, name)

    return value


def mark(word: str, label: str = "") -> SafeString:
    """Return a state as glyph, word and colour, always all three."""
    tone = next((tone for tone, words in TONES.items() if word in words), "stop")
    return format_html(
        '<span class="b-state b-tone-{}"><span aria-hidden="true">{}</span> {}</span>',
        tone,
        GLYPHS[tone],
        label or word,
    )


def code(text: str) -> SafeString:
    return format_html("<code>{}</code>", text) if text else format_html("{}", "\u2013")


def block(text: str) -> SafeString:
    return format_html('<pre class="b-text">{}</pre>', text) if text else format_html("{}", "\u2013")


def facts(values: Mapping[str, Any] | None) -> SafeString:
    """Return a mapping as names with values; nested values as JSON."""
    if not values:
        return format_html("{}", "\u2013")
    rows = format_html_join("", "<dt>{}</dt><dd>{}</dd>", ((name, plain(v)) for name, v in values.items()))
    return format_html('<dl class="b-kv">{}</dl>', rows)


def plain(value: Any) -> str:
    if value is None:
        return "\u2013"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value) if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)


def ago(at: datetime) -> str:
    """Return how long ago, in words; Django would call the last minute "0 minutes"."""
    return "just now" if (timezone.now() - at).total_seconds() < 60 else f"{timesince(at)} ago"


def mib(value: int | None) -> str:
    """Return a size that is counted in MiB."""
    return "\u2013" if value is None else f"{round(value / 1024, 2):g} GiB"


NAMES: dict[str, tuple[type[Model], str]] = {}
"""Kind of a target -> the model whose row it numbers, and the field that names it."""


def targets_named(targets: Iterable[str]) -> dict[str, str]:
    """Return each `kind:number` with `kind:number (name)`, where it has a name now."""
    return {target: f"{target} ({name})" for target, name in names_of(targets).items()}


def names_of(targets: Iterable[str]) -> dict[str, str]:
    """Return the name that each `kind:number` has now, where it has one. One query a kind."""
    numbers = defaultdict[str, set[int]](set)
    for target in targets:
        kind, _, number = target.partition(":")
        if kind in NAMES and number.isdecimal():
            numbers[kind].add(int(number))
    found: dict[str, str] = {}
    for kind, wanted in numbers.items():
        model, field = NAMES[kind]
        rows = model._default_manager.filter(pk__in=wanted).values_list("pk", field)  # noqa: SLF001 - Django's own API
        found |= {f"{kind}:{pk}": str(name) for pk, name in rows}
    return found
