"""A partition of Slurm as its bridge tells the portal of it: examples for pages and their measurements."""

from __future__ import annotations

from typing import Any

NAME = "atlas/gpu"
DESCRIPTION: dict[str, Any] = {
    "kind": "slurm",
    "cluster": "atlas",
    "partition": "gpu",
    "form": "pilot",
    "version": "22.05.8",
    "gpus_max": 8,
    "gpus_per_pilot": 2,
    "limit_s": 43_200,
    "idle_s": 300,
}


def node(name: str, *, busy: int = 0, state: str = "idle", reason: str = "") -> dict[str, Any]:
    """Return a node of four GPUs, so many of which are given to anybody."""
    return {
        "name": name,
        "state": state,
        "takes_jobs": not reason,
        "reason": reason,
        "cores": 16,
        "cores_busy": 4 * busy,
        "memory_mib": 64_000,
        "memory_busy_mib": 16_000 * busy,
        "gpus": {"a100": 4},
        "gpus_busy": {"a100": busy},
    }


NODES = [
    node("gn-01", busy=4, state="allocated"),
    node("gn-02", busy=4, state="allocated"),
    node("gn-03", busy=2, state="mixed"),
    node("gn-04", state="idle+drain", reason="fan"),
]
EXCHANGE: dict[str, Any] = {"engine": DESCRIPTION, "away": None, "nodes": NODES, "orders": [], "refused": []}
