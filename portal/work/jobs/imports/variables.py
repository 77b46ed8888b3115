"""The command that runs a batch script: Slurm's variables, and the program of its first line.

Berth's values when the job runs count, so that no variable has the script's number where somebody changed that later.
Without its word (an older agent) what the script asked for stands.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from portal.work.jobs.imports.amounts import Array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCRIPT_NAME = "job.sbatch"
_USED = re.compile(r"\bSLURMD?_[A-Z_]{2,60}")
_SAME = {
    "SLURM_JOB_ID": "$BERTH_JOB_ID",
    "SLURM_JOBID": "$BERTH_JOB_ID",
    "SLURM_JOB_NAME": "$BERTH_JOB_NAME",
    "SLURM_JOB_USER": "$BERTH_USER",
    "SLURM_JOB_UID": "$(id -u)",
    "SLURM_JOB_GID": "$(id -g)",
    "SLURM_JOB_ACCOUNT": "$BERTH_TENANT",
    "SLURM_JOB_START_TIME": "$(date +%s)",
    "SLURM_SUBMIT_DIR": "$PWD",
    "SLURM_TMPDIR": "$TMPDIR",
    "SLURM_TASK_PID": "$$",
    "SLURM_NNODES": "$BERTH_NODES",
    "SLURM_JOB_NUM_NODES": "$BERTH_NODES",
    "SLURM_NODEID": "$BERTH_RANK",
    "SLURM_GPUS_ON_NODE": "$BERTH_GPUS",
    "SLURM_GPUS": "$BERTH_GPUS_TOTAL",
    "SLURM_CPUS_ON_NODE": "$BERTH_CORES",
    "SLURM_PROCID": "$BERTH_RANK",
    "SLURM_LOCALID": "0",
    "SLURM_RESTART_COUNT": "$BERTH_EPOCHS_BEFORE",
    "SLURMD_NODENAME": "${BERTH_NODE_NAME:-$(uname -n)}",
}
_WHERE_SAID = {
    "SLURM_JOB_NODELIST": "BERTH_NODE_NAMES",
    "SLURM_NODELIST": "BERTH_NODE_NAMES",
    "SLURM_JOB_GPUS": "BERTH_GPU_INDICES",
    "SLURM_STEP_GPUS": "BERTH_GPU_INDICES",
}
"""Left unset where Berth says nothing: a job without GPUs, or an older agent."""
_ONE_NODE = {"SLURM_JOB_CPUS_PER_NODE": "$BERTH_CORES", "SLURM_TASKS_PER_NODE": "$SLURM_NTASKS"}
"""Lists of all nodes. Of several nodes a part does not know the others' cores."""
_OF_ARRAYS = [
    "SLURM_ARRAY_JOB_ID",
    *(f"SLURM_ARRAY_TASK_{name}" for name in ("ID", "COUNT", "MIN", "MAX", "STEP")),
]
_PLAIN_ARRAY = Array(1, 0, 1, (), None)
_PER_NODE = ("gpus-per-node", "gres", "gpus-per-socket")
_MEMORY = ("mem", "mem-per-gpu", "mem-per-cpu")


class _Counts(NamedTuple):
    """The sums of a script's numbers: nodes, GPUs and tasks in all, and the tasks as the shell counts them when it runs."""

    nodes: int
    gpus: int
    tasks: int
    said: str


def used(script: str) -> list[str]:
    """Return the names of Slurm's variables that a script reads, once each."""
    return list(dict.fromkeys(_USED.findall(script)))


def unknown(script: str, array: Array | None, asked: Mapping[str, Any]) -> list[str]:
    """Return those that the job will not find."""
    known = {*_SAME, *_WHERE_SAID, *_ONE_NODE, *_of_request(asked), *(_OF_ARRAYS if array else ())}
    return [name for name in used(script) if name not in known]


def command_for(
    program: list[str],
    array: Array | None,
    asked: Mapping[str, Any],
    *,
    arguments: Sequence[str] = (),
    instead: str | None = None,
) -> str:
    """Return the command: the script by its own program, or `instead`; programs that it calls find Slurm's variables too."""
    exports = [_export(name, value) for name, value in (_SAME | _of_request(asked)).items()]
    exports += [_export(name, f"${said}", f'-z "${{{said}:-}}"') for name, said in _WHERE_SAID.items()]
    exports += [_export(name, value, '"${BERTH_NODES:-1}" -gt 1') for name, value in _ONE_NODE.items()]
    started = f'exec {shlex.join(program)} "$BERTH_JOB_DIR/{SCRIPT_NAME}" {shlex.join(arguments)}'.rstrip()
    return "\n".join([*exports, *_of_array(array or _PLAIN_ARRAY), started if instead is None else instead])


def _export(name: str, value: str, unless: str = "") -> str:
    """Return the line that sets a variable; one that counts by GPUs is not set in a job without them."""
    if not unless and (name.endswith("_PER_GPU") or name.startswith("SLURM_GPUS_PER")):
        unless = '"${BERTH_GPUS:-1}" -eq 0'
    line = f'export {name}="{value}"'
    return f"[ {unless} ] || {line}" if unless else line


def _quotient(over: str, under: str, *, least: int = 1) -> str:
    """Return a whole number for the shell, `least` where it would be 0; the divisor may be 0 too."""
    found = f"({over}) / ({under} + !({under}))"
    return f"$(({found} + !({found})))" if least else f"$(({found}))"


