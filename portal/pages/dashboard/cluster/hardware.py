"""A node's health and its GPUs' own figures, for its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.cluster.instances import instance_of
from portal.pages.dashboard.overview.nodes import gpu_types
from portal.pages.dashboard.parts.formatting import DASH, GIB_MIB, number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.cluster.models import Gpu, Node
    from portal.pages.dashboard.parts.snapshot import Snapshot

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


def gpu_rows(node: Node, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return each GPU's last figures; a dash where its driver does not tell one."""
    live = snapshot.live_gpus(node)
    names = _short_names(gpu_types(node))
    return [
        _row(gpu, live.get(str(gpu.index), {}), names.get(gpu.type_of(node) or "", "")) for gpu in node.gpus_present
    ]


def _short_names(types: Iterable[str]) -> dict[str, str]:
    """Return each GPU's words about its type where they differ; an instance shows only its profile, `MIG 1g.10gb`."""
    cut = {name: found for name in types if (found := instance_of(name)) is not None}
    alike = len({found.whole for found in cut.values()}) == 1
    names = {name: f"MIG {cut[name].profile}" if alike and name in cut else name for name in types}
    return names if len(names) > 1 else {}


def _row(gpu: Gpu, sample: dict[str, Any], gpu_type: str) -> dict[str, Any]:
    used = sample.get("memory_mib")
    free = None if used is None else max(0.0, gpu.memory_mib - used)
    corrected, uncorrected = sample.get("ecc_corrected"), sample.get("ecc_uncorrected")
    return {
        "index": gpu.index,
        "type": gpu_type,
        "use": _text(sample.get("utilisation"), "%"),
        "memory": f"{_gib(used)} / {_gib(free)}",
        "power": _text(sample.get("power_w"), "W"),
        "energy": _text(_scaled(sample.get("energy_j"), 3.6e6), "kWh", 1),
        "temperature": _text(sample.get("temperature_c"), "\u00b0C"),
        "pcie": f"{_text(sample.get('pcie_tx_mb_s'))} / {_text(sample.get('pcie_rx_mb_s'))}",
        "clocks": f"{_text(sample.get('clock_mhz'))} / {_text(sample.get('memory_clock_mhz'))}",
        "throttle": throttle_words(sample.get("throttle")),
        "ecc": f"{_text(corrected)} / {_text(uncorrected)}",
        "closed": gpu.closed_because,
        "remedy": gpu.cordon_remedy,
        "cordoned": gpu.cordoned_at is not None,
    }


def throttle_words(bits: float | None) -> str:
    """Say why a GPU's clocks are low; a dash where it is not known, nothing where they are not."""
    if bits is None:
        return DASH
    return ", ".join(words for bit, words in THROTTLES.items() if int(bits) & bit)


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _gib(mib: float | None) -> str:
    return _text(_scaled(mib, GIB_MIB), "", 1)


def _text(value: float | None, unit: str = "", digits: int = 0) -> str:
    if value is None:
        return DASH
    return f"{number(value, digits)} {unit}".rstrip()
