"""Jobs, their attempts, the parts of each attempt, and its logs. The constraints here are invariants 1, 2 and 4."""

from portal.work.jobs.models.attempts import Allocation, Attempt, GpuAllocation, LogChunk
from portal.work.jobs.models.besides import (
    ClockMark,
    CoreTuning,
    IdempotencyKey,
    JobApart,
    JobDependency,
    JobEvent,
    JobInput,
    JobLabel,
    JobPayload,
    JobText,
    Promise,
    QueueChange,
)
from portal.work.jobs.models.jobs import Job
from portal.work.jobs.models.running import CoreSearch, CoreStep, IdleWatch, MemoryWatch, Slowing

__all__ = [
    "Allocation",
    "Attempt",
    "ClockMark",
    "CoreSearch",
    "CoreStep",
    "CoreTuning",
    "GpuAllocation",
    "IdempotencyKey",
    "IdleWatch",
    "Job",
    "JobApart",
    "JobDependency",
    "JobEvent",
    "JobInput",
    "JobLabel",
    "JobPayload",
    "JobText",
    "LogChunk",
    "MemoryWatch",
    "Promise",
    "QueueChange",
    "Slowing",
]
