"""Lines of logs that jobs look for: the first one is sent at once, further ones together, and fewer and fewer of those.

A pattern is text; `*` is any text within the line. Its pieces are found one after the other, each at its first place:
with no other wildcard that is right, and nothing is ever tried again. A line has what a person saw of it: each of its
drawings, where a bar overwrites itself, and the text that they leave together once it is over. The search is pure,
and its cost is bounded whatever pattern and log say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from portal.work.jobs.log_lines import is_plain, lines_drawn, utf8_whole
from portal.work.jobs.models import Job
from portal.work.jobs.services.events import event_record
from portal.work.notifications.models import Happening, LogMatch, LogTail
from portal.work.notifications.words import one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from portal.foundation.events.followers import LogPiece


TAIL_BYTES = 4096
"""The most of a line that goes on in the next piece and is looked through again with it."""
LINES_TRIED = 8192
"""The most lines of one piece that are looked at closely for one pattern: a quarter of a MiB has this many of 32 bytes.

Those beyond are not looked at; a log that reaches it with a pattern of several pieces has them in almost every line.
"""
_AGAIN = "\r"
"""Stands between the drawings of one line."""
_DRAWN = re.compile(rf"[\n{_AGAIN}]")


@dataclass(frozen=True, slots=True)
class Tail:
    """A line that is not over: how it begins, and the places of the patterns that it had already."""

    text: bytes = b""
    had: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """`place`: of the pattern; `lines`: how many had it; `first` and `last` of them."""

    place: int
    lines: int
    first: str
    last: str


def lines_find(patterns: Sequence[str], tail: Tail, data: bytes) -> tuple[list[Found], Tail]:
    """Look through a piece that follows on `tail`; return the hits, and how the piece ends. Linear in its bytes."""
    raw = tail.text + data
    text = _seen(utf8_whole(raw))
    last_line = text.rfind("\n") + 1
    found, had = [], set(tail.had if last_line == 0 else ())
    for place, pattern in enumerate(patterns):
        starts = _starts(text, pattern, after_first=place in tail.had)
        if starts:
            first, last = (text[start : _drawn_to(text, start)] for start in (starts[0], starts[-1]))
            found.append(Found(place, len(starts), first, last))
            if starts[-1] >= last_line:
                had.add(place)
    return found, Tail(raw[raw.rfind(b"\n") + 1 :][-TAIL_BYTES:], frozenset(had))


def _seen(raw: bytes) -> str:
    """Return the lines as they are shown, with all drawings of each; the last one is not over."""
    text = raw.decode("utf-8", "replace")
    if is_plain(text):
        return text
    *whole, last = lines_drawn(text)
    return "\n".join(map(_AGAIN.join, [*whole, last[:-1] or last]))


def _starts(text: str, pattern: str, *, after_first: bool) -> list[int]:
    """Return where the drawings begin that have the pattern, one of a line; `after_first`: the first line was sent before."""
    pieces = [each for each in pattern.split("*") if each]
    longest = max(pieces, key=len)
    at = _end(text, 0) if after_first else 0
    starts = []
    for _ in range(LINES_TRIED):
        here = text.find(longest, at)
        if here < 0:
            break
        start, end = max(text.rfind("\n", at, here), text.rfind(_AGAIN, at, here), at - 1) + 1, _drawn_to(text, here)
        if _has(text, pieces, start, end):
            starts.append(start)
            end = _end(text, here)
        at = end
    return starts


def _end(text: str, at: int) -> int:
    """Return where the line after this place's begins, or the text's end."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _drawn_to(text: str, at: int) -> int:
    """Return where the drawing of this place ends."""
    found = _DRAWN.search(text, at)
    return found.start() if found else len(text)


def _has(text: str, pieces: Collection[str], start: int, end: int) -> bool:
    at = start
    for piece in pieces:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


GAPS = (timedelta(minutes=10), timedelta(hours=1), timedelta(hours=6), timedelta(hours=24))
"""After the first message, and after each digest: the time in which further lines are gathered. Then no more is sent."""
LOOKED_AT = 1000
"""Digests made in one look; the others are made in the next."""


def log_look(piece: LogPiece) -> None:
    """Note the hits of a job's patterns in a piece of output. In the transaction that stores the piece."""
    where = {"attempt_id": piece.attempt_id, "rank": piece.rank, "stream": piece.stream}
    row = LogTail.objects.filter(**where).first()
    before = Tail(bytes(row.text), frozenset(row.had)) if row else Tail()
    found, after = lines_find(piece.patterns, before, piece.data)
    if after != before:
        LogTail.objects.update_or_create(**where, defaults={"text": after.text, "had": sorted(after.had)})
    for each in found:
        _note(piece, each)


def _note(piece: LogPiece, found: Found) -> None:
    mine = LogMatch.objects.filter(job_id=piece.job_id, place=found.place)
    first, now = one_line(found.first[:1000], 200), timezone.now()
    defaults = {"messages": 1, "line": first, "lines": 1}
    _, is_new = LogMatch.objects.get_or_create(job_id=piece.job_id, place=found.place, defaults=defaults)
    if is_new:
        said = f"a line has {piece.patterns[found.place]}: {first}"
        _happen(piece.job_id, f"log-{found.place}-1", said)
        event_record(job_id=piece.job_id, kind="log-match", text=f"The log has a line that was looked for: {first}")
    more = found.lines - is_new
    if more:
        mine.update(lines=F("lines") + more, untold=F("untold") + more, line=one_line(found.last[:1000], 200))
        for messages, gap in enumerate(GAPS, 1):
            mine.filter(messages=messages, due_at=None).update(due_at=now + gap)


def _happen(job_id: int, mark: str, detail: str) -> None:
    Happening.objects.create(job_id=job_id, what="log", mark=mark, at=timezone.now(), detail=detail[:300])


@transaction.atomic
def digests_note() -> int:
    """Tell of further lines whose time has come; return of how many jobs and patterns."""
    due = LogMatch.objects.filter(due_at__lte=timezone.now()).order_by("due_at")[:LOOKED_AT]
    rows = list(due.select_for_update())
    patterns = dict(Job.objects.filter(pk__in={row.job_id for row in rows}).values_list("pk", "log_matches"))
    for row in rows:
        messages = row.messages + 1
        last = "; no more is told of this text" if messages > len(GAPS) else ""
        lines = f"{row.untold:,} more line{'s have' if row.untold > 1 else ' has'}"
        said = f"{lines} {patterns[row.job_id][row.place]}{last}, the last one: {row.line}"
        _happen(row.job_id, f"log-{row.place}-{messages}", said)
        LogMatch.objects.filter(pk=row.pk).update(messages=messages, untold=0, due_at=None)
    return len(rows)
