"""Sentences on an array that waits, and on a node that is silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation.environment import env
from portal.pages.dashboard.parts.formatting import duration
from portal.pages.dashboard.parts.plain import reason_words
from portal.work.jobs.states import QUEUED

if TYPE_CHECKING:
    from datetime import datetime

    from portal.work.jobs.models import Attempt, Job


def array_why(job: Job) -> str | None:
    """Return why an array waits; None for one that does not."""
    if job.state not in QUEUED:
        return None
    said = reason_words(job.reason) if job.reason in {"held", "dependency"} else "its tasks start one by one"
    return f"{said[0].upper()}{said[1:]}."


def silent_words(attempt: Attempt, now: datetime) -> str | None:
    """Say that nodes of a live attempt are silent, and the consequences; None while all are heard."""
    live = [part for part in attempt.allocations.all() if part.released_at is None]
    silent = [part for part in live if not part.node.is_reachable]
    if not silent:
        return None
    heard = [part.node.last_contact_at for part in silent if part.node.last_contact_at]
    since = f" for {duration((now - min(heard)).total_seconds())}" if heard else ""
    names = " and ".join(part.node.name for part in silent)
    said = f"Berth has not heard {names}{since}, so what is shown here may be old; the job may still run there."
    ends = [part.lease_until for part in silent if part.lease_until]
    if not ends:
        return (
            f"{said} It is not ended for that: it stays until its node is back, or an operator declares the node dead."
        )
    left_s = (min(ends) - now).total_seconds() + env("BERTH_LEASE_GRACE_S")
    return f"{said} Without word this run counts as lost {f'in {duration(left_s)}' if left_s > 0 else 'soon'}."
