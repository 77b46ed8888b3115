"""The jobs for which idle GPUs are kept from a waiting job, as it stands now: read when shown, never stored.

A waiting job's stored figures stay as long as its reason does, while what keeps it out may pass from one job to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from portal.cluster.models import Node
from portal.planning.rounds.read.kept import kept_entries
from portal.work.jobs.models import Job
from scheduler.model.instances import serves

if TYPE_CHECKING:
    Figures = Mapping[str, Any]

RESERVED = "reserved"


class KeepersNow:
    """The GPUs kept now. Five queries at most, when it is first asked about a job that is kept out."""

    def __init__(self, now: datetime) -> None:
        self._now_s = now.timestamp()

    def told(self, job: Job, reason: str | None, figures: Figures) -> dict[str, Any]:
        """Return the figures: as given, but of a job that is kept out with those who keep it out now.

        They are those who have something on the nodes of which it was told, else on nodes of its GPU types. Where nobody has,
        for the next planning has not said yet, it is told what it was told, without a time that is past.
        """
        if reason != RESERVED or "keepers" not in figures:
            return dict(figures)
        stored = figures["keepers"]
        before = {name for each in stored for name in each["nodes"]}
        keepers = self._others(job, lambda node: node[0] in before)
        keepers = keepers or self._others(job, lambda node: serves(set(job.gpu_types), node[1]))
        if not keepers:
            keepers = [self._without_past(each) for each in stored]
        return {**figures, "keepers": [self._counted(each, stored) for each in keepers], "more": 0}

    def _others(self, job: Job, is_meant: Callable[[tuple[str, str | None]], bool]) -> list[dict[str, Any]]:
        """Return those who keep something on such nodes; another tenant's job has no number."""
        entries, holders, nodes = self._entries
        found = []
        for entry in entries:
            holder = holders.get(entry["job"])
            on = [nodes[node] for node in entry["nodes"] if node in nodes]
            if holder is None or holder.pk == job.pk or not any(map(is_meant, on)):
                continue
            number = holder.number if holder.tenant_id == job.tenant_id else None
            names, until_s = sorted(name for name, _ in on), entry["until"].timestamp()
            found.append({"job": number, "nodes": names, "gpus": None, "until_s": until_s, "cause": entry["cause"]})
        return sorted(found, key=lambda each: each["until_s"])

    def _without_past(self, keeper: Figures) -> dict[str, Any]:
        return {**keeper, "until_s": keeper["until_s"] if keeper.get("until_s", 0.0) > self._now_s else None}

    def _counted(self, keeper: dict[str, Any], stored: Sequence[Figures]) -> dict[str, Any]:
        """Return it with how many GPUs idled for it on these nodes, where that was recorded."""
        told = (
            each["gpus"] for each in stored if each["nodes"] == keeper["nodes"] and each["cause"] == keeper["cause"]
        )
        return {**keeper, "gpus": next(told, None)}

    @cached_property
    def _entries(self) -> tuple[list[dict[str, Any]], dict[int, Job], dict[int, tuple[str, str | None]]]:
        """Return the kept GPUs, their keepers, and the names and GPU types of the nodes."""
        entries = kept_entries()
        holders = Job.objects.only("pk", "tenant_id", "array_id", "array_index").in_bulk(
            [each["job"] for each in entries]
        )
        rows = Node.objects.filter(pk__in={node for each in entries for node in each["nodes"]})
        return (
            entries,
            holders,
            {pk: (name, kind) for pk, name, kind in rows.values_list("pk", "name", "gpu_type__name")},
        )
