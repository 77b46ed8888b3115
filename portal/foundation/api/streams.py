"""Answers that are made while they are sent: a download is never held in memory as a whole."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence


PART_BYTES = 64 * 1024


class Streamed(StreamingHttpResponse):
    """A streaming answer from a plain generator, in parts of about 64 KiB.

    Under ASGI Django itself reads such a generator to its end before it sends the first byte.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = iter(self.streaming_content)
        while part := await sync_to_async(_part)(content):
            yield part


def _part(content: Iterator[bytes]) -> bytes:
    """Return the next 64 KiB or a little more; empty at the end."""
    pieces, size = [], 0
    while size < PART_BYTES and (piece := next(content, None)) is not None:
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def csv_lines(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield each row as a line; None is an empty cell."""
    line = csv.writer(_Passed())
    for row in rows:
        yield line.writerow([defused(cell) for cell in row])


class _Passed:
    """The file of the CSV writer: `writerow` returns the line."""

    @staticmethod
    def write(text: str) -> str:
        return text


def defused(cell: object) -> object:
    """Return a cell that no program for tables takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell
