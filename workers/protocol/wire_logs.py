"""Output of several jobs in one request."""

from __future__ import annotations

from typing import TypedDict

from workers.protocol.wire import OffsetCode, PartName


class LogPiece(PartName):
    stream: str
    offset: int
    data: str  # base64


class LogsBody(TypedDict):
    pieces: list[LogPiece]


class LogTaken(PartName):
    stream: str
    next_offset: int
    full: bool
    code: OffsetCode | None


class LogsAnswer(TypedDict):
    pieces: list[LogTaken]
