"""`/api/v1/jobs/{number}/logs`: an attempt's output, both streams or one; `follow` waits for more, for a bounded time.

An answer says in `next` where to go on. Of one stream that is a byte offset, of both a `portal.work.jobs.log_reading.Cursor`. One
stream comes byte by byte as the job wrote it; both come as the lines that a person sees.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rest_framework import serializers
from rest_framework.response import Response

from portal.foundation.api.base import ApiView, Query
from portal.foundation.api.schema import documented, parameter, time_parameter
from portal.foundation.errors import BerthError
from portal.work.jobs.api.jobs import JOB_PATH, job_again, job_of
from portal.work.jobs.log_lines import line_shown, utf8_whole
from portal.work.jobs.log_reading import (
    STREAMS,
    BothStreams,
    Cursor,
    LogPart,
    Look,
    log_bytes,
    log_part,
    log_sizes,
    offset_of_tail,
    offset_since,
)
from portal.work.jobs.models import Job
from portal.work.jobs.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from rest_framework.request import Request

    from portal.work.jobs.models import Attempt


MAX_ANSWER_BYTES = 256 * 1024
MAX_TAIL_LINES = 10_000
MAX_OFFSET = 2**53
FOLLOW_WAIT_S, MAX_FOLLOW_WAIT_S = 10, 25
FOLLOW_PERIOD_S = 0.4
RIGHTS_S = 3.0
"""The time after which a follower's right is checked again."""
MAX_FOLLOWERS = 16
"""Each waiting reader holds a thread, of which one address has 32 at most. One too many is answered at once and asks again
from `next_offset`.
"""

_followers = threading.BoundedSemaphore(MAX_FOLLOWERS)


class LogSize(serializers.Serializer):
    attempt = serializers.IntegerField()
    rank = serializers.IntegerField()
    stream = serializers.ChoiceField(choices=STREAMS)
    bytes = serializers.IntegerField()


class OpenLine(serializers.Serializer):
    stream = serializers.ChoiceField(choices=STREAMS)
    text = serializers.CharField()


class JobLogAnswer(serializers.Serializer):
    """A piece of the output. `complete`: the attempt has ended, and this is the end of what it wrote."""

    attempt = serializers.IntegerField(allow_null=True, help_text="Null while no attempt has begun.")
    rank = serializers.IntegerField()
    stream = serializers.ChoiceField(choices=(*STREAMS, "both"))
    text = serializers.CharField(help_text="The output, as UTF-8. Bytes that are none become U+FFFD.")
    open = OpenLine(
        many=True,
        help_text="Of both streams: lines that have not ended, as they stand. They come again with their rest.",
    )
    next = serializers.CharField(help_text="Send this as `cursor` to get what follows.")
    offset = serializers.IntegerField(
        allow_null=True,
        help_text="Where the first byte of `text` stands in the stream. Null when both streams were asked for.",
    )
    next_offset = serializers.IntegerField(
        allow_null=True,
        help_text="Where the first byte after `text` stands in the stream. Null when both streams were asked for.",
    )
    complete = serializers.BooleanField()
    available = LogSize(many=True)


KNOWN = ("attempt", "profile", "rank", "stream", "cursor", "offset", "tail", "since")


