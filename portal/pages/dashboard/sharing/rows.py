"""Rows of the page Sharing, for operators: the parts that each job holds of shared GPUs now, and decisions in words."""

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


SAID = {
    "alone": "nobody is there",
    "fits": "what it asks for is left",
    "learned": "the learned policy would start it now",
    "uncorrelated": "uses do not rise together",
    "forecast": "the forecast leaves room",
    "measured": "measured together before",
    "memory": "too little memory is left",
    "compute": "too little compute is left",
    "apart": "kept apart after a memory failure",
    "slowed": "measured to slow each other",
    "crowded": "expected to slow each other",
    "correlated": "uses rise together",
    "unknown": "never seen to run",
    "no trend": "nothing can be forecast",
    "declined": "the learned policy would wait",
    "exceeds": "more than the GPU has",
    "little": "too little would be gained",
    "peak": "the forecast leaves too little",
    "barred": "its type, node or software",
    "node": "too few cores or memory on the node",
    "nothing": "no shared GPU takes jobs",
}
"""Each rule in a few words; the job's page has the sentence."""


def decision_row(told: dict[str, Any]) -> dict[str, Any]:
    """Return a decision's row of the table."""
    return {
        **told,
        "at": told["at"].isoformat(),
        "url": reverse("job-detail", args=[told["job"]]),
        "need": f"{told['compute'] / 10:g} %, {number(told['memory_mib'] / GIB_MIB, 1)} GiB",
        "acting": _side(told["acting"]),
        "shadow": _side(told["shadow"]),
        "measured": None if told["measured"] is None else f"{told['measured']:.2f}",
    }


def _side(side: dict[str, Any]) -> dict[str, Any]:
    figure = side["figure"]
    shown = "" if figure is None else f"{figure:.2f}" if side["rule"] == "uncorrelated" else f"{number(figure)} MiB"
    closed = ", ".join(
        f"{SAID.get(rule, rule)}: {count} GPU{'s' if count > 1 else ''}" for rule, count in side["closed"].items()
    )
    return {
        **side,
        "said": SAID.get(side["rule"], side["rule"]),
        "shown": shown,
        "closed_words": closed,
        "slowdown": None if side["slowdown"] is None else f"{side['slowdown']:.2f}",
    }


def verdict(told: dict[str, Any], limit: float | None) -> str:
    """One paragraph: how the shadow would decide, and when a change is worth a thought. Nothing changes by itself."""
    acting, shadow = told["policies"]
    if not told["asked"]:
        return "Both were asked about no job in this time."
    words = [
        (
            f"Both admit {told['both_admit']} and both refuse {told['both_refuse']} of {told['asked']}; "
            f"{acting['policy']} alone admits {told['acting_alone']}, {shadow['policy']} alone {told['shadow_alone']}."
        )
    ]
    if acting["use"] is not None and shadow["use"] is not None:
        points = shadow["use"] - acting["use"]
        more = f"{abs(points):.1f} points {'more' if points > 0 else 'less'}" if abs(points) >= 0.05 else "as much"
        words.append(f"{shadow['policy']} would use {more} of the GPUs with jobs.")
    if limit is not None and shadow["worst"] is not None and shadow["worst"] > 1 + limit:
        words.append(f"Its worst foretold slowdown, {shadow['worst']:.2f}, is above the limit of {1 + limit:.2f}.")
    if told["failed"]:
        words.append(f"It gave no answer in {told['failed']} of {told['plannings']} plannings.")
    words.append("Nothing changes by itself: sharing_policy is an operator's knob.")
    return " ".join(words)
