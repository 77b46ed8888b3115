"""Measured throughput in two tables per job signature (Hops 3.3; algorithms.md section 2).

Per entity (node) and per GPU type: an *aggregated* table by GPU count, for runs on one node, and a *distributed* one by GPUs in
all and nodes. A cell keeps count, mean and variance (Welford). Every measurement goes into the entity's and the type's.
*Deviation*: Hops' distributed table has only nodes, so that 2 and 16 GPUs on two nodes would share a cell (docs/decisions/0014).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.speeds import Cell, CellKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduler.model import Job


def signature_of(tenant: int, model_label: str | None, job: int) -> str:
    """The name of comparable jobs: tenant and model label when given, else only the job and its restarts."""
    return f"tenant:{tenant}:{model_label}" if model_label else f"job:{job}"


def tenant_of(signature: str) -> int | None:
    """Whose model label it is; None for a job's own."""
    kind, _, rest = signature.partition(":")
    return int(rest.partition(":")[0]) if kind == "tenant" else None


def signature(job: Job) -> str:
    return signature_of(job.tenant, job.model_label, job.id)


def cell_key(signature: str, resource: int | str, gpus: int, nodes: int) -> CellKey:
    if nodes == 1:
        return CellKey(signature, resource, gpus=gpus)
    return CellKey(signature, resource, gpus=gpus, nodes=nodes)


def record(
    cells: Mapping[CellKey, Cell],
    signature: str,
    where: Sequence[tuple[int, str]],
    gpus: int,
    per_gpu: float,
) -> dict[CellKey, Cell]:
    """The cells that a measured run changes. `where`: (node id, GPU type) of each of its nodes."""
    keys = {cell_key(signature, node, gpus, len(where)) for node, _ in where}
    keys |= {cell_key(signature, gpu_type, gpus, len(where)) for _, gpu_type in where}
    return {key: cells.get(key, Cell()).add(per_gpu) for key in keys}
