"""Jobs, their attempts, what each attempt holds, and its logs. The constraints here are invariants 1, 2 and 4."""

from portal.jobs.models.attempts import Allocation, Attempt, GpuAllocation, LogChunk
from portal.jobs.models.jobs import (
    CoreTuning,
    IdempotencyKey,
    Job,
    JobDependency,
    JobEvent,
    JobPayload,
    JobText,
    Promise,
    QueueChange,
)

__all__ = [
    "Allocation",
    "Attempt",
    "CoreTuning",
    "GpuAllocation",
    "IdempotencyKey",
    "Job",
    "JobDependency",
    "JobEvent",
    "JobPayload",
    "JobText",
    "LogChunk",
    "Promise",
    "QueueChange",
]
