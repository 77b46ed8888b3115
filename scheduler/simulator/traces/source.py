"""A trace reader's source, options, dates and CSV rows, and the error that it raises. The caller opens the files."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from reprlib import Repr
from typing import Any

import numpy as np

from scheduler.simulator.world.truth import TracedJob

MOST_NUMBER = 1e15
"""The largest number that a trace may hold. Above it doubles lose seconds, and no cluster has as much of anything."""
MOST_GPUS = 65_536
"""The most GPUs of one job."""
MOST_SIZES = 64
"""The most sizes in one job's requirement set."""
SHOWN_CHARS = 60


def shown(value: object) -> str:
    """A value as an error message shows it: cut, and without characters that cannot be printed."""
    return _CUT.repr(value)


def listed(names: Iterable[str]) -> str:
    """Names as an error message shows them: the first of them, each cut."""
    found = list(names)
    told = ", ".join(name[:SHOWN_CHARS] for name in found[:20])
    return f"{told} and {len(found) - 20} more" if len(found) > 20 else told


_CUT = Repr()
_CUT.maxlevel, _CUT.maxstring, _CUT.maxother, _CUT.maxlong = 2, SHOWN_CHARS, SHOWN_CHARS, SHOWN_CHARS


class TraceError(ValueError):
    """A trace that cannot be read: its file, line (from 1) and column (a name or a number), and the fault."""

    def __init__(self, file: str, line: int | None, column: str | None, detail: str) -> None:
        self.file, self.line, self.column, self.detail = file, line, column, detail
        where = "".join((f", line {line}" if line else "", f", column {column}" if column else ""))
        super().__init__(f"{file}{where}: {detail}")

    def __reduce__(self) -> tuple[type[TraceError], tuple[str, int | None, str | None, str]]:
        return TraceError, (self.file, self.line, self.column, self.detail)  # it crosses from one process to another


@dataclass(frozen=True, slots=True)
class Source:
    """A trace's text, line by line, and its companions (profiles, throughputs) by their path relative to the folder given."""

    name: str
    lines: Iterable[str]
    companion: Callable[[str], Iterable[str] | None] = lambda _: None
    tenants: dict[str, int] = field(default_factory=dict)  # name -> number; readers of traces that name them add to it
    people: dict[str, int] = field(default_factory=dict)

    def tenant(self, name: str) -> int:
        """The tenant's number: those given come first, others are numbered in the order in which the trace names them."""
        return self.tenants.setdefault(name, len(self.tenants) + 1)

    def person(self, name: str) -> int:
        """The number of the person who submitted a job, by the names of tenant and person. No tenant has this number."""
        return self.people.setdefault(name, 1_000_001 + len(self.people))


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Format:
    """A trace format: `read` streams its jobs in the file's order; the simulation sorts them by arrival.

    `options`: name -> meaning (for example how tenants are assigned where it has none). `dated`: its times count from 1970; the
    simulation makes the first arrival 0.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    read: Callable[[Source, Mapping[str, str]], Iterator[TracedJob]]
    companions: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    dated: bool = False


GPU_SPEEDS = "relative speeds of GPU types, as A100=2,T4=0.5 (the cluster's, unless given); a type not named has 1"
CORES = "CPU cores that a job wants per GPU where the trace does not say; default 1"
MOVABLE = "no (default): jobs run to their end; yes: they may be stopped and go on later"


class Choices:
    """Check that the format has these options; TraceError for one that it does not have."""

    def __init__(self, file: str, options: Mapping[str, str], known: Mapping[str, str]) -> None:
        self._file, self._options = file, options
        if unknown := sorted(set(options) - set(known)):
            raise TraceError(file, None, None, f"there is no option {unknown[0]!r}; the options are {', '.join(known)}")

    def _wrong(self, name: str, detail: str) -> TraceError:
        return TraceError(self._file, None, None, f"option {name}: {self._options[name]!r} {detail}")

    def word(self, name: str, *words: str) -> str:
        """One of the words; the first where nothing is said."""
        word = self._options.get(name, words[0])
        if word not in words:
            raise self._wrong(name, f"is not one of {', '.join(words)}")
        return word

    def whole(self, name: str, default: int) -> int:
        """A whole number of 1 or more."""
        text = self._options.get(name, str(default))
        if not (text.isdecimal() and text.isascii() and len(text) <= 9 and int(text) >= 1):
            raise self._wrong(name, "is not a whole number of 1 or more")
        return int(text)

    def speeds(self) -> dict[str, float]:
        """The option `gpu_speeds`."""
        found: dict[str, float] = {}
        for part in filter(None, self._options.get("gpu_speeds", "").split(",")):
            name, _, text = part.partition("=")
            try:
                speed = float(text)
            except ValueError:
                speed = math.nan
            if not (math.isfinite(speed) and speed > 0):
                raise self._wrong("gpu_speeds", f"is not a list like A100=2,T4=0.5: {part!r} gives no speed above 0")
            found[name.strip()] = speed
        return found


_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")


_ZONE = re.compile(r"(?:Z|([+-])(0\d|1[0-4]):?([0-5]\d))\Z", re.ASCII)


def moment_of(text: str) -> tuple[float, bool] | None:
    """Return a date's seconds, of Greenwich where it names its zone, and whether it does; None when it is no such date."""
    zone = _ZONE.search(text)
    seconds = seconds_of(text[: zone.start()] if zone else text)
    if seconds is None or zone is None or zone[1] is None:
        return None if seconds is None else (seconds, zone is not None)
    ahead_s = int(zone[2]) * 3600 + int(zone[3]) * 60
    return seconds - (ahead_s if zone[1] == "+" else -ahead_s), True


def seconds_of(text: str) -> float | None:
    """The seconds of a date without a zone, `2017-10-09 07:01:55`, with a blank or a T between; None when it is no such date."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return float(np.datetime64(text, "ms").astype(np.int64)) / 1000.0
    except ValueError:
        return None


def number_read(
    value: Any, wrong: Callable[[str], TraceError], *, least: float, most: float = MOST_NUMBER, above: bool = False
) -> float:
    """A number from `least` (or `above` it) to `most`; else what `wrong` makes of a sentence is raised."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        found = math.nan
    if not least <= found <= most or (above and found == least):
        raise wrong(f"{shown(value)} is not a number {'above' if above else 'from'} {least:g} to {most:g}")
    return found


def whole_read(value: Any, wrong: Callable[[str], TraceError], *, least: float, most: float = MOST_NUMBER) -> int:
    """The same, of whole numbers."""
    found = number_read(value, wrong, least=least, most=most)
    if found != int(found):
        raise wrong(f"{shown(value)} is not a whole number")
    return int(found)


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
        return number_read(self.text(column), partial(self.wrong, column), least=least, above=above, most=most)

    def whole(self, column: str, *, least: int = 1, most: float = MOST_NUMBER) -> int:
        return whole_read(self.text(column), partial(self.wrong, column), least=least, most=most)


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
