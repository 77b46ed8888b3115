"""The states of jobs and attempts, and which may follow which (algorithms, section 1)."""

from portal.foundation.choices import TextChoices


class JobState(TextChoices):
    PENDING = "PENDING", "Waiting"
    HELD = "HELD", "Held"
    STARTING = "STARTING", "Starting"
    RUNNING = "RUNNING", "Running"
    PREEMPTED = "PREEMPTED", "Preempted"
    COMPLETED = "COMPLETED", "Completed"
    FAILED = "FAILED", "Failed"
    TIMEOUT = "TIMEOUT", "Timed out"
    CANCELLED = "CANCELLED", "Cancelled"
    OUT_OF_MEMORY = "OUT_OF_MEMORY", "Out of memory"
    NODE_FAIL = "NODE_FAIL", "Node failed"


S = JobState
FINAL = frozenset({S.COMPLETED, S.FAILED, S.TIMEOUT, S.CANCELLED, S.OUT_OF_MEMORY, S.NODE_FAIL})
LIVE = frozenset({S.STARTING, S.RUNNING})
QUEUED = frozenset({S.PENDING, S.HELD})
ACTIVE = frozenset(S) - FINAL
RETRIED = frozenset({S.FAILED, S.TIMEOUT, S.OUT_OF_MEMORY, S.NODE_FAIL})
"""Ends after which a person may let a job wait again: the one way out of an end (`job_retry`)."""

FOLLOWERS: dict[JobState, frozenset[JobState]] = {
    S.PENDING: frozenset({S.STARTING, S.HELD, S.CANCELLED, S.COMPLETED}),
    S.HELD: frozenset({S.PENDING, S.CANCELLED, S.COMPLETED}),
    S.STARTING: frozenset({S.RUNNING, S.PENDING, S.FAILED, S.NODE_FAIL, S.CANCELLED}),
    S.RUNNING: (FINAL | {S.PREEMPTED, S.PENDING}),
    S.PREEMPTED: frozenset({S.PENDING, S.CANCELLED}),
}
"""The states that may follow a state. A job goes back from a live state to PENDING only while retries or requeues last.

One that waits again after a loss is COMPLETED if its attempt had ended well, and the node can tell only now.
"""


class AttemptState(TextChoices):
    """A live attempt is STARTING or RUNNING; all others are ends, and an attempt ends exactly once."""

    STARTING = "STARTING", "Starting"
    RUNNING = "RUNNING", "Running"
    COMPLETED = "COMPLETED", "Completed"
    FAILED = "FAILED", "Failed"
    TIMEOUT = "TIMEOUT", "Timed out"
    CANCELLED = "CANCELLED", "Cancelled"
    OUT_OF_MEMORY = "OUT_OF_MEMORY", "Out of memory"
    NODE_FAIL = "NODE_FAIL", "Node failed"
    PREEMPTED = "PREEMPTED", "Preempted"


class StopReason(TextChoices):
    """Why the portal asks a node to stop a part."""

    CANCEL = "cancel", "cancelled"
    PREEMPT = "preempt", "preempted"
    REQUEUE = "requeue", "requeued by hand"
    PARTNER = "partner", "another part of it ended"
    LIMIT = "limit", "a profile's time is over"
    UNWELL = "unwell", "its node or GPU failed"
    IDLE = "idle", "nobody used it"


class StopCause(TextChoices):
    """Why a planning stops a running job, or keeps resources for one (algorithms, sections 4 and 6)."""

    CALL_BACK = "call-back", "called back"
    RESIZE = "resize", "resized"
    MOVE = "move", "moved"
    PREEMPT = "preempt", "preempted"


OF_SIGNALS = 128
"""A shell adds it to the number of the signal that ended its command."""


def end_words(exit_code: int | None, signal: int | None) -> str:
    """Return `exit 3` or `signal 9`; empty where neither is known."""
    if signal is not None:
        return f"signal {signal}"
    return "" if exit_code is None else f"exit {exit_code}"


def shell_code(exit_code: int | None, signal: int | None) -> int | None:
    """Return the exit status as a shell would show it."""
    return exit_code if signal is None else OF_SIGNALS + signal
