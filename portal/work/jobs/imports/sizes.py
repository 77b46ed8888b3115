"""How many GPUs, cores and how much memory a script's nodes, tasks and amounts come to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from portal.cluster.gpu_states import ONE_EACH, only_instances
from portal.work.jobs.imports import amounts
from portal.work.jobs.imports.amounts import NotRead
from portal.work.jobs.imports.gpu_names import LOOSER, types_like

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.work.jobs.imports.answers import Line
    from portal.work.jobs.imports.mapping import Draft


READ: dict[str, Callable[[str], Any]] = {
    "nodes": amounts.counts,
    "ntasks": amounts.count,
    "ntasks-per-node": amounts.count,
    "ntasks-per-gpu": amounts.count,
    "cpus-per-task": amounts.count,
    "cpus-per-gpu": amounts.count,
    "gpus": amounts.gpus,
    "gpus-per-node": amounts.gpus,
    "gpus-per-socket": amounts.gpus,
    "sockets-per-node": amounts.count,
    "extra-node-info": amounts.sockets,
    "gpus-per-task": amounts.gpus,
    "gres": amounts.gres,
    "mem": amounts.mib,
    "mem-per-cpu": amounts.mib,
    "mem-per-gpu": amounts.mib,
}
GPU_OPTIONS = ("gpus", "gpus-per-node", "gres", "gpus-per-socket", "gpus-per-task")
MEMORY_OPTIONS = ("mem", "mem-per-gpu", "mem-per-cpu")


def take(draft: Draft, option: str, value: str, line: Line) -> None:
    """Read one value; `settle` says at the end what it came to. Raises NotRead."""
    found = READ[option](value)
    if option == "gres":
        found, others = found
        if others:
            names = ", ".join(amounts.shown(name) for name in others[:5])
            raise NotRead(f"GPUs are the only resource by name here, and it asks for {names}; --tmp asks for disk")
        if found is None:
            line.ignored("It asks for nothing.")
            return
    if option in GPU_OPTIONS and found.type is not None:
        like = types_like(draft.gpu_types, found.type)
        draft.narrow(like.types)
        draft.looser |= {option} if like.looser else set()
    draft.sizes[option] = found, line


def settle(draft: Draft) -> None:
    """Turn what was read into `gpus`, `cores`, `cores_per_gpu` and `memory_mib`, and say in each line what it became."""
    tasks, per_node = _value(draft, "ntasks"), _value(draft, "ntasks-per-node")
    nodes = _value(draft, "nodes") or (math.ceil(tasks / per_node) if tasks and per_node else 1,)
    low = nodes[0]
    _sockets(draft)
    sizes = _gpus(draft, nodes, tasks)
    if min(sizes, default=1) > 1 and only_instances(draft.description.get("gpu_types") or ()):
        sizes = _no_instances(draft, sizes)
    if sizes:
        draft.description["gpus"] = sizes[0] if len(sizes) == 1 else sizes
        _gpu_lines(draft, sizes)
    else:
        draft.description.pop("gpu_types", None)
        for name in GPU_OPTIONS:
            if (line := _line(draft, name)) and line.verdict != "refused":
                line.mapped("gpus", "No GPU.")
        draft.description["gpus"] = 0
    if tasks is None:
        tasks = low * per_node if per_node else (sizes[0] if sizes else 1) * _value(draft, "ntasks-per-gpu", 0) or low
    cores = tasks * _value(draft, "cpus-per-task", 1)
    _cores(draft, sizes, cores, nodes=low)
    _memory(draft, sizes, cores, nodes=low)
    for name in ("nodes", "ntasks", "ntasks-per-node", "ntasks-per-gpu"):
        if (line := _line(draft, name)) and not line.detail:
            what = "GPUs and cores" if sizes else "cores"
            words = f"The job's {what} are counted from it. On how many nodes they lie is Berth's choice."
            line.mapped("gpus" if sizes else "cores", words)


def _no_instances(draft: Draft, sizes: list[int]) -> list[int]:
    """Refuse several instances for one job; return the sizes that are left."""
    for name in GPU_OPTIONS:
        if line := _line(draft, name):
            line.refused(
                f"It asks for {min(sizes)} instances (MIG): {ONE_EACH}, and no two work together. Ask for one."
            )
    return []


def _sockets(draft: Draft) -> None:
    """Turn GPUs for each socket into those of a node; without a number of sockets there is no such number."""
    named = "sockets-per-node" if "sockets-per-node" in draft.sizes else "extra-node-info"
    sockets, line = _value(draft, named), _line(draft, named)
    each, of_gpus = _value(draft, "gpus-per-socket"), _line(draft, "gpus-per-socket")
    for name in ("sockets-per-node", "extra-node-info"):
        if name in draft.sizes:
            draft.sizes[name][1].ignored("Berth itself chooses cores and binds the job to them.")
    if each is None or of_gpus is None:
        return
    if sockets is None:
        of_gpus.refused("It counts by sockets; say --sockets-per-node or -B, or ask by --gpus.")
        del draft.sizes["gpus-per-socket"]
        return
    draft.sizes["gpus-per-socket"] = each._replace(number=each.number * sockets), of_gpus
    if line:
        line.mapped("gpus", "The job's GPUs are counted from it.")


def _value(draft: Draft, name: str, default: Any = None) -> Any:
    return draft.sizes[name][0] if name in draft.sizes else default


def _line(draft: Draft, name: str) -> Line | None:
    return draft.sizes[name][1] if name in draft.sizes else None


def _gpus(draft: Draft, nodes: tuple[int, ...], tasks: int | None) -> list[int]:
    """Return the GPU counts that it accepts, [] for a job without GPUs. A range of nodes makes several."""
    if (whole := _value(draft, "gpus")) is not None:
        return [whole.number] if whole.number else []
    per_node = next((_value(draft, name) for name in GPU_OPTIONS[1:4] if name in draft.sizes), None)
    if per_node is not None:
        return [per_node.number * count for count in nodes] if per_node.number else []
    if (per_task := _value(draft, "gpus-per-task")) is not None and per_task.number:
        return [per_task.number * (tasks or nodes[0] * _value(draft, "ntasks-per-node", 1))]
    return []


def _gpu_lines(draft: Draft, sizes: list[int]) -> None:
    used = next(name for name in GPU_OPTIONS if name in draft.sizes)
    kinds = f" of {' or '.join(draft.description['gpu_types'])}" if draft.description.get("gpu_types") else ""
    for name in GPU_OPTIONS:
        if (line := _line(draft, name)) is None:
            continue
        if name == used:
            says = f"{' or '.join(map(str, sizes))} GPU{'s' if sizes != [1] else ''}{kinds} in all."
            line.mapped("gpus", says)
        if name in draft.looser:
            line.looser("gpus", f"{says if name == used else f'GPUs{kinds}.'} {LOOSER}")
        elif name != used:
            line.ignored(f"--{used} says how many GPUs there are.")


def _cores(draft: Draft, sizes: list[int], cores: int, *, nodes: int) -> None:
    per_gpu, per_task = _line(draft, "cpus-per-gpu"), _line(draft, "cpus-per-task")
    if not sizes:
        draft.description["cores"] = cores
        if per_gpu:
            per_gpu.ignored("The job has no GPUs.")
        if per_task:
            per_task.mapped("cores", f"{cores} cores in all.")
        if nodes > 1 and (line := _line(draft, "nodes")):
            line.refused("A job without GPUs runs on one node here; submit an array, or ask for one node.")
    elif per_gpu:
        wanted = _value(draft, "cpus-per-gpu")
        _cores_per_gpu(draft, per_gpu, wanted, f"{wanted} cores for each GPU.")
        if per_task:
            per_task.ignored("--cpus-per-gpu says how many cores there are.")
    elif per_task:
        wanted = math.ceil(cores / sizes[0])
        says = f"{cores} cores for {sizes[0]} GPU{'s' if sizes[0] != 1 else ''}: {wanted} for each."
        _cores_per_gpu(draft, per_task, wanted, says)


def _cores_per_gpu(draft: Draft, line: Line, asked: int, says: str) -> None:
    """Say what was asked, and with how many cores a GPU the job begins where that is another number."""
    draft.description["cores_per_gpu"] = asked
    begins = asked if draft.begins is None else draft.begins(draft.description)
    if begins == asked:
        line.mapped("cores_per_gpu", says)
    else:
        line.looser("cores_per_gpu", f"{says} Asked {asked}; it begins with {begins} and is tuned.")


def _memory(draft: Draft, sizes: list[int], cores: int, *, nodes: int) -> None:
    named = [name for name in MEMORY_OPTIONS if name in draft.sizes]
    for name in named[1:]:
        draft.sizes[name][1].ignored(f"--{named[0]} says how much memory there is.")
    if not named:
        return
    amount, line = draft.sizes[named[0]]
    if not amount:
        line.ignored("All memory of a node cannot be asked for; without an amount the job has no limit of its own.")
    elif named[0] == "mem-per-gpu" and not sizes:
        line.ignored("The job has no GPUs.")
    else:
        if sizes and "cores_per_gpu" in draft.description:
            cores = draft.description["cores_per_gpu"] * sizes[0]
        times = {"mem": nodes, "mem-per-gpu": sizes[0] if sizes else 0, "mem-per-cpu": cores}[named[0]]
        draft.description["memory_mib"] = amount * times
        parts = {"mem": "nodes", "mem-per-gpu": "GPUs", "mem-per-cpu": "cores"}[named[0]]
        each = f": {_gib(amount)} for each of {times} {parts}" if times > 1 else ""
        line.mapped("memory_mib", f"{_gib(amount * times)} in all{each}.")


def _gib(mib: int) -> str:
    return f"{round(mib / 1024, 2):g} GiB"
