"""One look at the cluster for one answer: each part is read once, when a page or fragment first asks for it."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from portal.cluster.selectors import nodes_with_gpus
from portal.dashboard.masking import Reader
from portal.jobs.occupancy import gpu_intervals, parts_live
from portal.jobs.queue_counts import queue_counts
from portal.rounds.history import plannings_listed
from portal.rounds.kept import kept_now
from portal.rounds.knobs import knobs_current
from portal.rounds.models import Planning, Round

if TYPE_CHECKING:
    from portal.cluster.models import Node
    from portal.jobs.models import Allocation
    from portal.jobs.occupancy import Interval
    from portal.jobs.queue_counts import QueueCounts
    from portal.rounds.kept import KeptFor
    from portal.tenants.models import User

SAMPLE_FRESH_S = 30
"""A telemetry sample older than this says nothing about now."""


class Snapshot:
    """What a reader's page is made of. `hours` is h: how far back active rates and ratios look."""

    def __init__(self, user: User, *, hours: float = 1.0) -> None:
        self.user, self.hours = user, hours
        self.now = timezone.now()
        self.since = self.now - timedelta(hours=hours)

    @cached_property
    def reader(self) -> Reader:
        return Reader.of(self.user)

    @cached_property
    def nodes(self) -> list[Node]:
        return list(nodes_with_gpus(self.user))

    @cached_property
    def parts(self) -> list[Allocation]:
        return parts_live()

    @cached_property
    def parts_by_node(self) -> dict[int, list[Allocation]]:
        found: dict[int, list[Allocation]] = defaultdict(list)
        for part in self.parts:
            found[part.node_id].append(part)
        return found

    @cached_property
    def kept_by_node(self) -> dict[str, list[KeptFor]]:
        """What is kept for jobs, by node name, as the reader may see it."""
        found: dict[str, list[KeptFor]] = defaultdict(list)
        for each in kept_now(user=self.user):
            for name in each.nodes:
                found[name].append(each)
        return found

    @cached_property
    def intervals(self) -> dict[int, list[Interval]]:
        return gpu_intervals(since=self.since)

    @cached_property
    def queue(self) -> QueueCounts:
        return queue_counts(now=self.now)

    @cached_property
    def knobs(self) -> dict[str, Any]:
        """The operator's settings in force."""
        return knobs_current()

    @cached_property
    def planning(self) -> Planning | None:
        """The last applied planning, with its decisions."""
        rows = Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number")
        return rows.first()

    @cached_property
    def last_round(self) -> Round | None:
        """The last round that has ended, with its figures."""
        return Round.objects.exclude(metrics={}).first()

    @cached_property
    def last_plannings(self) -> list[Planning]:
        return list(plannings_listed()[:20])

    @cached_property
    def gpus_total(self) -> int:
        return sum(len(node.gpus_present) for node in self.nodes if not node.dead_at)

    @cached_property
    def gpus_held(self) -> int:
        return sum(len(part.gpu_allocations.all()) for part in self.parts)

    def live_gpus(self, node: Node) -> dict[str, dict[str, float]]:
        """Return the node's last sample by GPU index; {} when it is too old."""
        live = node.live or {}
        fresh = self.now.timestamp() - live.get("at", 0) < SAMPLE_FRESH_S
        return live.get("gpus", {}) if fresh else {}


class NodeSnapshot(Snapshot):
    """A look at one node alone, by its name: what the others hold is not read. `nodes` is empty if there is none."""

    def __init__(self, user: User, name: str) -> None:
        super().__init__(user)
        self.name = name

    @cached_property
    def nodes(self) -> list[Node]:
        return list(nodes_with_gpus(self.user).filter(name=self.name))

    @cached_property
    def parts(self) -> list[Allocation]:
        return [part for node in self.nodes for part in parts_live(node_id=node.pk)]

    @cached_property
    def intervals(self) -> dict[int, list[Interval]]:
        return {
            gpu: held for node in self.nodes for gpu, held in gpu_intervals(since=self.since, node_id=node.pk).items()
        }
