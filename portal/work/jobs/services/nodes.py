"""What jobs do when something happens to a node that they run on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.cluster.followers import Follower
from portal.work.jobs.services.locks import road_lock
from portal.work.jobs.services.parts import jobs_on, node_parts_lose, node_silence_forget
from portal.work.jobs.services.unwell import parts_unwell

if TYPE_CHECKING:
    from collections.abc import Collection

    from portal.cluster.models import Node


class JobsOnNode(Follower):
    def node_lock(self, *, node: Node) -> None:
        """Lock a node together with the jobs that run on it and their other nodes."""
        road_lock(jobs=lambda: jobs_on(node_id=node.pk), nodes=[node.pk])

    def node_back(self, *, node: Node) -> None:
        node_silence_forget(node=node)

    def gpus_failed(self, *, node: Node, indices: Collection[int] | None, detail: str) -> int:
        return parts_unwell(node=node, indices=indices, detail=detail)

    def node_lost(self, *, node: Node, detail: str) -> int:
        return node_parts_lose(node=node, detail=detail)