def _counts(asked: Mapping[str, Any]) -> _Counts:
    """Count as `sizes` does; where tasks go by GPUs, as many as there are GPUs in the end."""
    nodes = asked.get("nodes", (1,))[0]
    each = next((asked[name].number for name in _PER_NODE if name in asked), 0)
    of_task = asked["gpus-per-task"].number if "gpus-per-task" in asked else 0
    per_node, of_gpu = asked.get("ntasks-per-node"), asked.get("ntasks-per-gpu")
    tasks = asked.get("ntasks") or (per_node or 0) * nodes
    gpus = asked["gpus"].number if "gpus" in asked else each * nodes or of_task * (tasks or nodes)
    total = f"${{BERTH_GPUS_TOTAL:-{gpus}}}"
    if asked.get("ntasks") or (per_node and ("gpus" in asked or not (each or of_task))):
        return _Counts(nodes, gpus, tasks, str(tasks))
    if per_node and each:
        return _Counts(nodes, gpus, tasks, _quotient(f"{per_node} * {total}", str(each)))
    if of_gpu and not per_node:
        return _Counts(nodes, gpus, of_gpu * gpus or nodes, _quotient(f"{of_gpu} * {total}", "1"))
    if of_task:
        return _Counts(nodes, gpus, gpus // of_task, _quotient(total, str(of_task)))
    return _Counts(nodes, gpus, nodes, f"${{BERTH_NODES:-{nodes}}}")


def _of_request(asked: Mapping[str, Any]) -> dict[str, str]:
    """Return those that Slurm sets where an option asks for them."""
    count = _counts(asked)
    of_core = asked.get("cpus-per-task", 1)
    cores = asked.get("cpus-per-gpu", 0) * count.gpus or of_core * count.tasks
    named = next((name for name in _MEMORY if name in asked), "")
    amount = asked.get(named, 0)
    mib = amount * {"mem-per-gpu": count.gpus, "mem-per-cpu": cores}.get(named, count.nodes)
    nodes, gpus = f"${{BERTH_NODES:-{count.nodes}}}", f"${{BERTH_GPUS_TOTAL:-{count.gpus}}}"
    gpus_here, cores_here, mib_here = (
        f"${{BERTH_{name}:-{whole // count.nodes}}}"
        for name, whole in (("GPUS", count.gpus), ("CORES", cores), ("MEMORY_MIB", mib))
    )
    shares = {
        "ntasks-per-node": ("SLURM_NTASKS_PER_NODE", _quotient("SLURM_NTASKS", nodes)),
        "ntasks-per-gpu": ("SLURM_NTASKS_PER_GPU", _quotient("SLURM_NTASKS", gpus)),
        "cpus-per-task": ("SLURM_CPUS_PER_TASK", _quotient(f"{cores_here} * {nodes}", "SLURM_NTASKS")),
        "cpus-per-gpu": ("SLURM_CPUS_PER_GPU", _quotient(cores_here, gpus_here)),
        "gpus-per-node": ("SLURM_GPUS_PER_NODE", gpus_here),
        "gpus-per-task": ("SLURM_GPUS_PER_TASK", _quotient(gpus, "SLURM_NTASKS", least=0)),
        "mem": ("SLURM_MEM_PER_NODE", mib_here),
        "mem-per-gpu": ("SLURM_MEM_PER_GPU", _quotient(mib_here, gpus_here)),
        "mem-per-cpu": ("SLURM_MEM_PER_CPU", _quotient(mib_here, cores_here)),
    }
    wanted = {name for name in asked if name not in _MEMORY or (name == named and amount)}
    found = {"SLURM_NTASKS": count.said, "SLURM_NPROCS": "$SLURM_NTASKS"}
    return found | dict(shares[name] for name in shares if name in wanted)


def _of_array(array: Array) -> list[str]:
    """Return lines that say which task it is. Numbers of a list hold while the array has as many tasks as the list."""
    size = f"${{BERTH_ARRAY_SIZE:-{array.size}}}"
    listed = " ".join(map(str, array.listed))
    counted = [
        f'export SLURM_ARRAY_TASK_ID="$(({array.first} + {array.step or 1} * BERTH_ARRAY_INDEX))"',
        f'export SLURM_ARRAY_TASK_MAX="$(({array.first} + {array.step or 1} * ({size} - 1)))"',
    ]
    lines = [
        'if [ -n "${BERTH_ARRAY_INDEX:-}" ]; then',
        'export SLURM_ARRAY_JOB_ID="$BERTH_ARRAY_JOB_ID" SLURM_ARRAY_TASK_COUNT="$BERTH_ARRAY_SIZE"',
        f'export SLURM_ARRAY_TASK_MIN="{array.first}" SLURM_ARRAY_TASK_STEP="{array.step or 1}"',
    ]
    if not array.listed:
        return [*lines, *counted, "fi"]
    return [
        *lines,
        f'if [ "{size}" -eq {array.size} ]; then set -- {listed}; shift "$BERTH_ARRAY_INDEX"',
        f'export SLURM_ARRAY_TASK_ID="$1" SLURM_ARRAY_TASK_MAX="{array.listed[-1]}"; set --',
        'else export SLURM_ARRAY_TASK_ID="$BERTH_ARRAY_INDEX" SLURM_ARRAY_TASK_MIN=0',
        'export SLURM_ARRAY_TASK_MAX="$((BERTH_ARRAY_SIZE - 1))"; fi',
        "fi",
    ]
