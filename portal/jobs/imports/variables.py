"""The command that runs a batch script: Slurm's variables, and the program of its first line."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.jobs.imports.amounts import Array

SCRIPT_NAME = "job.sbatch"
_USED = re.compile(r"\bSLURMD?_[A-Z_]{2,60}")
_SAME = {
    "SLURM_JOB_ID": "$BERTH_JOB_ID",
    "SLURM_JOBID": "$BERTH_JOB_ID",
    "SLURM_JOB_NAME": "$BERTH_JOB_NAME",
    "SLURM_JOB_USER": "$BERTH_USER",
    "SLURM_JOB_ACCOUNT": "$BERTH_TENANT",
    "SLURM_SUBMIT_DIR": "$PWD",
    "SLURM_TMPDIR": "$TMPDIR",
    "SLURM_NNODES": "$BERTH_NODES",
    "SLURM_JOB_NUM_NODES": "$BERTH_NODES",
    "SLURM_NODEID": "$BERTH_RANK",
    "SLURM_GPUS_ON_NODE": "$BERTH_GPUS",
    "SLURM_GPUS": "$BERTH_GPUS_TOTAL",
    "SLURM_CPUS_ON_NODE": "$BERTH_CORES",
    "SLURM_JOB_CPUS_PER_NODE": "$BERTH_CORES",
    "SLURM_PROCID": "$BERTH_RANK",
    "SLURM_LOCALID": "0",
    "SLURM_RESTART_COUNT": "$BERTH_EPOCHS_BEFORE",
    "SLURMD_NODENAME": "$(uname -n)",
}
_OF_OPTIONS = {
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "mem": "SLURM_MEM_PER_NODE",
    "mem-per-cpu": "SLURM_MEM_PER_CPU",
    "mem-per-gpu": "SLURM_MEM_PER_GPU",
}
_OF_ARRAYS = {
    "SLURM_ARRAY_JOB_ID": "$BERTH_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_COUNT": "$BERTH_ARRAY_SIZE",
}


def used(script: str) -> list[str]:
    """Return the names of Slurm's variables that a script reads, once each."""
    return list(dict.fromkeys(_USED.findall(script)))


def unknown(script: str, array: Array | None, asked: Mapping[str, Any]) -> list[str]:
    """Return those that the job will not find."""
    known = _values(array, asked)
    return [name for name in used(script) if name not in known]


def command_for(script: str, program: list[str], array: Array | None, asked: Mapping[str, Any]) -> str:
    """Return the command: the script, by its own program; programs that it calls find Slurm's variables too."""
    exports = [f'export {name}="{value}"' for name, value in _values(array, asked).items()]
    lines = [*_task_id(array), *exports, f'exec {shlex.join(program)} "$BERTH_JOB_DIR/{SCRIPT_NAME}"']
    return "\n".join(lines)


def _values(array: Array | None, asked: Mapping[str, Any]) -> dict[str, str]:
    return _SAME | _of_request(asked) | (_OF_ARRAYS | _of_array(array) if array else {})


def _of_request(asked: Mapping[str, Any]) -> dict[str, str]:
    """Return those that Slurm sets where an option asks for them. One process runs on each node."""
    tasks, per_node = asked.get("ntasks"), asked.get("ntasks-per-node")
    total = str(tasks) if tasks else f"$(({per_node} * BERTH_NODES))" if per_node else "$BERTH_NODES"
    found = {"SLURM_NTASKS": total, "SLURM_NPROCS": total}
    for option, name in _OF_OPTIONS.items():
        if (value := asked.get(option)) is not None:
            found[name] = str(getattr(value, "number", value))
    return found


def _of_array(array: Array) -> dict[str, str]:
    last = array.listed[-1] if array.listed else array.first + (array.size - 1) * array.step
    number = "$task" if array.listed else f"$(({array.first} + {array.step} * BERTH_ARRAY_INDEX))"
    return {
        "SLURM_ARRAY_TASK_ID": number,
        "SLURM_ARRAY_TASK_MIN": str(array.first),
        "SLURM_ARRAY_TASK_MAX": str(last),
        "SLURM_ARRAY_TASK_STEP": str(array.step or 1),
    }


def _task_id(array: Array | None) -> list[str]:
    """Return lines that find the task's number in a list."""
    if array is None or not array.listed:
        return []
    numbers = " ".join(map(str, array.listed))
    return [f'set -- {numbers}; shift "$BERTH_ARRAY_INDEX"; task=$1; set --']
