"""Rows of a CSV file with a header, read one by one. Each error names file, line and column."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.simulator.traces.source import MOST_NUMBER, TraceError, listed, shown


@dataclass(frozen=True, slots=True)
class Row:
    file: str
    line: int
    values: Mapping[str, str]

    def wrong(self, column: str, detail: str) -> TraceError:
        return TraceError(self.file, self.line, column, detail)

    def text(self, column: str) -> str:
        """The text of the cell; TraceError if it is empty."""
        value = self.values[column].strip()
        if not value:
            raise self.wrong(column, "it is empty")
        return value

    def number(self, column: str, *, least: float = 0.0, above: bool = False, most: float = MOST_NUMBER) -> float:
        """A number from `least` (or `above` it) to `most`."""
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most or (above and value == least):
            raise self.wrong(
                column, f"{shown(text)} is not a number {'above' if above else 'from'} {least:g} to {most:g}"
            )
        return value

    def whole(self, column: str, *, least: int = 1, most: float = MOST_NUMBER) -> int:
        """A whole number from `least` to `most`."""
        value = self.number(column, least=least, most=most)
        if value != int(value):
            raise self.wrong(column, f"{shown(self.text(column))} is not a whole number")
        return int(value)


def rows(file: str, lines: Iterable[str], columns: Sequence[str]) -> Iterator[Row]:
    """The rows, streamed. The header must name `columns`, in any order and among others; blank lines are passed over."""
    reader = csv.reader(lines)
    try:
        header = _header(file, next(reader, None), columns)
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                detail = f"{len(values)} values; the header names {len(header)} columns"
                raise TraceError(file, reader.line_num, header[min(len(values), len(header) - 1)], detail)
            yield Row(file, reader.line_num, dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise csv_error(file, reader.line_num, error) from error


def _header(file: str, first: Sequence[str] | None, columns: Sequence[str]) -> list[str]:
    if first is None:
        raise TraceError(file, 1, None, f"the file is empty; its first line names the columns {', '.join(columns)}")
    header = [name.strip().lstrip("\ufeff") for name in first]
    for name in columns:
        if name not in header:
            raise TraceError(file, 1, name, f"there is no such column; the columns are {listed(header)}")
    return header


def csv_error(file: str, line: int, error: csv.Error) -> TraceError:
    """The error of the CSV reader in words: a field that is too long, or text that is no CSV."""
    if "field limit" in str(error):
        limit = csv.field_size_limit() // 1024
        detail = f"a field is longer than {limit} KiB; is a quotation mark left open, or is this another format?"
        return TraceError(file, line, None, detail)
    return TraceError(file, line, None, f"is not CSV: {error}")
