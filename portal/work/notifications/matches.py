"""Lines of logs that jobs look for: the first one is sent at once, further ones together, and fewer and fewer of those."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from portal.work.jobs.models import Job
from portal.work.jobs.services.events import event_record
from portal.work.notifications.models import Happening, LogMatch, LogTail
from portal.work.notifications.patterns import Tail, lines_find
from portal.work.notifications.words import one_line

if TYPE_CHECKING:
    from portal.foundation.events.followers import LogPiece
    from portal.work.notifications.patterns import Found

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
