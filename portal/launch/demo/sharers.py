"""The demo's jobs that share GPUs: servers with their clients, and small trainings beside them, of several tenants.

A virtual GPU slows each of them by its neighbours' use (VIRTUAL_GPU says how much each uses by itself).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.foundation.layout import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARING = {"shared_gpus": 0.125}
"""Two of 16 A100, and one of the 8 of the other type: the wide jobs still find their GPUs."""
SERVERS = (("nlp-startup", "nadia", 20871), ("speech-co", "sam", 20872))
SERVES_S, ASKS_S = 480, 420
SMALL_USE, SMALL_BUSY, SERVER_USE = 0.5, 0.7, 0.3
"""Small trainings ask for half a GPU and would use more: two of them together are slowed to 0.7 of their speed."""
SMALL = (("vision-lab", "vera", "cv"), ("speech-co", "sofia", "speech"), ("vision-lab", "viktor", "cv"))


def _file(name: str) -> str:
    return (SOURCE / "examples" / name).read_text()


def server(port: int) -> dict[str, Any]:
    """Return a job that answers queries on a part of a GPU. On the demo's one machine its port is the same on all nodes."""
    return {
        "name": "server",
        "command": f"$BERTH_PYTHON serve.py --port {port} --seconds {SERVES_S}",
        "files": {"serve.py": _file("serving/serve.py")},
        "category": "other",
        "model": "char-server",
        "instrumented": True,
        "gpus": 1,
        "shareable": True,
        "gpu_compute": SERVER_USE,
        "gpu_memory_mib": 6144,
        "latency_class": "latency",
        "environment": {"VIRTUAL_GPU": f"{SERVER_USE},4000"},
        "expected_duration_s": SERVES_S,
        "time_limit_s": 1800,
        "restartable": True,
        "labels": {"example": "serving"},
    }


def asker(port: int) -> dict[str, Any]:
    """Return a CPU job that asks the server of this port."""
    return {
        "name": "asks-server",
        "command": f"$BERTH_PYTHON ask.py --port {port} --per-second 5 --seconds {ASKS_S}",
        "files": {"ask.py": _file("serving/ask.py")},
        "category": "cpu",
        "gpus": 0,
        "cores": 1,
        "expected_duration_s": ASKS_S,
        "time_limit_s": 1800,
        "restartable": True,
        "labels": {"example": "serving"},
    }


def small_training(category: str, seconds: int) -> dict[str, Any]:
    """Return a training that shares a GPU."""
    return {
        "name": "charlm-small",
        "command": f"$BERTH_PYTHON train.py --steps 1000000 --seconds {seconds}",
        "files": {"train.py": _file("charlm/train.py")},
        "category": category,
        "model": "charlm-small",
        "instrumented": True,
        "gpus": 1,
        "shareable": True,
        "gpu_compute": SMALL_USE,
        "gpu_memory_mib": 4096,
        "environment": {"VIRTUAL_GPU": f"{SMALL_BUSY},2500"},
        "batch_per_gpu": 64,
        "learning_rate": {"at": 1, "value": 0.2, "rule": "none"},
        "checkpointable": True,
        "expected_duration_s": seconds,
        "time_limit_s": 3600,
        "labels": {"example": "charlm"},
    }


def sharers() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (tenant, user, description) of each job that shares, and of the servers' clients."""
    for tenant, user, port in SERVERS:
        yield tenant, user, server(port)
        yield tenant, user, asker(port)
    for tenant, user, category in SMALL:
        yield tenant, user, small_training(category, 240)
