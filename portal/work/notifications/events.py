"""Events that send messages: the name and meaning of each, and the moves of a job that are it."""

from __future__ import annotations

from dataclasses import dataclass

from portal.work.jobs.states import RETRIED, JobState


@dataclass(frozen=True)
class Event:
    """`label` and `meaning` are for the page; `tasks`: whether an array's single tasks send it too."""

    name: str
    label: str
    meaning: str
    tasks: bool = False


EVENTS = (
    Event("ended", "Ended well", "completed, or was cancelled"),
    Event(
        "failed", "Failed", "an error, its time limit, too little memory, or its node; of arrays each task", tasks=True
    ),
    Event("started", "Started", "runs, for the first time or again"),
    Event("waits", "Waits long", "could start, and has waited longer than you say below"),
    Event("log", "Log match", "a line of its log has a text that the job names; of arrays each task", tasks=True),
    Event("idle", "Nobody uses it", "before its idle time-out ends it; you may then keep it running", tasks=True),
    Event("limit", "Near its time limit", "before it is stopped; you may then extend it"),
)
NAMES = tuple(event.name for event in EVENTS)
OF_TASKS = frozenset(event.name for event in EVENTS if event.tasks)


def event_of(state: JobState) -> str | None:
    """Return the event that a move to this state is; None: nothing to tell."""
    if state == JobState.RUNNING:
        return "started"
    if state in {JobState.COMPLETED, JobState.CANCELLED}:
        return "ended"
    return "failed" if state in RETRIED else None
