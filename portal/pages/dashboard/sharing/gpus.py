"""Shared GPUs now: the parts that each job holds, for operators."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.models import Gpu
from portal.pages.dashboard.parts.formatting import GIB_MIB, number
from portal.work.jobs.models import GpuAllocation, Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Slowdowns = Mapping[tuple[str, frozenset[str]], float]

SHOWN = 24
"""GPUs that are drawn: those with most jobs."""
DRAWN, NAMED = 4, 6
"""Holders with a colour of their own, and holders with a line."""


@dataclass
class SharedNow:
    """All GPUs in mode shared, with those on them. Two queries."""

    gpus: list[Gpu] = field(default_factory=list)
    holders: dict[int, list[GpuAllocation]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> SharedNow:
        gpus = Gpu.objects.present().filter(mode=Gpu.Mode.SHARED, node__dead_at=None).with_type().select_related("node")
        held: dict[int, list[GpuAllocation]] = defaultdict(list)
        live = GpuAllocation.objects.filter(released_at=None, mode=Gpu.Mode.SHARED)
        for row in live.select_related("allocation__attempt__job").order_by("pk"):
            held[row.gpu_id].append(row)
        return cls(list(gpus.order_by("node__name", "index")), held)

    @property
    def jobs(self) -> int:
        return sum(len(each) for each in self.holders.values())

    @property
    def taken(self) -> int:
        return sum(bool(self.holders.get(gpu.pk)) for gpu in self.gpus)

    @property
    def granted(self) -> float | None:
        """The granted part of the GPUs with jobs, in per cent of their compute."""
        sums = [sum(each.compute for each in there) for there in self.holders.values()]
        return sum(sums) / len(sums) / 10 if sums else None

    def use(self) -> float | None:
        """The mean use of the GPUs with jobs now, in per cent, of those that tell it."""
        told = [_live(gpu, "utilisation") for gpu in self.gpus if self.holders.get(gpu.pk)]
        known = [each for each in told if each is not None]
        return sum(known) / len(known) if known else None


def _live(gpu: Gpu, measure: str) -> float | None:
    return gpu.node.live_gpus.get(str(gpu.index), {}).get(measure)


def pairs_on(gpu: Gpu, holders: Sequence[GpuAllocation], names: Mapping[int, str]) -> list[tuple[str, frozenset[str]]]:
    """Return any two of those on a GPU, by their signatures, with its type."""
    people = [names[each.allocation.attempt.job_id] for each in holders]
    kind = getattr(gpu, "type_name", None) or ""
    return [(kind, frozenset((one, two))) for place, one in enumerate(people) for two in people[:place]]


def cells(now: SharedNow, slowdowns: Slowdowns, names: Mapping[int, str]) -> dict[str, Any]:
    """Return the GPUs to draw, and how many more there are. `names`: signatures by job; `slowdowns`: the worse of two."""
    order = sorted(now.gpus, key=lambda gpu: -len(now.holders.get(gpu.pk, ())))[:SHOWN]
    shown = sorted(order, key=lambda gpu: (gpu.node.name, gpu.index))
    return {
        "gpus": [_cell(gpu, now.holders.get(gpu.pk, []), slowdowns, names) for gpu in shown],
        "more": len(now.gpus) - len(shown),
    }


def _cell(
    gpu: Gpu,
    holders: Sequence[GpuAllocation],
    slowdowns: Slowdowns,
    names: Mapping[int, str],
) -> dict[str, Any]:
    held_mib = sum(each.memory_mib or 0 for each in holders)
    worst = max((slowdowns[pair] for pair in pairs_on(gpu, holders, names) if pair in slowdowns), default=None)
    use = _live(gpu, "utilisation")
    return {
        "node": gpu.node.name,
        "index": gpu.index,
        "url": reverse("node-detail", args=[gpu.node.name]),
        "jobs": len(holders),
        "use": None if use is None else round(use),
        "worst": worst,
        "memory_gib": gpu.memory_mib / GIB_MIB,
        "free_gib": number((gpu.memory_mib - held_mib) / GIB_MIB, 1),
        "free_compute": 100 - sum(each.compute for each in holders) / 10,
        "memory": _segments([each.memory_mib or 0 for each in holders]),
        "memory_total": gpu.memory_mib,
        "compute": _segments([each.compute for each in holders]),
        "holders": [_holder(place, each) for place, each in enumerate(holders[:NAMED])],
        "more": max(0, len(holders) - NAMED),
        "cordoned": gpu.cordoned_at is not None,
        "power_w": _live(gpu, "power_w"),
    }


def _segments(amounts: Sequence[int]) -> list[dict[str, Any]]:
    """Colours by order of joining; those beyond the colours are one."""
    found = [{"token": f"plot-{place + 1}", "count": amount} for place, amount in enumerate(amounts[:DRAWN])]
    rest = sum(amounts[DRAWN:])
    return [*found, {"token": "done", "count": rest}] if rest else found


def _holder(place: int, held: GpuAllocation) -> dict[str, Any]:
    job: Job = held.allocation.attempt.job
    return {
        "token": f"plot-{place + 1}" if place < DRAWN else "done",
        "number": job.number,
        "name": job.name,
        "url": reverse("job-detail", args=[job.number]),
        "compute": held.compute / 10,
        "memory_gib": number((held.memory_mib or 0) / GIB_MIB, 1),
        "critical": job.latency_class == Job.LatencyClass.LATENCY,
    }
