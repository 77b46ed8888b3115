"""The specification of a part as the portal sends it to a node."""

from __future__ import annotations

from typing import Any


def spec_make(**changes: Any) -> dict[str, Any]:
    """What the portal tells a node about a part: one that does nothing, with these changes."""
    spec = {
        "attempt": "1",
        "job": 1,
        "job_key": "1",
        "epoch": 1,
        "rank": 0,
        "name": "a job",
        "tenant": "acme",
        "tenant_id": 7,
        "user": "ada",
        "command": "true",
        "files": {},
        "working_directory": None,
        "environment": {},
        "gpus": [],
        "gpu_uuids": [],
        "gpu_type": None,
        "cores": [0],
        "memory_mib": None,
        "time_limit_s": None,
        "profile": False,
        "epochs_before": 0,
        "log_limit_bytes": 1 << 20,
        **changes,
    }
    nodes = [{"name": "n1", "address": "127.0.0.1"}]
    return {"world": {"nodes": nodes, "port": 29400, "gpus_total": len(spec["gpus"])}, **spec}
