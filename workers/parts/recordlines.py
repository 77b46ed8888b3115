"""Reads the records that an instrumented job wrote. A job may put anything there: junk, a link, a pipe, an endless line.

The directory holds segments named by whole numbers. An offset is `segment * SEGMENT_BYTES + byte`, so it only grows.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from workers.instrument.berth_instrument import PARTS, QUERY_EDGES_MS, ROWS, SEGMENT_BYTES
from workers.system.files import BrokenFileError, open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from workers.protocol.wire import Iterations

READ_BYTES = 256 * 1024
LINE_BYTES = 16 * 1024
RECORDS = 50
"""The most records of one part in one message."""
ENTRIES = 1000
"""Most names of a job's directory that are read."""

LONGEST_S, MOST_SAMPLES, MOST_COUNTED = 86400.0, 1e15, 2**31 - 1
COLUMNS = len(PARTS) + 1


@dataclass(slots=True)
class Found:
    """The records from an offset on. `more`: there is more to read now."""

    next_offset: int
    records: list[Iterations] = field(default_factory=list)
    dropped: int = 0
    more: bool = False


def records_read(directory: Path, offset: int) -> Found:
    """Read the records from `offset` on, of one segment. Nothing that a job can put there makes it raise."""
    segment, at = divmod(offset, SEGMENT_BYTES)
    try:
        # All files are opened below this one descriptor, so that no link of the job leads elsewhere.
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return Found(offset)
    try:
        later = sorted(number for number in _segments(folder) if number > segment)
        data = _read(str(segment), at, folder)
    finally:
        os.close(folder)
    found = _take(data, offset)
    if found.next_offset == offset and later:
        # This segment is finished. If bytes are left in it, they are half a line.
        return Found(later[0] * SEGMENT_BYTES, dropped=bool(data), more=True)
    found.more = found.more or (bool(later) and found.next_offset > offset)
    return found


def _segments(folder: int) -> list[int]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, ENTRIES)]
    except OSError:
        return []
    return [int(name) for name in names if name.isascii() and name.isdigit() and len(name) <= 9]


def _read(name: str, at: int, folder: int) -> bytes:
    """Read up to READ_BYTES from a plain file with one name; nothing from anything else. Never waits, follows no link."""
    try:
        descriptor = open_regular(name, within=folder)
    except (OSError, BrokenFileError):
        return b""
    try:
        if os.fstat(descriptor).st_nlink > 1:  # it may be another's file, linked here to be sent
            return b""
        return os.pread(descriptor, max(0, min(READ_BYTES, SEGMENT_BYTES - at)), at)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _take(data: bytes, offset: int) -> Found:
    """Take up to RECORDS whole lines. A line that is too long is dropped."""
    found, at = Found(offset), 0
    while len(found.records) < RECORDS and (end := data.find(b"\n", at)) >= 0:
        record = record_of(data[at:end])
        if record is None:
            found.dropped += 1
        else:
            found.records.append(record)
        at = end + 1
    found.more = data.find(b"\n", at) >= 0 or len(data) == READ_BYTES
    if at == 0 and len(data) > LINE_BYTES:
        found.dropped, at = 1, len(data)
    found.next_offset = offset + at
    return found


def record_of(line: bytes) -> Iterations | None:
    """Return the record in a line. None when it is no record, or when a figure is not finite or out of bounds."""
    if len(line) > LINE_BYTES:
        return None
    try:
        value = json.loads(line)
        return _check(value) if isinstance(value, dict) else None
    except (ValueError, RecursionError, KeyError, TypeError, OverflowError):
        return None


def _check(value: dict[str, Any]) -> Iterations:
    """Return the record with its figures checked. Raises KeyError, TypeError or ValueError."""
    rows = value["rows"]
    if not isinstance(rows, list) or len(rows) > ROWS:
        raise ValueError("rows")
    found: Iterations = {
        "iterations": _whole(value["iterations"], 0, MOST_COUNTED),
        "samples": _number(value["samples"], MOST_SAMPLES),
        "seconds": _number(value["seconds"], LONGEST_S),
        "done": None if value["done"] is None else _number(value["done"], MOST_SAMPLES),
        "total": None if value["total"] is None else _number(value["total"], MOST_SAMPLES),
        "saved": None if value.get("saved") is None else _number(value["saved"], MOST_SAMPLES),
        "batch": _whole(value["batch"], 1, MOST_COUNTED),
        "world": _whole(value["world"], 1, 65536),
        "parameters": None if value["parameters"] is None else _whole(value["parameters"], 0, 10**15),
        "rows": [_row(row) for row in rows],
    }
    if "queries" in value:
        found["queries"] = _queries(value["queries"])
        found["late"] = _whole(value["late"], 0, sum(found["queries"]))
    return found


def _queries(counts: Any) -> list[int]:
    if not isinstance(counts, list) or len(counts) != len(QUERY_EDGES_MS) + 1:
        raise ValueError("queries")
    return [_whole(each, 0, MOST_COUNTED) for each in counts]


def _row(row: Any) -> list[float | None]:
    if not isinstance(row, list) or len(row) != COLUMNS:
        raise ValueError("row")
    return [None if each is None else _number(each, LONGEST_S) for each in row]


def _number(value: Any, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("no number")
    if not (math.isfinite(value) and 0 <= value <= most):
        raise ValueError("out of bounds")
    return float(value)


def _whole(value: Any, least: int, most: int) -> int:
    number = _number(value, most)
    if number != int(number) or number < least:
        raise ValueError("out of bounds")
    return int(number)
