"""Say things to other processes: durable nudges through the outbox, live values through Channels only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from portal.foundation.bulk import rows_insert
from portal.foundation.events import relay
from portal.foundation.events.models import OutboxMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Topic = OutboxMessage.Topic


def plan_nudge() -> None:
    """Ask for a planning once the present transaction commits. Nudges coalesce; beat plans anyway."""
    _put(Topic.PLAN)


def node_wake(*, node_id: int) -> None:
    """Wake a node's long poll: its parts changed."""
    _put(Topic.WAKE, f"node:{node_id}")


def nodes_wake(*, node_ids: Iterable[int]) -> None:
    """The same of many nodes, in one query."""
    _put_all([(Topic.WAKE, f"node:{node_id}", {}) for node_id in sorted(node_ids)])


def jobs_tell(*, job_ids: Iterable[int]) -> None:
    """Tell the pages of many jobs that they changed, in one query."""
    _put_all([(Topic.EVENT, f"job:{job_id}", {"topic": "job", "id": job_id}) for job_id in job_ids])


def page_event(*, stream: str, topic: str, **data: Any) -> None:
    """Tell pages that follow `stream` (`cluster` or `job:42`) to refetch what `topic` names.

    The cluster's stream carries no ids: every tenant follows it.
    """
    _put(Topic.EVENT, stream, {"topic": topic, **data})


def live_event(*, stream: str, topic: str, **data: Any) -> None:
    """Send a live value (telemetry, a log that grew): never stored, and a lost one is healed by the next."""
    relay.live_put(stream=stream, payload={"topic": topic, **data})


def _put(topic: str, stream: str = "", payload: dict[str, Any] | None = None) -> None:
    _put_all([(topic, stream, payload or {})])


def _put_all(messages: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
    """Put messages (topic, stream, payload) in the outbox."""
    now = timezone.now()
    rows = [(str(topic), stream, payload, now) for topic, stream, payload in messages]
    rows_insert(model=OutboxMessage, fields=["topic", "stream", "payload", "created_at"], rows=rows)
    transaction.on_commit(relay.kick, robust=True)
