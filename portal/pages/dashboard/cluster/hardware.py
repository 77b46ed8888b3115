"""A node's GPUs one by one: the job on each, its figures, and the findings of checks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.cluster.gpu_states import instance_of
from portal.cluster.models import Gpu
from portal.pages.dashboard.overview.nodes import gpu_types
from portal.pages.dashboard.parts.formatting import DASH, GIB_MIB, number
from portal.pages.dashboard.parts.neighbours import part_words
from portal.pages.dashboard.parts.snapshot import OTHER_TENANT
from portal.work.jobs.use import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from portal.cluster.models import Node
    from portal.pages.dashboard.parts.context import Rich, Segment
    from portal.pages.dashboard.parts.snapshot import Reader, Snapshot
    from portal.work.jobs.models import Allocation, Job

THROTTLES = {
    0x4: "power limit",
    0x8: "hardware",
    0x10: "sync boost",
    0x20: "heat",
    0x40: "heat, by hardware",
    0x80: "power brake",
}
"""NVML's bits of why clocks are low that slow a job down; idle clocks and those that an operator set are none."""
LEVELS = {"warn": "told", "drain": "no new jobs", "fail": "failed"}

Sample = dict[str, float]


def finding_rows(node: Node, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the findings of the node's checks, and foreign users of its GPUs; remedies are for operators."""
    operates = snapshot.user.is_operator
    rows: list[dict[str, Any]] = [
        {
            "what": "Node" if each["subject"] == "node" else f"GPU {each['subject'].removeprefix('gpu:')}",
            "level": "overruled" if f"{each['subject']} {each['check']}" in node.overruled else LEVELS[each["level"]],
            "bad": each["level"] == "fail",
            "detail": each["detail"],
            "remedy": each["remedy"] if operates else "",
        }
        for each in node.findings
    ]
    for each in node.outside:
        who = f"process {each['pid']} ({each['name'] or 'no name'})" if operates else "a process"
        remedy = "It ends, or you end it; then the GPU takes jobs by itself." if operates else ""
        detail = f"Used by {who} that Berth did not start."
        rows.append(
            {"what": f"GPU {each['gpu']}", "level": "no new jobs", "bad": False, "detail": detail, "remedy": remedy}
        )
    return rows


# ---- the table of GPUs -----------------------------------------------------------------------------------------------

COLUMNS: tuple[tuple[str, Callable[[Sample], str | None]], ...] = (
    ("memory", lambda own: _memory(own.get("memory_mib"))),
    ("heat", lambda own: _text(own.get("temperature_c"), "\u00b0C")),
    ("power", lambda own: _text(own.get("power_w"), "W")),
)
MORE: tuple[tuple[str, Callable[[Sample], str | None]], ...] = (
    ("energy", lambda own: _text(_scaled(own.get("energy_j"), 3.6e6), "kWh", 1)),
    ("PCIe sent", lambda own: _text(own.get("pcie_tx_mb_s"), "MB/s")),
    ("PCIe received", lambda own: _text(own.get("pcie_rx_mb_s"), "MB/s")),
    ("clock", lambda own: _text(own.get("clock_mhz"), "MHz")),
    ("memory clock", lambda own: _text(own.get("memory_clock_mhz"), "MHz")),
    ("slowed by", lambda own: throttle_words(own.get("throttle"))),
    ("memory errors corrected", lambda own: _text(own.get("ecc_corrected"))),
    ("not corrected", lambda own: _text(own.get("ecc_uncorrected"))),
)


def gpu_table(node: Node, snapshot: Snapshot, kept: frozenset[int]) -> dict[str, Any]:
    """Return a row for each GPU with its job and its last figures; `kept`: those kept for a job, by index.

    A column that no driver fills is absent.
    """
    live, names = node.live_gpus, _short_names(gpu_types(node))
    holders: dict[int, list[Allocation]] = defaultdict(list)
    for part in snapshot.parts_by_node[node.pk]:
        for held in part.gpu_allocations.all():
            holders[held.gpu_id].append(part)
    rows = [
        {
            "index": gpu.index,
            "type": names.get(gpu.type_of(node) or "", ""),
            "job": _job_words(gpu, holders[gpu.pk], snapshot.reader, kept),
            "busy": live.get(str(gpu.index), {}).get("utilisation"),
            "sample": live.get(str(gpu.index), {}),
            "out": out_words(gpu),
            "remedy": gpu.cordon_remedy,
            "cordoned": gpu.cordoned_at is not None,
        }
        for gpu in node.gpus_present
    ]
    samples = [row.pop("sample") for row in rows]
    heads, columns = _filled(COLUMNS, samples)
    more_heads, more = _filled(MORE, samples)
    for row, cells, further in zip(rows, columns, more, strict=True):
        row |= {"cells": cells, "more": further}
    return {
        "rows": rows,
        "heads": heads,
        "more_heads": more_heads,
        "has_busy": any(row["busy"] is not None for row in rows),
    }


def _filled(
    columns: Sequence[tuple[str, Callable[[Sample], str | None]]], samples: list[Sample]
) -> tuple[list[str], list[list[str]]]:
    """Return the heads of the columns that some GPU fills, and their cells by GPU; a single missing one is a dash."""
    found = [(head, [say(sample) for sample in samples]) for head, say in columns]
    found = [(head, cells) for head, cells in found if any(cell is not None for cell in cells)]
    cells = [[DASH if cells[at] is None else cells[at] for _, cells in found] for at in range(len(samples))]
    return [head for head, _ in found], [[str(each) for each in row] for row in cells]


def out_words(gpu: Gpu) -> str:
    """Say why a GPU takes no new job, in words for everybody; empty where it takes one."""
    if gpu.cordoned_at is not None:
        return f"out: {gpu.cordon_reason}" if gpu.cordon_reason else "out"
    return f"out: {gpu.closed_because}" if gpu.closed_because else ""


def _job_words(gpu: Gpu, parts: list[Allocation], reader: Reader, kept: frozenset[int]) -> Rich:
    """Name the jobs on a GPU as the reader may see them."""
    shared = gpu.mode == Gpu.Mode.SHARED
    lead: list[Segment] = [{"text": "for sharing: "}] if shared else []
    if not parts:
        return "" if out_words(gpu) else [*lead, {"text": "kept" if gpu.index in kept else "free"}]
    words = list(lead)
    for at, part in enumerate(parts):
        if at:
            words.append({"text": ", "})
        words += job_words(part.attempt.job, reader)
    if shared:
        held = [row for part in parts for row in part.gpu_allocations.all() if row.gpu_id == gpu.pk]
        given = sum(row.compute for row in held)
        left = WHOLE - given
        words.append({"text": f", and {part_words(left, None)} free" if left > 0 else ""})
    return words


def job_words(job: Job, reader: Reader) -> list[Segment]:
    """Name a job with its link; another tenant's is nameless."""
    if not reader.sees(job.tenant_id):
        return [{"text": OTHER_TENANT}]
    task = "" if job.array_index is None else f", task {job.array_index}"
    return [{"text": job.name, "href": reverse("job-detail", args=[job.number])}, {"text": task}]


def _short_names(types: Iterable[str]) -> dict[str, str]:
    """Return each GPU's words about its type where they differ; an instance shows only its profile, `MIG 1g.10gb`."""
    cut = {name: found for name in types if (found := instance_of(name)) is not None}
    alike = len({found.whole for found in cut.values()}) == 1
    names = {name: f"MIG {cut[name].profile}" if alike and name in cut else name for name in types}
    return names if len(names) > 1 else {}


def throttle_words(bits: float | None) -> str | None:
    """Say why a GPU's clocks are low; None where it is not known, nothing where they are not."""
    return None if bits is None else ", ".join(words for bit, words in THROTTLES.items() if int(bits) & bit)


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _memory(mib: float | None) -> str | None:
    gib = _scaled(mib, GIB_MIB)
    return _text(gib, "GB", 1 if gib is not None and 0.05 <= gib < 10 else 0)


def _text(value: float | None, unit: str = "", digits: int = 0) -> str | None:
    return None if value is None else f"{number(value, digits)} {unit}".rstrip()
