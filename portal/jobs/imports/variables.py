"""The command that runs a batch script: the variables that it reads by their Slurm names, and the program of its first line."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portal.jobs.imports.amounts import Array

SCRIPT_NAME = "job.sbatch"
_USED = re.compile(r"\bSLURM_[A-Z_]{2,60}")
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
    "SLURM_CPUS_PER_TASK": "$BERTH_CORES",
    "SLURM_RESTART_COUNT": "$BERTH_EPOCHS_BEFORE",
}
_OF_ARRAYS = {
    "SLURM_ARRAY_JOB_ID": "$BERTH_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_COUNT": "$BERTH_ARRAY_SIZE",
}


def used(script: str) -> list[str]:
    """Return the names of Slurm's variables that a script reads, once each."""
    return list(dict.fromkeys(_USED.findall(script)))


def unknown(script: str, array: Array | None) -> list[str]:
    """Return those that the job will not find."""
    known = set(_SAME) | (set(_OF_ARRAYS) | set(_of_array(array)) if array else set())
    return [name for name in used(script) if name not in known]


def command_for(script: str, program: list[str], array: Array | None) -> str:
    """Return the command: the script, by its own program, with those of Slurm's variables that it reads."""
    names = set(used(script))
    values = _SAME | (_OF_ARRAYS | _of_array(array) if array else {})
    exports = [f'export {name}="{value}"' for name, value in values.items() if name in names]
    lines = [*_task_id(array, names), *exports, f'exec {shlex.join(program)} "$BERTH_JOB_DIR/{SCRIPT_NAME}"']
    return "\n".join(lines)


def _of_array(array: Array) -> dict[str, str]:
    last = array.listed[-1] if array.listed else array.first + (array.size - 1) * array.step
    number = "$task" if array.listed else f"$(({array.first} + {array.step} * BERTH_ARRAY_INDEX))"
    return {
        "SLURM_ARRAY_TASK_ID": number,
        "SLURM_ARRAY_TASK_MIN": str(array.first),
        "SLURM_ARRAY_TASK_MAX": str(last),
        "SLURM_ARRAY_TASK_STEP": str(array.step or 1),
    }


def _task_id(array: Array | None, names: set[str]) -> list[str]:
    """Return lines that find the task's number in a list."""
    if array is None or not array.listed or "SLURM_ARRAY_TASK_ID" not in names:
        return []
    numbers = " ".join(map(str, array.listed))
    return [f'set -- {numbers}; shift "$BERTH_ARRAY_INDEX"; task=$1; set --']
