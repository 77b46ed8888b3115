"""The rows of the page of compared jobs: different and equal parts of their requests, and their course."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import F, Prefetch
from django.utils import timezone

from portal.foundation.checks import lines_of
from portal.pages.dashboard.jobs.compare.asked import asked_of
from portal.pages.dashboard.jobs.ended import remedy_for
from portal.pages.dashboard.parts.formatting import duration, number, size
from portal.planning.rounds.read.ends import ran_s
from portal.work.artefacts.models import JobArtefacts
from portal.work.jobs.models import Allocation, Attempt
from portal.work.jobs.states import FINAL, LIVE, end_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.pages.dashboard.jobs.rows import JobRow
    from portal.work.jobs.models import Job

ROWS_MOST = 60
"""Rows of a kind: a job may have a thousand variables."""
LINES_MOST, CHARS_MOST = 12, 400
NODES_SHOWN = 3


def cell(text: str = "", *, at: str | None = None, state: str | None = None, note: str | None = None) -> dict[str, Any]:
    """Return a cell: `text`, a time `at` or a state, with `note` below it; all empty: a dash."""
    return {"text": text, "at": at, "state": state, "note": note}


# ---- what they asked for -----------------------------------------------------------------------------------------------


def asked_rows(jobs: Sequence[Job]) -> tuple[list[dict[str, Any]], list[tuple[str, str]], int]:
    """Return the rows that differ, the equal ones as label and text, and the number of different ones left out."""
    found = asked_of(jobs)
    labels = list(dict.fromkeys(label for own in found for label in own))
    texts = {label: [own.get(label, "") for own in found] for label in labels}
    apart = [_row(label, texts[label]) for label in labels if len(set(texts[label])) > 1]
    alike = [(label, _cut(texts[label][0])) for label in labels if len(set(texts[label])) == 1]
    return _named(apart[:ROWS_MOST], jobs), alike[:ROWS_MOST], max(0, len(apart) - ROWS_MOST)


def _named(rows: list[dict[str, Any]], jobs: Sequence[Job]) -> list[dict[str, Any]]:
    for row in rows:
        for own, job in zip(row["cells"], jobs, strict=True):
            own["job"] = f"#{job.number}"  # its column on a phone
    return rows


def _row(label: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return a row; of texts of several lines only the lines that not all have."""
    if not any("\n" in text for text in texts):
        return {"label": label, "cells": [cell(_cut(text)) for text in texts], "is_text": label == "Command"}
    lines = [lines_of(text) for text in texts]
    common = set(lines[0]).intersection(*lines[1:])
    moved = all(common.issuperset(own) for own in lines)
    return {"label": label, "cells": [_lines(own, common, moved=moved) for own in lines], "is_text": True}


def _lines(own: Sequence[str], common: set[str], *, moved: bool) -> dict[str, Any]:
    """`moved`: none has a line of its own, so they stand in another order, or one stands more often."""
    apart = [line for line in own if line not in common]
    alike, hidden = len(own) - len(apart), len(apart) - LINES_MOST
    notes = [f"{number(hidden)} more lines that differ"] if hidden > 0 else []
    if moved:
        notes.append("the same lines in another order")
    elif alike:
        notes.append(f"{number(alike)} line{'s' if alike != 1 else ''} alike")
    return cell(_cut("\n".join(apart[:LINES_MOST])), note=", ".join(notes) if own and notes else None)


def _cut(text: str) -> str:
    return text if len(text) <= CHARS_MOST else f"{text[:CHARS_MOST]} ..."


# ---- how it went -------------------------------------------------------------------------------------------------------


