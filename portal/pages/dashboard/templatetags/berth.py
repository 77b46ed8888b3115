"""Template tags of Berth's design language: state, reason, sentence, icon, numbers and times."""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from django import template
from django.conf import STATICFILES_STORAGE_ALIAS
from django.core.files.storage import storages
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.pages.dashboard.help.rendering import words
from portal.pages.dashboard.parts import marks
from portal.pages.dashboard.parts.formatting import DASH, duration, limit_size, number, percent, precise, share, size
from portal.pages.dashboard.parts.plain import reason_words, sizes, sizes_gpus, waited_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.core.files.storage import Storage

    from portal.pages.dashboard.parts.context import Rich, Segment
    from portal.pages.dashboard.parts.gpus import Cell

register = template.Library()
for figure_words in (duration, limit_size, precise, number, percent, share, size, sizes, sizes_gpus, waited_times):
    register.filter(figure_words)
for drawing in (marks.bar, marks.sparkline, marks.timeline):
    register.simple_tag(drawing)

INSTANT = re.compile(r"(\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}Z)")

# state: (glyph, word, tone); every glyph has a shape of its own, so a list reads in greyscale
STATES = {
    "PENDING": ("waiting", "Waiting", "wait"),
    "HELD": ("held", "Held", "stop"),
    "STARTING": ("starting", "Starting", "run"),
    "RUNNING": ("running", "Running", "run"),
    "PREEMPTED": ("preempted", "Stopped for another job", "stop"),
    "COMPLETED": ("completed", "Completed", "neutral"),
    "FAILED": ("failed", "Failed", "fail"),
    "TIMEOUT": ("time-limit", "Timed out", "fail"),
    "CANCELLED": ("cancelled", "Cancelled", "neutral"),
    "OUT_OF_MEMORY": ("out-of-memory", "Out of memory", "fail"),
    "NODE_FAIL": ("node-failed", "Node failed", "fail"),
}
NODE_HEALTH = {
    "up": ("live", "run"),
    "unreachable": ("stale", "wait"),
    "drained": ("held", "stop"),
    "disk-low": ("stale", "wait"),
    "dead": ("node-failed", "fail"),
    "left": ("completed", "neutral"),
}


@register.simple_tag(takes_context=True)
def shared(context: template.Context, name: str, path: str) -> SafeString:
    """A fragment: as readers share it (`html`), else rendered here."""
    html = (context.get("html") or {}).get(name)
    return SafeString(render_to_string(path, context.flatten()) if html is None else html)


@register.simple_tag
def icon(name: str, size: int = 16) -> SafeString:
    """A glyph of the sprite; decoration only, so hidden from screen readers."""
    return _icon(name, size, storages[STATICFILES_STORAGE_ALIAS])


@lru_cache(maxsize=500)
def _icon(name: str, size: int, files: Storage) -> SafeString:
    """Make a glyph once: a list has hundreds, and its address is looked up anew for each. `files`: which says the address."""
    return format_html(
        '<svg class="b-icon" width="{}" height="{}" aria-hidden="true" focusable="false">'
        '<use href="{}#{}"></use></svg>',
        size,
        size,
        files.url("img/sprite.svg"),
        name if name.startswith("s-") or name == "logo" else f"i-{name}",
    )


@register.simple_tag
def word(name: str, shown: str = "") -> SafeString:
    """A word of docs/words.md, with its meaning in the title and a link to its row. KeyError: no such word there."""
    meaning, url = words()[name.lower()]
    return format_html('<a class="b-word" href="{}" title="{}">{}</a>', url, meaning, shown or name)


@register.simple_tag
def state(code: str, pill: bool = False, word: str | None = None) -> SafeString:
    """A job's state: glyph, word and colour, always all three. A pill in a page's head, plain in tables."""
    glyph, usual_word, tone = STATES[code]
    return format_html(
        '<span class="b-state b-tone-{}{}">{}{}</span>',
        tone,
        " b-pill" if pill else "",
        icon(f"s-{glyph}", 14),
        word or usual_word,
    )


@register.simple_tag
def state_glyph(code: str) -> SafeString:
    """Only the coloured glyph, where the word stands beside it already."""
    glyph, _, tone = STATES[code]
    return format_html('<span class="b-state b-tone-{}">{}</span>', tone, icon(f"s-{glyph}", 14))


@register.simple_tag
def health(code: str, word: str, pill: bool = False) -> SafeString:
    glyph, tone = NODE_HEALTH[code]
    shape = " b-pill" if pill else ""
    return format_html('<span class="b-state b-tone-{}{}">{}{}</span>', tone, shape, icon(f"s-{glyph}", 14), word)


@register.simple_tag
def reason(code: str | None, said: str | None = None) -> SafeString:
    """Why a job waits, in plain words (`said`: those with figures, of `reason_words`); REST's code is in the title."""
    return (
        format_html('<span title="{}">{}</span>', code, _timed(said or reason_words(code))) if code else SafeString("")
    )


@register.simple_tag
def rich(sentence: Rich | None) -> SafeString:
    """A sentence of segments with emphasis, links and reason chips; every text is escaped."""
    if not sentence:
        return SafeString("")
    if isinstance(sentence, str):
        return _timed(sentence)
    return format_html_join("", "{}", ((_segment(part),) for part in sentence))


def _timed(text: str) -> SafeString:
    """The text with its instants (`scheduler.phrases.instant`) as times in the reader's zone."""
    parts = INSTANT.split(text)  # texts and instants in turn
    return format_html_join("", "{}", ((_moment(each) if place % 2 else each,) for place, each in enumerate(parts)))


def _moment(text: str) -> str:
    try:
        return moment(text)
    except ValueError:  # no day of the calendar: somebody's own words, such as a job's name
        return text


def _segment(part: Segment) -> SafeString:
    text = _timed(part["text"])
    if part.get("code"):
        text = reason(part["text"])
    if part.get("whole"):
        text = format_html('<span class="b-nowrap">{}</span>', text)
    if part.get("note"):
        text = format_html('<span class="b-note">{}</span>', text)
    if part.get("href"):
        text = format_html('<a href="{}">{}</a>', part["href"], text)
    return format_html("<strong>{}</strong>", text) if part.get("bold") else text


@register.simple_tag
def moment(iso: str | None, form: str = "clock") -> SafeString:
    """A time, printed in UTC until base.js prints it in the reader's zone; forms: clock, near, clock-s, date, day, age, until."""
    if not iso:
        return SafeString(f'<span class="b-none">{DASH}</span>')
    at = datetime.fromisoformat(iso)
    shown = {"clock": "%H:%M", "near": "%H:%M", "clock-s": "%H:%M:%S", "day": "%Y-%m-%d"}.get(form, "%Y-%m-%d %H:%M")
    return format_html('<time datetime="{}" data-format="{}">{}</time>', iso, form, at.strftime(shown))


@register.simple_tag
def ticking(iso: str) -> SafeString:
    """How long ago that was; base.js lets it tick, by the server's clock."""
    seconds = (timezone.now() - datetime.fromisoformat(iso)).total_seconds()
    return format_html('<span data-since="{}">{}</span>', iso, precise(seconds))


@register.simple_tag
def gpu(cell: Cell) -> SafeString:
    """A GPU as a calm cell (`parts.gpus`). Made in one go: a page has hundreds. board.js writes how busy it is."""
    classes = " ".join(f"b-{look}" for look in cell["look"].split())
    return format_html(
        '<span class="b-gpu {}" data-gpu="{}" role="img" aria-label="{}" title="{}">{}</span>',
        classes,
        cell["index"],
        cell["title"],
        cell["title"],
        cell["word"],
    )


@register.filter
def minus(value: int, other: int) -> int:
    return value - other


@register.filter
def json_attribute(value: object) -> str:
    """JSON for a data- attribute; the template escapes it."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


@register.simple_tag
def stacked(segments: Sequence[dict[str, Any]], total: float | None = None, label: str = "") -> SafeString:
    return marks.stacked([(part["token"], part["count"]) for part in segments], total, label)


@register.simple_tag
def core_bar(gpu_jobs: int, cpu_jobs: int, total: int) -> SafeString:
    label = f"{gpu_jobs} cores for GPU jobs, {cpu_jobs} for CPU jobs, of {total}"
    return marks.stacked([("gpu", gpu_jobs), ("cpu", cpu_jobs)], total, label)


@register.filter
def highest(rows: Sequence[dict[str, Any]], key: str) -> float:
    """The largest figure of a column, at least 1: the scale of small bars in a table."""
    return max([1, *(row[key] or 0 for row in rows)])
