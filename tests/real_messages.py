"""Messages that agent and portal really send each other, one of each kind. Tests send these, with the values that they are about.

`tests/workers/agent/test_real_messages.py` compares them with a real agent's, `tests/portal/nodes/test_real_messages.py` with the
real portal's: the very same fields, in all depths, with values of the same types.
"""

from typing import Any

PART: dict[str, Any] = {"attempt": "1", "epoch": 1, "rank": 0}

# An agent's

INVENTORY: dict[str, Any] = {
    "name": "n1",
    "address": "127.0.0.1",
    "boot_id": "boot-1",
    "agent_version": "1",
    "virtual": False,
    "single_account": True,
    "trusts_tenants": True,
    "gpu_type": None,
    "gpus": [],
    "cores": 8,
    "memory_mib": 4096,
    "storage_domain": None,
    "links": {
        "nvlink_gbps": None,
        "pcie_generation": None,
        "pcie_lanes": None,
        "network_mbps": None,
        "addresses": ["127.0.0.1"],
    },
    "memory_traffic": {"gb_s": None, "meter": "", "throttle": "cores"},
    "isolation": {
        "files": True,
        "signals": True,
        "landlock": 7,
        "why": "",
        "walls": [{"name": "accounts", "by": "", "why": "the agent is not root"}],
    },
    "software": {
        "python": "3.11.2",
        "installer": "pip",
        "images": None,
        "git": True,
        "environments": [],
        "missing": {"image": "there is no apptainer"},
    },
}
GPU: dict[str, Any] = {"index": 0, "uuid": "GPU-0", "memory_mib": 24576}
REPORT_FIELDS: dict[str, Any] = {
    "pid": None,
    "at": 1.7e9,
    "exit_code": None,
    "signal": None,
    "reason": None,
    "detail": "",
    "overran": False,
}
"""The fields of each report beside its key, sequence and state."""
REPORTS: dict[str, Any] = {
    "boot_id": "boot-1",
    "reports": [{**PART, "sequence": 1, "state": "running", **REPORT_FIELDS}],
    "holding": [{**PART, "cores_sequence": 0, "ports": []}],
    "problems": [],
    "disk": {"free_mib": 1000, "total_mib": 2000, "low": False},
    "health": {"findings": [], "outside": []},
}
TELEMETRY: dict[str, Any] = {
    "boot_id": "boot-1",
    "start": 1.7e9,
    "period_s": 1.0,
    "count": 1,
    "gpus": {"0": {"utilisation": [0.0], "memory_mib": [0.0], "power_w": [36.0]}},
    "host": {"cpu_cores": [0.0], "memory_mib": [0.0]},
    "attempts": {},
}
LOGS: dict[str, Any] = {"pieces": [{**PART, "stream": "stdout", "offset": 0, "data": "aGkK"}]}
ARTEFACTS: dict[str, Any] = {
    **PART,
    "boot_id": "boot-1",
    "files": [{"path": "a", "size": 1, "modified_ns": 1_700_000_000_000_000_000}],
    "gone": [],
    "notes": None,
    "notes_more": 0,
}

# The portal's

WANTED: dict[str, Any] = {
    **PART,
    "job": 1,
    "job_key": "1",
    "action": "run",
    "started": False,
    "state": "wanted",
    "go": True,
    "stop_reason": None,
    "grace_s": 2,
    "lease_s": 900,
    "time_limit_s": None,
    "cores": [0],
    "share": 1.0,
    "cores_sequence": 0,
    "gpu_memory_mib": None,
}
SYNC: dict[str, Any] = {"revision": 1, "attempts": [WANTED], "heartbeat_s": 1.0, "environments": {}}
HELLO: dict[str, Any] = {
    "node": 1,
    "name": "n1",
    "lease_s": 900,
    "report_period_s": 5,
    "sample_period_s": 1.0,
    "grace_s": 2,
    "lease_grace_s": 6,
    "logs_together_bytes": 256 * 1024,
    "measures": {"gpus": ["utilisation"], "host": ["cpu_cores"], "attempts": ["cpu_cores"]},
}
SPEC: dict[str, Any] = {
    **PART,
    "job": 1,
    "job_key": "1",
    "name": "a job",
    "tenant": "acme",
    "tenant_id": 7,
    "unix_account": None,
    "user": "ada",
    "command": "true",
    "files": {},
    "upload": [],
    "working_directory": None,
    "environment": {},
    "software": {},
    "code": {},
    "code_roots": None,
    "secrets": False,
    "build_secrets": {},
    "gpus": [],
    "gpu_uuids": [],
    "gpu_type": None,
    "gpu_compute": None,
    "gpu_memory_mib": None,
    "cores": [0],
    "memory_mib": None,
    "disk_mib": None,
    "time_limit_s": None,
    "grace_s": 1,
    "world": {
        "nodes": [{"name": "n1", "address": "127.0.0.1", "addresses": ["127.0.0.1"]}],
        "port": 29400,
        "gpus_total": 0,
    },
    "artefacts": {"patterns": [], "files": 10_000},
    "profile": False,
    "epochs_before": 0,
    "log_limit_bytes": 1 << 20,
}
