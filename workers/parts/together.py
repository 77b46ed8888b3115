"""Output of several jobs, gathered for one request: a little of each, so that none fills it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from workers.parts.part import Part
    from workers.protocol.wire import LogPiece

PIECE_BYTES = 16 * 1024
"""A stream with more news than this goes by requests of its own."""
MOST_PIECES = 64
"""In one request (docs/agent-protocol.md)."""


@dataclass(slots=True)
class News:
    """Bytes of one stream of a part. `taken`: the portal has all of them."""

    part: Part
    stream: str
    offset: int
    data: bytes
    taken: bool = False

    def to_wire(self) -> LogPiece:
        data = base64.b64encode(self.data).decode()
        return {
            "attempt": self.part.attempt,
            "epoch": self.part.epoch,
            "rank": self.part.rank,
            "stream": self.stream,
            "offset": self.offset,
            "data": data,
        }


@dataclass(slots=True)
class Heard:
    """The output of one part. `ended`: it had ended before the reading. `loud`: too much for a common request."""

    part: Part
    ended: bool
    news: list[News] = field(default_factory=list)
    loud: bool = False
    again: bool = False
    """`again`: it could not be read now."""

    @property
    def is_done(self) -> bool:
        return self.ended and not (self.loud or self.again) and all(news.taken for news in self.news)


def requests_of(heard: Iterable[Heard], most_bytes: int) -> Iterator[list[News]]:
    """Yield the pieces of each request: all that is not loud, in order, within both limits."""
    request: list[News] = []
    size = 0
    for news in (news for each in heard if not each.loud for news in each.news):
        if request and (len(request) == MOST_PIECES or size + len(news.data) > most_bytes):
            yield request
            request, size = [], 0
        request.append(news)
        size += len(news.data)
    if request:
        yield request
