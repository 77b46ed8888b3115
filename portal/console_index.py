"""The console's first page: work for an operator, and the last changes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

if TYPE_CHECKING:
    from django.http import HttpRequest

RECENT = 12


def index_context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add nodes that are not up, plannings that failed within a day, and the trail's last entries."""
    from portal.cluster.models import Node
    from portal.foundation.console.show import ago, targets_named
    from portal.people.tenants.models import AuditEvent
    from portal.planning.rounds.models import Planning

    nodes = list(Node.objects.select_related("gpu_type"))
    failed = Planning.objects.filter(
        status=Planning.Status.FAILED, started_at__gt=timezone.now() - timedelta(days=1)
    ).defer("decisions")
    last = Planning.objects.defer("decisions").first()
    recent = list(AuditEvent.objects.select_related("tenant")[:RECENT])
    named = targets_named(event.target for event in recent)
    for event in recent:
        event.named = named.get(event.target, event.target)
    return context | {
        "nodes_total": len(nodes),
        "nodes_away": [node for node in nodes if not node.is_schedulable],
        "plannings_failed": list(failed[:5]),
        "planning_last": last,
        "planning_ago": ago(last.started_at) if last else "",
        "audit_recent": recent,
    }
