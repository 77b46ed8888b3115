"""By what means jobs share a GPU of this node: NVIDIA's MPS, or the driver's time slices. Found at the agent's start and told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workers.system.mps import mps_daemon

if TYPE_CHECKING:
    from pathlib import Path

    from workers.agent.isolation import Means
    from workers.agent.settings import AgentSettings
    from workers.protocol.inventory import Inventory, Wall

MPS, SLICES = "MPS", "time slicing"
ONE_ACCOUNT = "MPS serves one account at a time, and this node gives each tenant's jobs their own"


def gpu_sharing_find(settings: AgentSettings, inventory: Inventory, means: Means) -> tuple[list[Wall], Path | None]:
    """Return what to tell of it (nothing without GPUs), and the MPS daemon's pipes where shared jobs are to use it."""
    if not inventory["gpus"]:
        return [], None
    if inventory["virtual"]:
        return [_told(SLICES, "virtual GPUs: each takes its turn")], None
    found = mps_daemon(settings.mps_pipes)
    why = found if isinstance(found, str) else ONE_ACCOUNT if means.accounts or means.view else ""
    return ([_told(SLICES, why)], None) if why else ([_told(MPS, "")], settings.mps_pipes)


def _told(by: str, why: str) -> Wall:
    return {"name": "gpus", "by": by, "why": why[:300]}
