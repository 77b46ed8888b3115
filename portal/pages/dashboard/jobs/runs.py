"""A job's runs and its profiles, as the folded row *Runs* shows them: only where there is more than one run to tell of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.pages.dashboard.jobs.timeline import attempt_cause, profiles_make
from portal.pages.dashboard.parts.plain import ENDS, ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.work.jobs.models import Attempt


def runs_make(attempts: Sequence[Attempt], profiles: Sequence[Attempt]) -> dict[str, Any] | None:
    if len(attempts) < 2 and not profiles:
        return None
    last = ", ".join(part.node.name for part in attempts[0].allocations.all()) if attempts else ""
    words = [
        f"{len(attempts)} run{'' if len(attempts) == 1 else 's'}, the last on {last}" if attempts else "not started yet"
    ]
    words += [f"{len(profiles)} short one{'' if len(profiles) == 1 else 's'} to measure its speed"] if profiles else []
    return {
        "words": "; ".join(words),
        "rows": [_row(attempt) for attempt in attempts],
        "profiles": profiles_make(profiles),
    }


def _row(attempt: Attempt) -> dict[str, Any]:
    parts = list(attempt.allocations.all())
    end = attempt.ended_at or timezone.now()
    return {
        "number": attempt.epoch,
        "how": ended(attempt.state, attempt.exit_code, attempt.signal)
        if attempt.state in ENDS
        else attempt.get_state_display(),
        "where": ", ".join(part.node.name for part in parts),
        "gpus": f"{attempt.gpus} GPU{'s' if attempt.gpus != 1 else ''}" if attempt.gpus else "CPU",
        "cores": attempt.cores,
        "started_at": attempt.started_at.isoformat() if attempt.started_at else None,
        "ended_at": attempt.ended_at.isoformat() if attempt.ended_at else None,
        "run_s": (end - attempt.started_at).total_seconds() if attempt.started_at else None,
        "cause": attempt_cause(attempt),
        "restart_s": attempt.restart_s,
    }