@dataclass(frozen=True, slots=True)
class Asked:
    """The output that is asked for, and from which position. `stream` None: both streams."""

    job: Job
    epoch: int | None
    profile: bool
    rank: int
    stream: str | None
    cursor: str | None
    tail: int | None
    since: datetime | None

    def part(self) -> LogPart | None:
        stream = self.stream or STREAMS[0]
        return log_part(job=self.job, epoch=self.epoch, rank=self.rank, stream=stream, profile=self.profile)

    @classmethod
    def of(cls, query: Query, job: Job) -> Asked:
        """Read KNOWN parameters. Raises BerthError with the name of the wrong one."""
        epoch, profile = (query.whole(name, None, 1, 2**31 - 1) for name in ("attempt", "profile"))
        if epoch is not None and profile is not None:
            raise BerthError("invalid", "Ask for an `attempt` or for a `profile`.", field="profile")
        stream, cursor = query.choice("stream", STREAMS), query.text("cursor", max_chars=40)
        offset = query.whole("offset", None, 0, MAX_OFFSET)
        if offset is not None and stream is None:
            detail = "An offset counts the bytes of one stream: name the `stream`, or go on with `cursor`."
            raise BerthError("invalid", detail, field="offset")
        if offset is not None and cursor is not None:
            raise BerthError("invalid", "Send `cursor` or `offset`, not both.", field="cursor")
        return cls(
            job=job,
            epoch=epoch if profile is None else profile,
            profile=profile is not None,
            rank=query.whole("rank", 0, 0, 32767) or 0,
            stream=stream,
            cursor=cursor if offset is None else str(offset),
            tail=query.whole("tail", None, 1, MAX_TAIL_LINES),
            since=query.time("since"),
        )


class Reading(ABC):
    """Reads output from position `at`. `attempt` None: no attempt has begun."""

    attempt: Attempt | None

    @abstractmethod
    def read(self, *, ended: bool) -> bool:
        """Read the next piece, and say whether anything is new. `told` then describes it."""

    @abstractmethod
    def told(self) -> dict[str, Any]:
        """Return `text, open, next, offset, next_offset`."""

    @abstractmethod
    def at_end(self) -> bool:
        """Say whether nothing more is stored."""


class OneStream(Reading):
    def __init__(self, asked: Asked) -> None:
        self._part = part = asked.part()
        self.attempt = part.attempt if part else None
        self._start = 0
        if asked.cursor is not None:
            if not (asked.cursor.isascii() and asked.cursor.isdigit() and int(asked.cursor) <= MAX_OFFSET):
                raise BerthError(
                    "invalid", "Send the `next` of the last answer for this stream unchanged.", field="cursor"
                )
            self._start = int(asked.cursor)
        elif part is not None:
            self._start = offset_since(part, since=asked.since) if asked.since else 0
            if asked.tail is not None:
                self._start = max(self._start, offset_of_tail(part, lines=asked.tail, limit=MAX_ANSWER_BYTES))
        self._end, self._data = self._start, b""

    def read(self, *, ended: bool) -> bool:
        data = log_bytes(self._part, offset=self._start, limit=MAX_ANSWER_BYTES) if self._part else b""
        # At the end no more will come: the rest of a character is shown as it is.
        self._data = data if ended and len(data) < MAX_ANSWER_BYTES else utf8_whole(data)
        self._end = self._start + len(self._data)
        return bool(self._data)

    def told(self) -> dict[str, Any]:
        text = self._data.decode("utf-8", "replace")
        return {"text": text, "open": [], "next": str(self._end), "offset": self._start, "next_offset": self._end}

    def at_end(self) -> bool:
        return self._part is None or self._end >= self._part.length()


