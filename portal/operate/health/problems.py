"""Problems although Berth answers: sentences for the operator, in a fixed number of queries.

`/healthz` is polled, so nothing here grows with the number of nodes or jobs: what is told is counted, and the first few
are named. Another check is a function of `now` that returns sentences, added to CHECKS.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from portal.cluster.models import UNREACHABLE_AFTER_S, Node
from portal.foundation.environment import env
from portal.operate.backups.automatic import backup_problems
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.sharing import policy_problems
from portal.planning.rounds.settings.leaps import leap_problems
from portal.work.artefacts.services.moving import store_state
from portal.work.jobs.models import Attempt
from portal.work.jobs.services.reconciling import portal_since
from portal.work.jobs.states import AttemptState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django.db.models import QuerySet

NAMED = 5
"""The number of each kind that is named; the rest are counted."""
STARTING_LIMIT_S = 300
"""A job normally starts within seconds; large files and many nodes take a minute."""
FAILED_PLANNINGS = 3


def problems_of(now: datetime) -> list[str]:
    """Return a sentence for each thing an operator should look at."""
    return [sentence for check in CHECKS for sentence in check(now)]


def nodes_unreachable(now: datetime) -> list[str]:
    """Nodes that should be there: neither declared dead, nor drained, nor with a revoked token.

    A portal that was away heard nobody: none is named until it has run for as long as a silent node is believed.
    """
    since = portal_since()
    if since is not None and now < since + timedelta(seconds=UNREACHABLE_AFTER_S):
        return []
    limit = now - timedelta(seconds=UNREACHABLE_AFTER_S)
    away = Node.objects.alive().filter(drained_at=None, token_revoked_at=None, last_contact_at__lte=limit)
    rows = away.order_by("last_contact_at", "name").values_list("name", "last_contact_at")
    return _counted("nodes", rows, "unreachable", lambda row: f"{row[0]} since {row[1]:%Y-%m-%d %H:%M:%S} UTC")


def nodes_low_on_disk(_now: datetime) -> list[str]:
    low = Node.objects.alive().filter(disk_low=True).order_by("disk_free_mib", "name")
    rows = low.values_list("name", "disk_free_mib")
    return _counted("node disks", rows, "almost full, no new jobs there", lambda row: f"{row[0]} {row[1]} MiB free")


def nodes_with_problems(_now: datetime) -> list[str]:
    """Problems that agents report. Only the node's page says what they are, because `/healthz` needs no token."""
    rows = Node.objects.alive().exclude(problems=[]).order_by("name").values_list("name")
    return _counted("agents", rows, "reported a problem, see the node's page", lambda row: row[0])


def jobs_starting_long(now: datetime) -> list[str]:
    limit = now - timedelta(seconds=STARTING_LIMIT_S)
    slow = Attempt.objects.filter(state=AttemptState.STARTING, ended_at=None, created_at__lt=limit)
    rows = slow.order_by("created_at", "pk").values_list("job_id", "created_at")
    what = f"starting for over {STARTING_LIMIT_S // 60} min"
    return _counted("jobs", rows, what, lambda row: f"{row[0]} since {row[1]:%Y-%m-%d %H:%M:%S} UTC")


def plannings_failing(_now: datetime) -> list[str]:
    last = list(Planning.objects.order_by("-number").values_list("status", flat=True)[:FAILED_PLANNINGS])
    if len(last) < FAILED_PLANNINGS or set(last) != {Planning.Status.FAILED}:
        return []
    return [f"plannings: the last {FAILED_PLANNINGS} failed; logs/worker.log says why"]


def nodes_unsettled(_now: datetime) -> list[str]:
    """Nodes that jobs wait for since a restore; the remedy is the operator's."""
    waited_for = Node.objects.alive().filter(unsettled_since__isnull=False, token_revoked_at=None).order_by("name")
    what = "silent since a backup was restored; older jobs wait until these nodes report or are declared dead"
    return _counted("nodes", waited_for.values_list("name"), what, lambda row: row[0])


def store_away(_now: datetime) -> list[str]:
    """The store of artefacts, as it was when something was last brought there. Only the log says why: no token is needed here."""
    state = store_state() if env("BERTH_S3_URL") else None
    if state is None or state["why"] is None:
        return []
    since = datetime.fromtimestamp(state["since"], UTC)
    told = (
        f"artefacts: their store does not answer since {since:%Y-%m-%d %H:%M:%S} UTC; they wait in the data directory "
        "(the log of the laboratory's worker says why)"
    )
    return [told]


def _counted(subject: str, rows: QuerySet, what: str, words: Callable[[tuple[Any, ...]], str]) -> list[str]:
    """Return `subject: 7 what (first, second, ... and 2 more)`; nothing when there is none. Two queries at most."""
    found = list(rows[: NAMED + 1])
    if not found:
        return []
    count = len(found) if len(found) <= NAMED else rows.count()
    more = f", and {count - NAMED} more" if count > NAMED else ""
    return [f"{subject}: {count} {what} ({', '.join(words(row) for row in found[:NAMED])}{more})"]


CHECKS: Iterable[Callable[[datetime], list[str]]] = (
    nodes_unreachable,
    nodes_low_on_disk,
    nodes_with_problems,
    jobs_starting_long,
    plannings_failing,
    nodes_unsettled,
    backup_problems,
    store_away,
    policy_problems,
    leap_problems,
)
