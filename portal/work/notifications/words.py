"""Events that send messages, and a message's words. Plain text and JSON: a job's name is no markup and no header."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings

from portal.work.jobs.states import RETRIED, JobState

if TYPE_CHECKING:
    from portal.work.notifications.models import Item, Message


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
    Event(
        "idle",
        "Nobody uses it",
        "before its idle time-out ends it, or when an operator asks whether you need it",
        tasks=True,
    ),
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


SHOWN = 50
"""Lines of a mail that tells many things."""
DID = {
    "ended": "ended",
    "failed": "failed",
    "started": "runs now",
    "waits": "waits long",
    "log": "has in its log what you look for",
    "idle": "is not used",
    "limit": "is near its time limit",
}


ACTS = {"limit": " You may extend it on its page.", "idle": " *Keep it running* stands on its page."}


def one_line(text: str, most: int = 120) -> str:
    """Return text fit for a header or a line of a mail: a character that does not print becomes a space, and it is cut."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return plain if len(plain) <= most else plain[: most - 3] + "..."


def job_url(number: str) -> str:
    return f"{settings.BASE_URL}/jobs/{number}/" if settings.BASE_URL else ""


def sentence(item: Item) -> str:
    """Return for example: Job 58 night-run (vision-lab) failed: exit code 1."""
    job = item.job
    detail = f": {one_line(item.detail, 300)}" if item.detail else ""
    return f"Job {job.number} {one_line(job.name)} ({job.tenant.name}) {DID[item.what]}{detail}."


def mail_of(items: list[Item], count: int) -> tuple[str, str]:
    """Return subject and text. `items`: the first of the `count` things to tell."""
    if count == 1:
        item = items[0]
        act = ACTS.get(item.what, "")
        subject = f"[Berth] Job {item.job.number} {one_line(item.job.name, 60)} {DID[item.what]}"
        body = f"{sentence(item)}{act}\n\n{job_url(item.job.number)}\n"
    else:
        labels = {event.name: event.label for event in EVENTS}
        told = ", ".join(f"{labels[what]}: {number}" for what, number in Counter(i.what for i in items).items())
        shown = "\n".join(sentence(item) for item in items[:SHOWN])
        more = f"\nand {count - SHOWN:,} more\n" if count > SHOWN else "\n"
        first = f"Of the first {len(items):,}: {told}" if len(items) < count else told
        subject, body = f"[Berth] {count:,} things about your jobs", f"{first}\n\n{shown}{more}"
    where = f"{settings.BASE_URL}/account/" if settings.BASE_URL else "your account page"
    return subject, f"{body}\nYou chose to be told of this: {where}\n"


def call_of(message: Message, items: list[Item]) -> dict[str, Any]:
    """Return the JSON that a webhook is sent."""
    return {"id": str(message.pk), "test": not items, "events": [_event(item) for item in items]}


def _event(item: Item) -> dict[str, Any]:
    job = item.job
    told = {
        "number": job.number,
        "name": job.name,
        "tenant": job.tenant.name,
        "owner": job.owner.username,
        "state": job.state,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "url": job_url(job.number),
    }
    return {"event": item.what, "at": item.at.isoformat(), "detail": item.detail, "job": told}
