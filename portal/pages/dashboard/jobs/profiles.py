"""A job's profiles: where and when its speed was measured while it waited, how that ended, and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils import timezone

from portal.planning.estimation.selectors import profiles_found
from portal.work.jobs.services.preempting import stop_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.pages.dashboard.jobs.context import ProfileRow, Span
    from portal.planning.estimation.selectors import Found
    from portal.work.jobs.models import Attempt


PATTERNS: Mapping[str, str] = {
    "OVERLAPPED": "loads data during the backward pass",
    "SEQUENTIAL": "loads data before it computes",
    "INFERENCE": "only infers",
}


def profiles_make(profiles: Sequence[Attempt]) -> list[ProfileRow]:
    """`profiles` as `profiles_of` reads them, the last one first."""
    known = profiles_found((each.profile_of, each.profile_type_id) for each in profiles)
    return [_row(each, known.get((each.profile_of, each.profile_type_id))) for each in profiles]


def _row(attempt: Attempt, found: Found | None) -> ProfileRow:
    speed = getattr(attempt, "speed", None)
    end = attempt.ended_at or timezone.now()
    return {
        "state": attempt.state,
        "gpu_type": str(attempt.profile_type or ""),
        "where": _where(attempt),
        "started_at": attempt.started_at.isoformat() if attempt.started_at else None,
        "run_s": (end - attempt.started_at).total_seconds() if attempt.started_at else None,
        "iterations": speed.iterations if speed else 0,
        "samples_per_s": speed.samples_per_s if speed else None,
        "cause": attempt_cause(attempt),
        "log_url": _log_url(attempt),
        "found": _words(found) if found and speed else [],
    }


def _where(attempt: Attempt) -> str:
    return ", ".join(part.node.name for part in attempt.allocations.all())


def _log_url(attempt: Attempt) -> str | None:
    if not attempt.log_chunks.exists():
        return None
    return f"{reverse('job-log-download', args=[attempt.job.number])}?profile={attempt.epoch}"


def _words(found: Found) -> list[str]:
    times = (
        ("data", found.data_s),
        ("forward", found.forward_s),
        ("backward", found.backward_s),
        ("update", found.update_s),
    )
    words = [f"{name} {_milliseconds(seconds)}" for name, seconds in times if seconds is not None]
    return [*words, PATTERNS[found.pattern.name]] if found.pattern else words


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def profile_spans(profiles: Sequence[Attempt]) -> list[Span]:
    """Return the profiles as low bars over the waiting."""
    return [
        {
            "kind": "profiling",
            "from_at": each.created_at.isoformat(),
            "to_at": each.ended_at.isoformat() if each.ended_at else None,
            "gpus": 0,
            "label": "profile",
            "caption": f"{each.profile_type or ''}, {_where(each)}",
        }
        for each in reversed(profiles)
    ]


def attempt_cause(attempt: Attempt) -> str | None:
    """Return why an attempt ended, in words: a planning's stop with its cause, else what its node said."""
    if not attempt.stop_cause:
        return attempt.end_detail or None
    return stop_words(attempt=attempt, cause=attempt.stop_cause, wanted=attempt.stop_for, to_gpus=attempt.stop_to_gpus)
