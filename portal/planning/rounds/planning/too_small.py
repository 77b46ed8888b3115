"""Which instances (MIG) have less memory than jobs of a signature were seen to use of a GPU: none of them falls back on these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.planning.estimation.models import SignatureUse
from scheduler.estimator.tables import signature
from scheduler.model.instances import is_instance, only_instances

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.cluster.models import GpuType
    from scheduler.model import Job

NAMES = 5000
"""Of so many signatures it is asked, the first in the queue: an answer that is missing keeps nobody from an instance."""


def too_small_load(jobs: Iterable[Job], kinds: Iterable[GpuType]) -> dict[str, frozenset[str]]:
    """Return by signature the types of instances that are too small for it. One query, none without instances."""
    memory = {kind.name: kind.memory_mib for kind in kinds if kind.memory_mib and is_instance(kind.name)}
    if not memory:
        return {}
    names = dict.fromkeys(
        signature(job) for job in jobs if job.requirement[0] == 1 and not only_instances(job.gpu_types)
    )
    found: dict[str, frozenset[str]] = {}
    rows = SignatureUse.objects.filter(signature__name__in=list(names)[:NAMES], gpu_type__isnull=False)
    for name, most in rows.values_list("signature__name", "most__gpu_memory_mib"):
        small = frozenset(kind for kind, mib in memory.items() if (most or 0) > mib)
        if small:
            found[name] = found.get(name, frozenset()) | small
    return found
