"""The console's first page: what needs an operator, and what was done last."""

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
    from portal.rounds.models import Planning
    from portal.tenants.models import AuditEvent

    nodes = list(Node.objects.select_related("gpu_type"))
    failed = Planning.objects.filter(
        status=Planning.Status.FAILED, started_at__gt=timezone.now() - timedelta(days=1)
    ).defer("decisions")
    return context | {
        "nodes_total": len(nodes),
        "nodes_away": [node for node in nodes if not node.is_schedulable],
        "plannings_failed": list(failed[:5]),
        "planning_last": Planning.objects.defer("decisions").first(),
        "audit_recent": list(AuditEvent.objects.select_related("tenant")[:RECENT]),
    }
