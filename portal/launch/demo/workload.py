"""The demo's first jobs: `up --demo` starts `python -m portal.launch.demo.workload` once, while its nodes start.

37 jobs of three tenants. Each training runs for a fixed number of seconds on any machine. So they keep the cluster busy for
about ten minutes, on two real cores as on sixty; then `arrivals` goes on. Some share GPUs: servers with their clients, and
small trainings beside them. A virtual GPU slows each of them by its neighbours' use (VIRTUAL_GPU says how much each uses by
itself).
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import django

from portal.foundation.layout import SOURCE
from portal.launch.demo.nodes import DEMO_NODES
from portal.launch.notices import step

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


NODES_LIMIT_S = 60.0
# The category of a tenant's jobs, and its users: they submit in turn.
TENANTS = {
    "vision-lab": ("cv", ("vera", "viktor")),
    "nlp-startup": ("nlp", ("nadia", "nils")),
    "speech-co": ("speech", ("sofia", "sam")),
}
# GPU counts that a training accepts, and its seconds. Each tenant submits all of them. One count: the job is rigid.
TRAININGS: tuple[tuple[list[int], int], ...] = (
    ([1, 2, 4], 140),
    ([2, 4, 8], 110),
    ([1], 190),
    ([2, 4], 150),
    ([4], 130),
    ([1, 2], 170),
    ([4, 8], 90),
    ([2], 150),
)
WORD_COUNTS = (6, 8, 10)
# How a virtual GPU answers to its CPU cores: the part of full speed at 1, 2, 3 ... cores a GPU. Core tuning finds the last.
RESPONSES = {
    "cv": "0.55,1",
    "nlp": "0.25,0.5,0.75,1",
    "speech": "0.18,0.35,0.5,0.7,0.85,1",
}
# The cores a GPU that people ask for by habit. A training begins with another number, and is tuned to the last of the above.
CORES_ASKED = {"cv": 12, "nlp": 1, "speech": 2}
# A training's share of a node's memory traffic (GB/s), and the most speed that it loses when others take that.
TRAFFIC = {"cv": "2,0.3", "nlp": "2,0.8", "speech": "2,0.5"}


def training(category: str, gpus: list[int], seconds: int) -> dict[str, Any]:
    """Return a job that trains a character-level language model on Python's sources. It goes on from its checkpoint."""
    elastic = len(gpus) > 1
    sizes = "-".join(str(size) for size in gpus)
    return {
        "name": f"charlm-{'elastic' if elastic else 'rigid'}-{sizes}",
        "command": f"$BERTH_PYTHON train.py --steps 1000000 --seconds {seconds}",
        "files": {"train.py": _file("charlm/train.py")},
        "category": category,
        "cores_per_gpu": CORES_ASKED[category],
        "environment": {"VIRTUAL_RESPONSE": RESPONSES[category], "VIRTUAL_TRAFFIC": TRAFFIC[category]},
        "model": "charlm",
        "instrumented": True,
        "gpus": gpus,
        "batch_per_gpu": 64,
        "learning_rate": {"at": 1, "value": 0.2, "rule": "sqrt" if elastic else "none"},
        "checkpointable": True,
        "expected_duration_s": seconds,
        "time_limit_s": 3600,
        "labels": {"example": "charlm"},
    }


def word_count(tasks: int) -> dict[str, Any]:
    """Return a CPU array: each task counts the words in its part of Python's library."""
    return {
        "name": "wordcount",
        "command": "$BERTH_PYTHON count.py",
        "files": {"count.py": _file("wordcount/count.py")},
        "category": "cpu",
        "gpus": 0,
        "cores": 1,
        "array": {"size": tasks, "concurrency": 4},
        "restartable": True,
        "time_limit_s": 600,
        "labels": {"example": "wordcount"},
    }


def copies() -> dict[str, Any]:
    """Return a CPU job that takes most of its node's memory bandwidth, some time after it has begun."""
    return {
        "name": "matrix-copies",
        "command": "$BERTH_PYTHON copies.py --rest 30 --work 120 --seldom 120",
        "files": {"copies.py": _file("copies/copies.py")},
        "category": "cpu",
        "environment": {"VIRTUAL_TRAFFIC": "180"},
        "gpus": 0,
        "cores": 8,
        "restartable": True,
        "expected_duration_s": 270,
        "time_limit_s": 600,
        "labels": {"example": "copies"},
    }


def over_nodes(category: str, gpus: int) -> dict[str, Any]:
    """Return a job that only fits on several nodes together."""
    return {
        "name": f"pairs-over-nodes-{gpus}",
        "command": "$BERTH_PYTHON pairs.py --rounds 200",
        "files": {"pairs.py": _file("pairs/pairs.py")},
        "category": category,
        "gpus": gpus,
        "gpu_types": ["A100 80 GB"],
        "restartable": True,
        # Declared long, so that its latency ratio grows slowly: a wide job at the head of the queue empties the cluster.
        "expected_duration_s": 1800,
        "time_limit_s": 900,
        "labels": {"example": "pairs"},
    }


def workload() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (tenant, user, description) of each job, the tenants in turn."""
    for (tenant, (_, people)), tasks in zip(TENANTS.items(), WORD_COUNTS, strict=True):
        yield tenant, people[0], word_count(tasks)
    yield "vision-lab", "vera", copies()
    yield from sharers()
    for number, (gpus, seconds) in enumerate(TRAININGS):
        for tenant, (category, people) in TENANTS.items():
            yield tenant, people[number % 2], training(category, gpus, seconds)
        if number == 2:  # after the first trainings, so that it has to wait for two nodes at once
            yield "nlp-startup", "nadia", over_nodes("nlp", 10)
    yield "vision-lab", "viktor", over_nodes("cv", 12)


def _await_nodes() -> None:
    """Wait until all nodes have registered: before that, a job that only fits on them is refused."""
    from portal.cluster.models import Node

    names = [node.name for node in DEMO_NODES]
    deadline = time.monotonic() + NODES_LIMIT_S
    while Node.objects.filter(name__in=names).count() < len(names):
        if time.monotonic() > deadline:
            raise SystemExit("the virtual nodes did not register; see their logs")
        time.sleep(0.2)


def gpus_shared() -> None:
    """Let jobs share some of the GPUs, once: an operator's later choice stays."""
    from portal.launch.operator import operator_account
    from portal.planning.rounds.models import OperatorSetting
    from portal.planning.rounds.services import settings_update

    if not OperatorSetting.objects.filter(name__in=SHARING).exists():
        settings_update(actor=operator_account(), **SHARING)


def main() -> int:
    django.setup()
    from portal.people.tenants.models import Tenant, User
    from portal.work.jobs.services.submission import job_submit

    _await_nodes()
    gpus_shared()
    tenants = {tenant.name: tenant for tenant in Tenant.objects.filter(name__in=TENANTS)}
    users = {user.username: user for user in User.objects.all()}
    submitted = 0
    for tenant, user, description in workload():
        # The key makes a repetition after a crash submit only what is missing.
        key = f"demo-workload-{submitted}"
        job_submit(user=users[user], tenant=tenants[tenant], description=description, idempotency_key=key)
        submitted += 1
    step(f"demo workload submitted: {submitted} jobs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
