"""`/api/v1/jobs/{number}/logs`: an attempt's output by byte offset; `follow` waits for more, for a bounded time."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from rest_framework import serializers
from rest_framework.response import Response

from portal.api.base import ApiView
from portal.api.queries import Query
from portal.api.schema import documented, parameter, time_parameter
from portal.errors import BerthError
from portal.jobs.api import JOB_PATH, job_of
from portal.jobs.log_reading import (
    STREAMS,
    LogPart,
    log_bytes,
    log_part,
    log_sizes,
    offset_of_tail,
    offset_since,
    utf8_whole,
)
from portal.jobs.models import Job
from portal.jobs.states import FINAL

if TYPE_CHECKING:
    from rest_framework.request import Request

MAX_ANSWER_BYTES = 256 * 1024
MAX_TAIL_LINES = 10_000
MAX_OFFSET = 2**53
FOLLOW_WAIT_S, MAX_FOLLOW_WAIT_S = 10, 25
FOLLOW_PERIOD_S = 0.4
MAX_FOLLOWERS = 32
"""Each waiting reader holds a thread. One too many is answered at once and asks again from `next_offset`."""

_followers = threading.BoundedSemaphore(MAX_FOLLOWERS)


class LogSize(serializers.Serializer):
    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    stream = serializers.ChoiceField(choices=STREAMS)
    bytes = serializers.IntegerField()


class JobLogAnswer(serializers.Serializer):
    """A piece of one stream. `complete`: the attempt has ended, and `next_offset` is the end of what it wrote."""

    attempt = serializers.IntegerField(allow_null=True, help_text="Null while no attempt has begun.")
    rank = serializers.IntegerField()
    stream = serializers.CharField()
    offset = serializers.IntegerField(help_text="Of the first byte in `text`.")
    next_offset = serializers.IntegerField(help_text="Ask from here for what follows.")
    text = serializers.CharField(help_text="UTF-8; other bytes become U+FFFD.")
    complete = serializers.BooleanField()
    available = LogSize(many=True)


class JobLogsView(ApiView):
    read_scope = "jobs:read"

    @documented(
        "Read a job's output",
        answer=JobLogAnswer,
        refusals=(404,),
        parameters=(
            *JOB_PATH,
            parameter("attempt", {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}, "Missing: the last one."),
            parameter("profile", {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}, "Of that profile instead."),
            parameter("rank", {"type": "integer", "minimum": 0, "maximum": 32767, "default": 0}, "The node's number."),
            parameter("stream", {"type": "string", "enum": list(STREAMS), "default": "stdout"}),
            parameter("offset", {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET}, "Bytes to skip."),
            parameter("tail", {"type": "integer", "minimum": 1, "maximum": MAX_TAIL_LINES}, "The last lines only."),
            time_parameter("since", "What arrived at that time or later."),
            parameter("follow", {"type": "boolean"}, "Wait for more when there is nothing yet."),
            parameter("wait", {"type": "integer", "minimum": 1, "maximum": MAX_FOLLOW_WAIT_S}, "Seconds to follow."),
        ),
        operation_id="jobs_logs",
        description="At most 256 KiB an answer; go on with `offset=next_offset` until `complete`.",
    )
    def get(self, request: Request, number: str) -> Response:
        query = Query(
            request, known=("attempt", "profile", "rank", "stream", "offset", "tail", "since", "follow", "wait")
        )
        job = job_of(request, number)
        rank = query.whole("rank", 0, 0, 32767) or 0
        stream = query.choice("stream", STREAMS) or "stdout"
        offset = query.whole("offset", None, 0, MAX_OFFSET)
        tail = query.whole("tail", None, 1, MAX_TAIL_LINES)
        since = query.time("since")
        wait_s = query.whole("wait", FOLLOW_WAIT_S, 1, MAX_FOLLOW_WAIT_S) if query.flag("follow") else 0
        epoch, profile = (query.whole(name, None, 1, 2**31 - 1) for name in ("attempt", "profile"))
        if epoch is not None and profile is not None:
            raise BerthError("invalid", "Ask for an `attempt` or for a `profile`.", field="profile")
        of = {"epoch": epoch if profile is None else profile, "profile": profile is not None}
        part = log_part(job=job, rank=rank, stream=stream, **of)
        start = offset or 0
        if part is not None and offset is None:
            start = offset_since(part, since=since) if since else 0
            if tail is not None:
                start = max(start, offset_of_tail(part, lines=tail, limit=MAX_ANSWER_BYTES))
        part, data = _read(job=job, part=part, start=start, wait_s=wait_s or 0, rank=rank, stream=stream)
        return Response(_answer(job=job, part=part, start=start, data=data, rank=rank, stream=stream))


def _read(
    *, job: Job, part: LogPart | None, start: int, wait_s: int, rank: int, stream: str
) -> tuple[LogPart | None, bytes]:
    """Read from `start`; with nothing there, look again until there is, the attempt or job ends, or time is up."""
    data = _bytes(part, start)
    if data or not wait_s or not _followers.acquire(blocking=False):
        return part, data
    try:
        deadline = time.monotonic() + wait_s
        while not data and time.monotonic() < deadline and not _is_over(job, part):
            time.sleep(FOLLOW_PERIOD_S)
            part = part or log_part(job=job, epoch=None, rank=rank, stream=stream)
            data = _bytes(part, start)
        return part, data or _bytes(part, start)
    finally:
        _followers.release()


def _bytes(part: LogPart | None, start: int) -> bytes:
    return log_bytes(part, offset=start, limit=MAX_ANSWER_BYTES) if part else b""


def _is_over(job: Job, part: LogPart | None) -> bool:
    if part is None:
        return Job.objects.filter(pk=job.pk, state__in=FINAL).exists()
    part.attempt.refresh_from_db(fields=["ended_at"])
    return part.attempt.ended_at is not None


def _answer(*, job: Job, part: LogPart | None, start: int, data: bytes, rank: int, stream: str) -> dict[str, Any]:
    ended = _is_over(job, part)
    # At the end no more will come: what is left of a character is shown as it is.
    whole = data if ended and len(data) < MAX_ANSWER_BYTES else utf8_whole(data)
    end = start + len(whole)
    return {
        "attempt": part.attempt.epoch if part else None,
        "rank": rank,
        "stream": stream,
        "offset": start,
        "next_offset": end,
        "text": whole.decode("utf-8", "replace"),
        "complete": ended and (part is None or end >= part.length()),
        "available": log_sizes(job),
    }
