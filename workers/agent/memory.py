"""Finds at the agent's start how a real node measures its memory's traffic, and holds CPU jobs back from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.controls.cgroups import PREFIX, owner_of
from workers.controls.throttles import RESCTRL, means_find
from workers.system.files import BrokenFileError, read_record, write_json
from workers.telemetry.traffic import ProbeMeter, ResctrlMeter, TrafficMeter, capacity_measure, machine_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from workers.agent.settings import AgentSettings
    from workers.protocol.inventory import MemoryTraffic

KEPT = "memory.json"


def memory_find(
    settings: AgentSettings, *, has_gpus: bool, root: Path = RESCTRL
) -> tuple[TrafficMeter | None, MemoryTraffic]:
    """Return the meter of the traffic, and its description for the inventory.

    Without GPUs there is nobody to protect: then nothing is measured, and no thread copies anything.
    """
    throttle = means_find(resctrl=root)
    if not has_gpus:
        return None, {"gb_s": settings.memory_bandwidth, "meter": "", "throttle": throttle}
    if machine_bytes(root) is not None:
        gb_s = settings.memory_bandwidth or _bandwidth(settings.dir / KEPT, root)
        if gb_s is not None:
            return ResctrlMeter(gb_s=gb_s, owner=owner_of(settings.dir / "parts"), root=root), {
                "gb_s": gb_s,
                "meter": "resctrl",
                "throttle": throttle,
            }
    return ProbeMeter(), {"gb_s": settings.memory_bandwidth, "meter": "probe", "throttle": throttle}


def _bandwidth(path: Path, root: Path) -> float | None:
    """Return the memory's bandwidth, as it was measured once; measure it now where no job runs here."""
    try:
        known = read_record(path, gb_s=(int, float))
    except BrokenFileError:
        known = None
    if known is not None and known["gb_s"] > 0:
        return float(known["gb_s"])
    if any(root.glob(f"mon_groups/{PREFIX}*")):
        return None
    gb_s = capacity_measure(root=root)
    if gb_s is not None:
        write_json(path, {"gb_s": round(gb_s, 1)})
    return gb_s
