"""The last lines of a job that failed, as its page shows them: on the part that failed, of errors where it printed any."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from portal.work.jobs.log_lines import Cutter, line_shown
from portal.work.jobs.log_reading import STREAMS, LogPart

if TYPE_CHECKING:
    from portal.work.jobs.models import Attempt

TAIL_BYTES, PIECES = 16 * 1024, 64
LINE_CHARS = 400
SHOWN = 10
_FOLDER = re.compile(r"/[^\s\"']{1,300}/jobs/[0-9a-f]{32}-[0-9]{1,9}-[0-9]{1,6}/work/")
"""The job's own folder on its node: nobody but its node needs that path."""


def last_lines(attempt: Attempt) -> list[str]:
    """Return the last lines of an attempt's errors, or of its output where it printed no errors; [] without any.

    Of several nodes those of the first whose part ended badly. The last pieces of a stream are read, until they have
    `TAIL_BYTES`. At most two queries.
    """
    parts = sorted(attempt.allocations.all(), key=lambda part: (not (part.exit_code or part.signal), part.rank))
    rank = parts[0].rank if parts else 0
    for stream in reversed(STREAMS):
        cutter = Cutter()
        cuts = list(cutter.cut(_tail(LogPart(attempt, rank, stream))))
        shown = [line_shown(cut.data) for cut in cuts if not cut.redrawn]
        found = [_FOLDER.sub("", line.rstrip()[:LINE_CHARS]) for line in [*shown, line_shown(cutter.rest)]]
        if any(found):
            while not found[-1]:
                found.pop()
            return found
    return []


def _tail(part: LogPart) -> bytes:
    """Return the last bytes of a stream, from the beginning of a line on where one is among them. One query."""
    data = b""
    for piece in part.chunks.order_by("-offset").values_list("data", flat=True)[:PIECES].iterator(chunk_size=2):
        data = bytes(piece) + data
        if len(data) >= TAIL_BYTES:
            data = data[-TAIL_BYTES:]
            return data[data.find(b"\n") + 1 :]
    return data