def course_rows(jobs: Sequence[Job], rows: Sequence[JobRow]) -> list[dict[str, Any]]:
    """Return the course of each job until now or its end, without rows that are empty for all. Four queries."""
    parts = Prefetch("allocations", Allocation.objects.select_related("node").order_by("rank"))
    attempts = Attempt.objects.runs().filter(job__in=jobs, epoch=F("job__epoch")).select_related("speed")
    last = {attempt.job_id: attempt for attempt in attempts.prefetch_related(parts)}
    kept = JobArtefacts.objects.in_bulk([job.pk for job in jobs])
    columns = [_course(job, row, last.get(job.pk), kept.get(job.pk)) for job, row in zip(jobs, rows, strict=True)]
    made: list[dict[str, Any]] = [
        {"label": label, "cells": [column[label] for column in columns], "is_text": False} for label in columns[0]
    ]
    known = [row for row in made if any(each["text"] or each["at"] or each["state"] for each in row["cells"])]
    return _named(known, jobs)


def _course(job: Job, row: JobRow, attempt: Attempt | None, kept: JobArtefacts | None) -> dict[str, dict[str, Any]]:
    over = job.state in FINAL
    return {
        "State": cell(state=job.state, note=row["array"]["words"] if row["array"] else None),
        "Cause": cell(job.end_detail or end_words(job.exit_code, job.signal), note=remedy_for(job) if over else None),
        "Submitted": cell(at=row["submitted_at"]),
        "Waited": cell("" if row["waited_s"] is None else duration(row["waited_s"])),
        "Started": _started(row),
        "Ran": cell(
            duration(job.ran_s if attempt.ended_at else ran_s(job, attempt, timezone.now())) if attempt else ""
        ),
        "Ended": _ended(row),
        "Runs": cell(_attempts(job)),
        "Ran on": cell(_nodes(attempt)),
        "Held": cell(_held(attempt) if attempt else ""),
        "GPU time held": cell(_gpu_time(job, attempt)),
        "Speed": _speed(attempt),
        "Done": cell("" if row["progress_percent"] is None else f"{row['progress_percent']:.0f} %"),
        "Results": cell(
            f"{number(kept.files)} file{_s(kept.files)}, {size(kept.counted)}" if kept and kept.files else ""
        ),
    }


def _started(row: JobRow) -> dict[str, Any]:
    if row["started_at"] or row["starts"] is None or row["starts"]["passed"]:
        return cell(at=row["started_at"])
    return cell(at=row["starts"]["earliest"], note="predicted: the beginning of its start range")


def _ended(row: JobRow) -> dict[str, Any]:
    if row["ended_at"] or row["ends"] is None:
        return cell(at=row["ended_at"])
    return cell(at=row["ends"]["earliest"], note="predicted")


def _attempts(job: Job) -> str:
    if not job.epoch:
        return ""
    again = [(job.preemptions, "stopped for others"), (job.requeues, "lost"), (job.failures, "failed")]
    words = ", ".join(f"{count} {word}" for count, word in again if count)
    return f"{job.epoch} ({words})" if words and job.epoch > 1 else str(job.epoch)


def _nodes(attempt: Attempt | None) -> str:
    names = [part.node.name for part in attempt.allocations.all()] if attempt else []
    more = f" and {len(names) - NODES_SHOWN} more" if len(names) > NODES_SHOWN else ""
    return ", ".join(names[:NODES_SHOWN]) + more


def _gpu_time(job: Job, attempt: Attempt | None) -> str:
    held = job.attained_gpu_s
    if attempt and job.state in LIVE and attempt.started_at:
        held += attempt.gpus * (timezone.now() - attempt.started_at).total_seconds()
    return duration(held) if held else ""


def _held(attempt: Attempt) -> str:
    cores = f"{attempt.cores} core{_s(attempt.cores)}"
    return f"{attempt.gpus} GPU{_s(attempt.gpus)}, {cores}" if attempt.gpus else cores


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _speed(attempt: Attempt | None) -> dict[str, Any]:
    speed: Any = getattr(attempt, "speed", None)
    measured, predicted = (speed.samples_per_s, speed.predicted_samples_per_s) if speed else (None, None)
    words = "" if measured is None else f"{number(measured, 1)} samples/s"
    note = f"predicted {number(predicted, 1)}" if measured is not None and predicted else None
    return cell(words, note=note)
