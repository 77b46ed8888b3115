"""Reads the figures of tasks that somebody looks at, each time that a task has kept newer files.

A page notes which array it shows (`wanted_note`). Beat's task reads those arrays, some tasks in one look of the previews'
process: no process that others need parses a tenant's bytes. A task that took too much is noted as read, without figures.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, OuterRef, Q, Subquery

from portal.foundation.events.services import page_event
from portal.foundation.events.shared import Away, client
from portal.work.artefacts.looking import given_of
from portal.work.artefacts.models import Artefact
from portal.work.artefacts.remote import StoreAway
from portal.work.jobs.models import Job
from portal.work.previews.asking import Busy, TooCostly, asked
from portal.work.previews.curves.files import curve_files
from portal.work.sweeps.models import TaskMetric, TaskReading

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger(__name__)

WANTED = "berth:sweeps:wanted"
WANTED_S = 120.0
"""How long an array is read on behalf of a page that showed it."""
MOST_WANTED = 100
READ_S = 2.0
"""The time after which a run begins no other look: it comes every five seconds, beside the workers' other tasks."""
AT_ONCE = 8
"""Tasks in one look, whose files are open together."""
MOST_FILES = 8
MOST_TASKS = 1000
"""Tasks of one array that are compared: the first ones."""
PARAMETERS = "params.json"
NAMED = (
    Q(path__endswith=".jsonl")
    | Q(path__endswith=".ndjson")
    | Q(path__contains="events.out.tfevents.")
    | Q(path__endswith=PARAMETERS)
)
MOST_ROWS = 4000
"""Files of the tasks in one look, of which those for curves are chosen."""


def wanted_note(array: Job) -> None:
    """Note that a page shows the array. Without Redis nothing is noted, and the page has the figures of before."""
    try:
        pipe = client(settings.REDIS_URL).pipeline()
        pipe.zadd(WANTED, {str(array.pk): time.time()})
        pipe.zremrangebyrank(WANTED, 0, -MOST_WANTED - 1)
        pipe.execute()
    except Away as error:
        log.debug("sweeps: Redis is away: %s", error)


def sweeps_read() -> int:
    """Read what is wanted, for at most `READ_S` seconds, some tasks of each array in turn. Returns how many were read.

    A task is read once in a run: one that writes all the time leaves time for the others. Open pages of an array are told of
    what was read: its tasks may move no more.
    """
    until, done = time.monotonic() + READ_S, set[int]()
    redis = client(settings.REDIS_URL)
    redis.zremrangebyscore(WANTED, 0, time.time() - WANTED_S)
    wanted: Any = redis.zrange(WANTED, 0, -1)
    arrays, read = [int(array) for array in wanted], Counter[int]()
    first = int(time.time()) % max(1, len(arrays))  # another one begins each time
    waiting = deque(arrays[first:] + arrays[:first])
    while waiting and time.monotonic() < until:
        array = waiting.popleft()
        tasks = list(unread(array).exclude(pk__in=done)[:AT_ONCE])
        if tasks and _read(tasks):
            done.update(task.pk for task in tasks)
            read[array] += len(tasks)
            waiting.append(array)
    for array in read:
        page_event(stream=f"job:{array}", topic="job", id=array)
    return read.total()


def unread(array: int) -> Any:
    """Return the tasks, among the array's first ones, with files kept after those that were read.

    Each has `newest`: when the last of its files was kept. Files of one tenant become visible in that order, each some time
    after its own moment: the clock of the reader says nothing of what it saw.
    """
    files = Artefact.objects.filter(NAMED, job=OuterRef("pk"), size__gt=0).order_by().values("job")
    return (
        Job.objects.filter(array_id=array, array_index__lt=MOST_TASKS)
        .annotate(newest=Subquery(files.annotate(newest=Max("kept_at")).values("newest")))
        .filter(Q(reading=None, newest__isnull=False) | Q(newest__gt=F("reading__read_at")))
        .order_by(F("reading__read_at").asc(nulls_first=True), "array_index")
    )


def _read(tasks: Sequence[Any]) -> bool:
    """Read some tasks of `unread` in one look; where that is too much, each by itself. False: nobody can look now."""
    try:
        told = _told(tasks)
    except TooCostly:
        told = {}
        for task in tasks if len(tasks) > 1 else ():
            try:
                told |= _told([task])
            except (TooCostly, Busy, StoreAway) as error:
                log.info("sweeps: task %s is not read: %s", task.number, error)
    except (Busy, StoreAway) as error:
        log.info("sweeps: later: %s", error)
        return False
    with transaction.atomic():
        TaskMetric.objects.filter(task__in=tasks).delete()
        for task in tasks:
            found = told.get(str(task.pk), {"parameters": {}, "metrics": {}})
            TaskReading.objects.update_or_create(
                task=task,
                defaults={"array_id": task.array_id, "parameters": found["parameters"], "read_at": task.newest},
            )
            TaskMetric.objects.bulk_create(
                TaskMetric(task=task, array_id=task.array_id, name=name, **values)
                for name, values in found["metrics"].items()
            )
    return True


def _told(tasks: Sequence[Job]) -> dict[str, Any]:
    rows: dict[int, dict[str, Artefact]] = defaultdict(dict)
    for row in Artefact.objects.filter(NAMED, job__in=tasks, size__gt=0).order_by("job", "path")[:MOST_ROWS]:
        rows[row.job_id][row.path] = row
    chosen = [
        (task, own[path])
        for task in tasks
        for own in (rows[task.pk],)
        for path in (
            *sorted(each for each in own if each.rpartition("/")[2] == PARAMETERS)[:1],
            *curve_files(own)[-MOST_FILES:],
        )
    ]
    if not chosen:
        return {}
    key = hashlib.sha256("\n".join(f"{row.path}\0{row.blob}" for _, row in chosen).encode()).hexdigest()[:16]
    answer = asked(
        f"sweep:{key}", "sweep", lambda: [given_of(task, row, f"{task.pk}/{row.path}") for task, row in chosen]
    )
    tasks_told: dict[str, Any] = answer["tasks"]
    return tasks_told
