"""Where a node's figures come from: found at the agent's start, with the inventory, and how its memory is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.agent.allocation import allocation_read
from workers.agent.inventory import inventory_real, inventory_virtual, virtual_parse
from workers.controls.cgroups import PREFIX, owner_of
from workers.controls.throttles import RESCTRL, means_find
from workers.system import log
from workers.system.files import BrokenFileError, read_record, write_json
from workers.system.filework import FileWork, SlowFilesError
from workers.telemetry.host import HostSampler
from workers.telemetry.sampler import GpuFound, GpuSampler, NoGpus
from workers.telemetry.simulated import SimulatedSampler, SimulatedTraffic
from workers.telemetry.traffic import ProbeMeter, ResctrlMeter, TrafficMeter, capacity_measure, machine_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from workers.agent.settings import AgentSettings
    from workers.protocol.inventory import Inventory, MemoryTraffic

DRIVER_S = 30.0
"""Time limit for the driver to name its GPUs: without its persistence daemon it starts them one after the other."""
KEPT = "memory.json"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where figures come from: the GPUs, the host (None on a virtual node), the memory's traffic (None: not known)."""

    sampler: GpuSampler
    host: HostSampler | None = None
    meter: TrafficMeter | None = None


async def sources_for(settings: AgentSettings, files: FileWork) -> tuple[Sources, Inventory]:
    """Return the sources of figures, and the inventory. Raises SettingError.

    A driver that hangs must not keep the agent from its jobs, whose leases it renews: after DRIVER_S the node goes on without
    GPUs.
    """
    if settings.virtual is None:
        try:
            sampler, inventory = await files.run("gpus", _real, settings, limit_s=DRIVER_S)
        except SlowFilesError:
            log.error("gpus cannot be used", reason=f"their driver has not answered for {DRIVER_S:g} s")
            sampler = NoGpus(f"The GPUs' driver has not answered for {DRIVER_S:g} s.")
            inventory = inventory_real(settings, sampler)
        meter, inventory["memory_traffic"] = memory_find(settings, has_gpus=bool(inventory["gpus"]))
        return Sources(sampler, HostSampler(), meter), inventory
    node = virtual_parse(settings.virtual)
    inventory = inventory_virtual(settings, node)
    found = [
        GpuFound(gpu["index"], gpu["uuid"], gpu.get("gpu_type") or inventory["gpu_type"] or "", gpu["memory_mib"])
        for gpu in inventory["gpus"]
    ]
    core_share = node.core_percent / 100
    traffic = SimulatedTraffic(gb_s=node.memory_gb_s, core_share=core_share) if node.memory_gb_s else None
    return Sources(SimulatedSampler(found, core_share=core_share, traffic=traffic), meter=traffic), inventory


def _real(settings: AgentSettings) -> tuple[GpuSampler, Inventory]:
    from workers.telemetry.nvml import NvmlSampler  # late: a virtual node needs no NVML bindings

    allocation = allocation_read(settings.allocation)
    sampler = NvmlSampler(allocation.indices if allocation else None)
    inventory = inventory_real(settings, sampler)
    if allocation is not None:
        inventory["cores"] = min(inventory["cores"], allocation.cores or inventory["cores"])
        inventory["memory_mib"] = min(inventory["memory_mib"], allocation.memory_mib or inventory["memory_mib"])
    return sampler, inventory


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
