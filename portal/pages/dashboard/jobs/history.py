"""A job's resize history: why each attempt was stopped, what it went on with, and how long that took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.work.jobs.services.preempting import stop_words

if TYPE_CHECKING:
    from portal.work.jobs.models import Attempt


def attempt_cause(attempt: Attempt) -> str | None:
    """Return why an attempt ended, in words: a planning's stop with its cause, else what its node said."""
    if not attempt.stop_cause:
        return attempt.end_detail or None
    return stop_words(attempt=attempt, cause=attempt.stop_cause, wanted=attempt.stop_for, to_gpus=attempt.stop_to_gpus)
