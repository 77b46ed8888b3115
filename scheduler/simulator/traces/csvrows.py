"""Rows of a CSV with a header, read one by one; every complaint names file, line and column."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.simulator.traces.source import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Row:
    file: str
    line: int
    values: Mapping[str, str]

    def wrong(self, column: str, detail: str) -> TraceError:
        return TraceError(self.file, self.line, column, detail)

    def text(self, column: str) -> str:
        """What stands there. TraceError when nothing does."""
        value = self.values[column].strip()
        if not value:
            raise self.wrong(column, "nothing stands there")
        return value

    def number(self, column: str, *, least: float = 0.0, above: bool = False) -> float:
        """A finite number from `least` on, or `above` it."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < least or (above and value == least):
            raise self.wrong(column, f"{text!r} is not a number {'above' if above else 'from'} {least:g}")
        return value

    def whole(self, column: str, *, least: int = 1) -> int:
        """A whole number from `least` on."""
        value = self.number(column, least=least)
        if value != int(value):
            raise self.wrong(column, f"{self.text(column)!r} is not a whole number")
        return int(value)


def rows(file: str, lines: Iterable[str], columns: Sequence[str]) -> Iterator[Row]:
    """The rows, streamed. The header must name `columns`, in any order and among others; blank lines are passed over."""
    reader = csv.reader(lines)
    header = next(reader, None)
    if header is None:
        raise TraceError(file, 1, None, f"the file is empty; its first line names the columns {', '.join(columns)}")
    header = [name.strip().lstrip("\ufeff") for name in header]
    for name in columns:
        if name not in header:
            raise TraceError(file, 1, name, f"there is no such column; there are {', '.join(header)}")
    try:
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                detail = f"{len(values)} values; the header names {len(header)} columns"
                raise TraceError(file, reader.line_num, header[min(len(values), len(header) - 1)], detail)
            yield Row(file, reader.line_num, dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise TraceError(file, reader.line_num, None, f"is not CSV: {error}") from error
