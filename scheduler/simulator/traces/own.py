"""Berth's own traces: one job a line, as CSV or as JSON Lines, with the same fields. `./berth trace` writes them.

They hold for each job what its tenant asked for, and one run: how long it took, on how many GPUs of which type.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from scheduler.model import Job
from scheduler.simulator.traces.source import (
    GPU_SPEEDS,
    MOST_GPUS,
    MOST_NUMBER,
    MOST_SIZES,
    Choices,
    Column,
    Format,
    Source,
    TraceError,
    csv_error,
    listed,
    number_read,
    shown,
    whole_read,
)
from scheduler.simulator.world.laws import law_of
from scheduler.simulator.world.truth import TracedJob

COLUMNS = (
    Column("submitted_s", "s", "arrival since the beginning of the trace"),
    Column("tenant", "", "whose job it is: a name"),
    Column("gpus", "GPUs", "the counts that it accepts, in CSV separated by blanks: `1 2 4`; `0` = a CPU job"),
    Column("duration_s", "s", "how long it runs on `ran_gpus` GPUs of the type `ran_on`; above 0"),
    Column("name", "", "optional"),
    Column("owner", "", "who of the tenant submitted it; optional"),
    Column("cores", "cores", "wanted per GPU, of a CPU job in all; optional, 1"),
    Column("memory_mib", "MiB", "in all; optional, 0"),
    Column("gpu_types", "", "those that it may use, separated by blanks; optional, any"),
    Column("ran_gpus", "GPUs", "optional, the smallest of `gpus`"),
    Column("ran_on", "", "a GPU type; optional, one of relative speed 1"),
    Column("category", "", "cv, nlp, speech, cpu or other; optional"),
    Column("model_label", "", "jobs with the same one have the same speed; optional"),
    Column("expected_duration_s", "s", "what the tenant said that it would take; optional"),
    Column("priority", "", "among the tenant's own jobs, -100 to 100; optional, 0"),
    Column("movable", "yes or no", "may be stopped and go on later; JSON: true or false; optional, no"),
)
REQUIRED = ("submitted_s", "tenant", "gpus", "duration_s")
NAMES = tuple(column.name for column in COLUMNS)
OPTIONS = {"gpu_speeds": GPU_SPEEDS}

_WORDS = {"yes": True, "true": True, "no": False, "false": False}


def read_csv(source: Source, options: Mapping[str, str]) -> Iterator[TracedJob]:
    """The header names the columns, in any order."""
    speeds = Choices(source.name, options, OPTIONS).speeds()
    reader = csv.reader(source.lines, strict=True)
    try:
        header = [name.strip().lstrip("\ufeff") for name in next(reader, [])]
        _check_header(source.name, header)
        numbers = count(1)
        for values in reader:
            if not values:
                continue
            if len(values) != len(header):
                detail = f"{len(values)} values; the header names {len(header)} columns"
                raise TraceError(source.name, reader.line_num, header[min(len(values), len(header) - 1)], detail)
            given = {name: text for name, value in zip(header, values, strict=True) if (text := value.strip())}
            yield _Row(source, reader.line_num, given).job(next(numbers), speeds)
    except csv.Error as error:
        raise csv_error(source.name, reader.line_num, error) from error


def _check_header(file: str, header: Sequence[str]) -> None:
    for name in REQUIRED:
        if name not in header:
            there = listed(header) or "none"
            raise TraceError(file, 1, name, f"the first line names no such column; it names {there}")
    for name in header:
        if name not in NAMES:
            raise TraceError(file, 1, name[:60], f"there is no such column; the columns are {', '.join(NAMES)}")
        if header.count(name) > 1:
            raise TraceError(file, 1, name, "the first line names this column twice")


def read_json_lines(source: Source, options: Mapping[str, str]) -> Iterator[TracedJob]:
    """One object a line; lists where CSV has blanks between."""
    speeds = Choices(source.name, options, OPTIONS).speeds()
    numbers = count(1)
    for line, text in enumerate(source.lines, start=1):
        if not text.strip():
            continue
        try:
            given = json.loads(text)
            json.dumps(given, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise TraceError(
                source.name, line, None, "a text holds half of a surrogate pair, as \\ud800; leave it out"
            ) from error
        except (ValueError, RecursionError) as error:
            at = str(getattr(error, "colno", ""))
            raise TraceError(source.name, line, at, "the line is not a JSON object") from error
        if not isinstance(given, dict):
            raise TraceError(source.name, line, None, "the line is not a JSON object")
        if unknown := sorted(set(given) - set(NAMES)):
            raise TraceError(
                source.name, line, unknown[0][:60], f"there is no such field; there are {', '.join(NAMES)}"
            )
        present = {name: value for name, value in given.items() if value is not None}
        yield _Row(source, line, present).job(next(numbers), speeds)


class _Row:
    """The fields of a line by name, without the empty ones. Each is checked when it is read."""

    def __init__(self, source: Source, line: int, given: Mapping[str, Any]) -> None:
        self._source, self._line, self._given = source, line, given

    def wrong(self, column: str, detail: str) -> TraceError:
        return TraceError(self._source.name, self._line, column, detail)

    def _needed(self, column: str) -> Any:
        if column not in self._given:
            raise self.wrong(column, "it is empty")
        return self._given[column]

    def text(self, column: str) -> str | None:
        value = self._given.get(column)
        if value is not None and not isinstance(value, str):
            raise self.wrong(column, f"{shown(value)} is not text")
        return value

    def number(self, column: str, *, least: float = 0.0, above: bool = False, most: float = MOST_NUMBER) -> float:
        return number_read(self._needed(column), partial(self.wrong, column), least=least, above=above, most=most)

    def whole(self, column: str, default: int, *, least: int = 0, most: float = MOST_NUMBER) -> int:
        if column not in self._given:
            return default
        return whole_read(self._given[column], partial(self.wrong, column), least=least, most=most)

    def items(self, column: str) -> list[Any]:
        value = self._given.get(column, [])
        if isinstance(value, str):
            return value.split()
        return value if isinstance(value, list) else [value]

    def names(self, column: str) -> list[str]:
        found = self.items(column)
        if len(found) > MOST_SIZES or not all(isinstance(item, str | int) for item in found):
            raise self.wrong(column, f"{shown(self._given[column])} is not a list of at most {MOST_SIZES} names")
        return [str(item) for item in found]

    def yes(self, column: str) -> bool:
        value = self._given.get(column, False)
        found = value if isinstance(value, bool) else _WORDS.get(str(value).lower())
        if found is None:
            raise self.wrong(column, f"{shown(value)} is neither yes nor no")
        return found

    def requirement(self) -> tuple[int, ...]:
        self._needed("gpus")
        items = self.items("gpus")
        try:
            sizes = tuple(int(str(item)) for item in items[: MOST_SIZES + 1])
        except ValueError:
            sizes = ()
        if not sizes or list(sizes) != sorted(set(sizes)) or sizes[0] < 0 or (sizes[0] == 0 and len(sizes) > 1):
            detail = f"{shown(self._given['gpus'])} is neither 0 nor whole numbers from 1 on, each larger than the one before"
            raise self.wrong("gpus", detail)
        if len(sizes) > MOST_SIZES or sizes[-1] > MOST_GPUS:
            raise self.wrong("gpus", f"at most {MOST_SIZES} counts, each at most {MOST_GPUS}")
        return sizes

    def job(self, number: int, speeds: Mapping[str, float]) -> TracedJob:
        sizes, tenant, duration_s = self.requirement(), self.text("tenant"), self.number("duration_s", above=True)
        if not tenant:
            raise self.wrong("tenant", "it is empty")
        ran_gpus = self.whole("ran_gpus", sizes[0], most=MOST_GPUS)
        if (ran_gpus == 0) != (sizes[0] == 0):
            raise self.wrong("ran_gpus", f"{ran_gpus} does not go with gpus {shown(self._given['gpus'])}")
        owner, expected = self.text("owner"), "expected_duration_s"
        job = Job(
            id=number,
            tenant=self._source.tenant(tenant),
            requirement=sizes,
            submitted_s=self.number("submitted_s"),
            gpu_types=frozenset(self.names("gpu_types")),
            cores=self.whole("cores", 1, least=1),
            memory_mib=self.whole("memory_mib", 0),
            priority=self.whole("priority", 0, least=-100, most=100),
            owner=None if owner is None else self._source.person(f"{tenant}/{owner}"),
            category=self.text("category"),
            model_label=self.text("model_label"),
            expected_duration_s=self.number(expected, above=True) if expected in self._given else None,
            movable=self.yes("movable"),
        )
        law = law_of(ran_gpus, self.text("ran_on"), speeds, elastic=sizes != (ran_gpus,))
        return TracedJob(job, duration_s, law, name=self.text("name") or "")


CSV = Format(
    "berth-csv",
    "Berth's own, as CSV whose first line names the columns, in any order: `submitted_s,tenant,gpus,duration_s`, then for "
    "example `0,vision,1 2 4,3600`",
    COLUMNS,
    read_csv,
    options=OPTIONS,
)
JSON_LINES = Format(
    "berth-jsonl",
    'Berth\'s own, as JSON Lines: `{"submitted_s": 0, "tenant": "vision", "gpus": [1, 2, 4], "duration_s": 3600}`',
    COLUMNS,
    read_json_lines,
    options=OPTIONS,
)
