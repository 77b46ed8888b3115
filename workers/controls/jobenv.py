"""The environment of a job: only the variables in the docs, and nothing of the agent's environment."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

from workers import instrument
from workers.controls.killing import MARKER

# The shim sets these. A tenant's variable of the same name has no effect.
_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "NPROC_PER_NODE", "WORLD_SIZE")


def _account(launch: dict[str, Any]) -> str:
    if launch.get("account"):
        return str(launch["account"]["name"])
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run under an account without a name
        return str(os.getuid())


def _base(launch: dict[str, Any]) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": launch["job_dir"],
        "USER": _account(launch),
        "LANG": "C.UTF-8",
        "TMPDIR": launch["tmp_dir"],
    }


def _berth(launch: dict[str, Any]) -> dict[str, str]:
    nodes = [node["name"] for node in launch["world"]["nodes"]]
    values = {
        "BERTH_JOB_ID": launch["job"],
        "BERTH_JOB_NAME": launch["name"],
        "BERTH_ATTEMPT": launch["attempt"],
        "BERTH_EPOCH": launch["epoch"],
        "BERTH_EPOCHS_BEFORE": launch["epochs_before"],
        "BERTH_RANK": launch["rank"],
        "BERTH_NODES": len(nodes),
        "BERTH_NODE_NAMES": ",".join(nodes),
        "BERTH_NODE_NAME": nodes[launch["rank"]] if launch["rank"] < len(nodes) else None,
        "BERTH_GPUS": len(launch["gpus"]),
        "BERTH_GPUS_TOTAL": launch["world"]["gpus_total"],
        "BERTH_GPU_INDICES": ",".join(map(str, launch["gpus"])) or None,
        "BERTH_GPU_TYPE": launch["gpu_type"],
        "BERTH_GPU_COMPUTE": launch.get("gpu_compute"),
        "BERTH_GPU_MEMORY_MIB": launch.get("gpu_memory_mib"),
        "BERTH_CORES": len(launch["cores"]),
        "BERTH_CORES_FILE": launch.get("cores_file"),
        "BERTH_MEMORY_MIB": launch["memory_mib"],
        "BERTH_TENANT": launch["tenant"],
        "BERTH_USER": launch["user"],
        "BERTH_PYTHON": launch["python"],
        "BERTH_JOB_DIR": launch["job_dir"],
        "BERTH_CHECKPOINT_DIR": launch["checkpoint_dir"],
        "BERTH_ARTEFACTS": launch.get("artefacts_dir"),
        "BERTH_COMMIT": launch.get("commit"),
        "BERTH_INSTRUMENT_PATH": Path(instrument.__file__).parent,
        "BERTH_RECORDS_DIR": launch["records_dir"],
        "BERTH_PROFILE": 1 if launch["profile"] else None,
        "BERTH_VIRTUAL_PACE": launch.get("virtual_pace"),
        "BERTH_VIRTUAL_SPEED_FILE": launch.get("speed_file"),
        MARKER: launch["mark"],
    }
    return {name: str(value) for name, value in values.items() if value is not None}


def _rendezvous(launch: dict[str, Any]) -> dict[str, str]:
    """Return torchrun's variables, by its own names and as PET_*. A CPU job counts as one process for each node."""
    world = launch["world"]
    nodes = len(world["nodes"])
    values = (
        world["nodes"][0]["address"] if nodes else "127.0.0.1",
        world["port"],
        max(nodes, 1),
        launch["rank"],
        len(launch["gpus"]) or 1,
        world["gpus_total"] or max(nodes, 1),
    )
    plain = {name: str(value) for name, value in zip(_RENDEZVOUS, values, strict=True)}
    return plain | {f"PET_{name}": value for name, value in plain.items() if name != "WORLD_SIZE"}


def _gloo(launch: dict[str, Any]) -> dict[str, str]:
    """Return by which interface PyTorch's gloo is to reach the other nodes: that of the address by which they know this one.

    By default gloo takes the address of the machine's name, which often is one of the loopback (127.0.1.1).
    """
    nodes, rank = launch["world"]["nodes"], launch["rank"]
    if len(nodes) < 2 or rank >= len(nodes):
        return {}
    from workers.system.interfaces import interface_of  # with the sockets, which few shims need

    interface = interface_of(nodes[rank]["address"])
    return {"GLOO_SOCKET_IFNAME": interface} if interface else {}


def _mps(launch: dict[str, Any]) -> dict[str, str]:
    """Return how CUDA reaches, or does not reach, the MPS daemon of this node; nothing where none runs.

    A percentage of the GPU's threads, and a limit for each GPU by its number among those that the job sees (NVIDIA,
    *Multi-Process Service*, environment variables).
    """
    pipes, compute, mib = launch.get("mps"), int(launch.get("gpu_compute") or 0), launch.get("gpu_memory_mib")
    if pipes is None:
        return {}
    if not pipes.startswith("/"):
        return {"CUDA_MPS_PIPE_DIRECTORY": f"{launch['tmp_dir']}/no-mps"}
    found = {"CUDA_MPS_PIPE_DIRECTORY": pipes, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{max(1, compute // 10)}"}
    if mib:
        found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(f"{gpu}={mib}M" for gpu in range(len(launch["gpus"])))
    return found


def job_environment(launch: dict[str, Any]) -> dict[str, str]:
    """Return the whole environment. The tenant's variables replace the base's; Berth's replace the tenant's."""
    given = {**_base(launch), **_gloo(launch), **launch["environment"]}
    path = ":".join([given["PATH"], *filter(None, [launch.get("programs")])])
    return {
        **given,
        **_prefix(launch.get("prefix"), path),
        **_berth(launch),
        **_rendezvous(launch),
        **_mps(launch),
        # UUIDs of real GPUs, or indices of virtual ones; "" for a CPU job, so that it sees no GPU.
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, (not launch["virtual"] and launch["gpu_uuids"]) or launch["gpus"])),
    }


def _prefix(prefix: str | None, path: str) -> dict[str, str]:
    """Return the variables of an activated virtual or conda environment: its programs come first."""
    if prefix is None:
        return {"PATH": path}
    kind = "CONDA_PREFIX" if (Path(prefix) / "conda-meta").is_dir() else "VIRTUAL_ENV"
    return {"PATH": f"{prefix}/bin:{path}", kind: prefix}
