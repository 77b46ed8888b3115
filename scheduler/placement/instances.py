"""Which jobs that ask for no instance may have one, where no whole GPU is left for them (ours; algorithms.md section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.estimator.measured import signature
from scheduler.model.instances import only_instances

if TYPE_CHECKING:
    from scheduler.model import Job
    from scheduler.placement.ledger import Ledger


def on_instance(job: Job, ledger: Ledger, *, ever: bool = False) -> Job | None:
    """The job as it asks for one instance instead of whole GPUs; None = it may not have one, or asks only for instances.

    It must accept one GPU, and either name types of instances beside whole GPUs, or accept any type; and no run under its
    signature was seen to need more memory. `ever`: skip the last, for it differs between jobs of a kind.
    """
    if not ledger.instances or job.requirement[0] != 1 or job.part is not None or only_instances(job.gpu_types):
        return None
    types = ledger.instances & job.gpu_types if job.gpu_types else ledger.instances
    if ledger.too_small and not ever:
        types -= ledger.too_small.get(signature(job), frozenset())
    return replace(job, requirement=(1,), gpu_types=types) if types else None
