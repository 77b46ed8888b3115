"""Tables: the first rows and columns of CSV, TSV and lines of JSON, in the order in which they stand."""

from __future__ import annotations

import csv
import json
from itertools import islice
from typing import Any

from portal.work.previews.shown import Source, Table, Unreadable, cut
from portal.work.previews.texts import decoded, parsed

MOST_TABLE_BYTES = 256 * 1024
MOST_ROWS = 100
MOST_COLUMNS = 24


def table_preview(source: Source, *, delimiter: str) -> Table:
    """Return the first rows of a file of separated values; its first row is the head. Raises Unreadable."""
    text, more = _text(source)
    try:
        lines = (line + "\n" for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
        rows = list(islice(csv.reader(lines, delimiter=delimiter), MOST_ROWS + 2))
    except csv.Error as error:
        raise Unreadable("a row or a cell of it is too long for a table") from error
    rows = [row for row in rows if row]
    if not rows:
        raise Unreadable("it has no rows")
    return _table(rows[0], rows[1:], more=more)


def records_preview(source: Source) -> Table:
    """Return lines of JSON objects as a table of their names, first seen first. Raises Unreadable."""
    text, more = _text(source)
    records: list[dict[str, Any]] = []
    for line in islice((line for line in text.split("\n") if line.strip()), MOST_ROWS + 1):
        record = parsed(line, strict=False)
        if not isinstance(record, dict):
            raise Unreadable("a line of it is no JSON object")
        records.append(record)
    if not records:
        raise Unreadable("it has no rows")
    names = list(dict.fromkeys(name for record in records for name in record))
    few = names[: MOST_COLUMNS + 1]
    rows = [[_cell(record[name]) if name in record else "" for name in few] for record in records]
    return _table(names, rows, more=more)


def _text(source: Source) -> tuple[str, bool]:
    data = source.at(0, MOST_TABLE_BYTES)
    more = source.size > len(data)
    text, _ = decoded(data, cut=more)
    if more and "\n" in text:
        text = text[: text.rindex("\n")]
    return text, more


def _table(head: list[str], rows: list[list[str]], *, more: bool) -> Table:
    rests = []
    if more or len(rows) > MOST_ROWS:
        rests.append(f"the first {min(len(rows), MOST_ROWS)} rows")
    if (columns := max(len(head), *(len(row) for row in rows), 0)) > MOST_COLUMNS:
        rests.append(f"{MOST_COLUMNS} of {columns} columns")
    return Table(
        [cut(name, 60) for name in head[:MOST_COLUMNS]],
        [[cut(cell) for cell in row[:MOST_COLUMNS]] for row in rows[:MOST_ROWS]],
        f"Shown are {' and '.join(rests)}. Download the file for the rest." if rests else None,
    )


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