class TwoStreams(Reading):
    def __init__(self, asked: Asked) -> None:
        part, self._tail = asked.part(), asked.tail
        self.attempt = part.attempt if part else None
        self._both = BothStreams(part.attempt, asked.rank) if part else None
        self._start = Cursor()
        if asked.cursor is not None:
            self._start, self._tail = Cursor.of(asked.cursor), None
        elif self._both is not None and asked.since:
            self._start = self._both.since(asked.since)
        self._look = Look(self._start.offsets())

    def read(self, *, ended: bool) -> bool:
        if self._both is None:
            return False
        limit = MAX_ANSWER_BYTES
        if self._tail is not None:
            self._look = self._both.tail(self._start, lines=self._tail, limit=limit, flush=ended)
        else:
            self._look = self._both.read(self._start, limit=limit, flush=ended)
        return self._look.end != self._start

    def told(self) -> dict[str, Any]:
        unended = [{"stream": line.stream, "text": line_shown(line.cut.data)} for line in self._look.open]
        end = str(self._look.end)
        return {"text": self._look.text(), "open": unended, "next": end, "offset": None, "next_offset": None}

    def at_end(self) -> bool:
        return self._both is None or self._look.end == self._both.end()


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
            parameter("stream", {"type": "string", "enum": list(STREAMS)}, "Missing: both, line by line as they came."),
            parameter("cursor", {"type": "string", "maxLength": 40}, "`next` of the answer before."),
            parameter(
                "offset", {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET}, "Bytes of the `stream` to skip."
            ),
            parameter("tail", {"type": "integer", "minimum": 1, "maximum": MAX_TAIL_LINES}, "The last lines only."),
            time_parameter("since", "What arrived at that time or later."),
            parameter("follow", {"type": "boolean"}, "Wait for more when there is nothing yet."),
            parameter("wait", {"type": "integer", "minimum": 1, "maximum": MAX_FOLLOW_WAIT_S}, "Seconds to follow."),
        ),
        operation_id="jobs_logs",
        description="At most 256 KiB an answer; go on with `cursor=next` until `complete`. One stream comes as it was "
        "written. Both come as lines that a terminal would show; one that has not ended is in `open`.",
    )
    def get(self, request: Request, number: str) -> Response:
        query = Query(request, known=(*KNOWN, "follow", "wait"))
        asked = Asked.of(query, job_of(request, number))
        wait_s = query.whole("wait", FOLLOW_WAIT_S, 1, MAX_FOLLOW_WAIT_S) if query.flag("follow") else 0
        reading = reading_of(asked)
        ended = _is_over(asked.job, reading.attempt)
        is_new = reading.read(ended=ended)
        if not is_new and wait_s and not ended and _followers.acquire(blocking=False):
            try:
                reading, ended = _followed(asked, reading, wait_s, rights=lambda: job_again(request, number))
            finally:
                _followers.release()
        return Response(_piece(asked, reading, ended=ended) | {"available": log_sizes(asked.job)})


def reading_of(asked: Asked) -> Reading:
    """Return the reader. Raises BerthError for a cursor that is none, NotFound for an attempt or node that is none."""
    return OneStream(asked) if asked.stream else TwoStreams(asked)


def piece_next(asked: Asked) -> tuple[dict[str, Any], bool, Asked]:
    """Return the piece that there is by now, whether it has anything new, and what to ask for after it."""
    reading = reading_of(asked)
    ended = _is_over(asked.job, reading.attempt)
    is_new = reading.read(ended=ended)
    piece = _piece(asked, reading, ended=ended)
    if reading.attempt is None:
        return piece, is_new, asked
    return piece, is_new, replace(asked, epoch=reading.attempt.epoch, cursor=piece["next"], tail=None, since=None)


def _followed(asked: Asked, reading: Reading, wait_s: int, *, rights: Callable[[], object]) -> tuple[Reading, bool]:
    """Look again until there is something, the attempt or job ends, or time is up. Raises what `rights` raises."""
    checked, is_new, ended = time.monotonic(), False, False
    deadline = checked + wait_s
    while not is_new and not ended and time.monotonic() < deadline:
        time.sleep(FOLLOW_PERIOD_S)
        if time.monotonic() - checked > RIGHTS_S:
            checked = time.monotonic()
            rights()
        if reading.attempt is None:
            reading = reading_of(asked)
        ended = _is_over(asked.job, reading.attempt)
        is_new = reading.read(ended=ended)
    return reading, ended


def _is_over(job: Job, attempt: Attempt | None) -> bool:
    if attempt is None:
        return Job.objects.filter(pk=job.pk, state__in=FINAL).exists()
    attempt.refresh_from_db(fields=["ended_at"])
    return attempt.ended_at is not None


def _piece(asked: Asked, reading: Reading, *, ended: bool) -> dict[str, Any]:
    return {
        "attempt": reading.attempt.epoch if reading.attempt else None,
        "rank": asked.rank,
        "stream": asked.stream or "both",
        **reading.told(),
        "complete": ended and reading.at_end(),
    }
