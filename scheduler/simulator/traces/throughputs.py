"""Tables of measured throughputs, as Gavel's and Shockwave's traces come with: steps per second by job type and GPU type.

Two spellings of one table. JSON: `{gpu_type: {"('job type', scale factor)": {"null": steps/s, other: [..]}}}`, a GPU type
that ends in `_unconsolidated` being the same GPUs spread over servers, `null` the job without others on them. CSV: a line a cell,
`gpu_type,consolidated,job_type,scale_factor,steps_per_s`. Speeds of jobs beside each other on one GPU are not read.
"""

from __future__ import annotations

import ast
import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.simulator.traces.source import MOST_GPUS, TraceError, shown
from scheduler.simulator.world.truth import Spot

SPREAD = "_unconsolidated"
MOST_CHARS, MOST_KEY_CHARS = 16 * 2**20, 1000
"""The most characters of a table as JSON, and of the name of one of its cells."""


@dataclass(frozen=True, slots=True)
class Table:
    """Steps per second by (GPU type in lower case, job type, scale factor, whether on one node). 0 = it cannot run there."""

    steps_per_s: Mapping[tuple[str, str, int, bool], float]
    gpu_types: tuple[str, ...] = ()  # in the file's order and spelling

    def solo(self, gpu_type: str, job_type: str, scale: int) -> float:
        """Steps per second on one node; 0 if it was not measured there or cannot run."""
        return self.steps_per_s.get((gpu_type.lower(), job_type, scale, True), 0.0)

    def runs_on(self, job_type: str, scale: int) -> tuple[str, ...]:
        return tuple(name for name in self.gpu_types if self.solo(name, job_type, scale) > 0)

    def fastest(self, job_type: str, scale: int) -> str | None:
        """The GPU type on which it runs fastest; None = it runs nowhere."""
        return max(self.runs_on(job_type, scale), key=lambda name: self.solo(name, job_type, scale), default=None)


@dataclass(frozen=True, slots=True)
class Measured:
    """A law: the table's steps a second of one job type. Where only one node was measured, several go as fast."""

    table: Table = field(repr=False)
    job_type: str

    def rate(self, spots: Sequence[Spot]) -> float:
        gpus = sum(spot.gpus for spot in spots)
        together = min(self._speed(spot.gpu_type or "", gpus, len(spots) == 1) for spot in spots)
        return together * min(spot.speed for spot in spots)

    def _speed(self, gpu_type: str, gpus: int, one_node: bool) -> float:
        known = self.table.steps_per_s
        speed = known.get((gpu_type.lower(), self.job_type, gpus, one_node)) or self.table.solo(
            gpu_type, self.job_type, gpus
        )
        if not speed:
            message = f"{self.job_type!r} was not measured on {gpus} GPUs of type {gpu_type!r}"
            raise LookupError(f"{message}; GPU types of the table: {', '.join(self.table.gpu_types)}")
        return speed


def read_table(file: str, lines: Iterable[str]) -> Table:
    """The table in the spelling of the file's ending. TraceError names file, line and column."""
    return _read_csv(file, lines) if file.endswith(".csv") else _read_json(file, lines)


def _read_json(file: str, lines: Iterable[str]) -> Table:
    text = _whole(file, lines)
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(file, error.lineno, str(error.colno), f"not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(file, None, None, "not JSON: nested too deep, or a number of too many digits") from error
    if not isinstance(raw, dict):
        raise TraceError(file, None, None, "expected an object of GPU types")
    cells: dict[tuple[str, str, int, bool], float] = {}
    names: dict[str, None] = {}
    for gpu_type, jobs in raw.items():
        bare = gpu_type.removesuffix(SPREAD)
        names[bare] = None
        if not isinstance(jobs, dict):
            raise TraceError(file, None, None, f"{gpu_type}: expected an object of job types")
        for key, speeds in jobs.items():
            job_type, scale = _job_key(file, key)
            alone = speeds.get("null") if isinstance(speeds, dict) else None
            where = f"{gpu_type}, {key}, null"
            cells[bare.lower(), job_type, scale, bare == gpu_type] = _speed(file, None, where, alone)
    return Table(cells, tuple(names))


def _whole(file: str, lines: Iterable[str]) -> str:
    parts, left = [], MOST_CHARS
    for line in lines:
        parts.append(line)
        left -= len(line)
        if left < 0:
            raise TraceError(file, len(parts), None, f"the table is longer than {MOST_CHARS // 2**20} MiB")
    return "".join(parts)


def _job_key(file: str, key: str) -> tuple[str, int]:
    try:
        job_type, scale = ast.literal_eval(key[:MOST_KEY_CHARS])
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise TraceError(file, None, None, f"{shown(key)} is not of the form ('job type', scale factor)") from error
    if not isinstance(job_type, str) or not isinstance(scale, int) or scale < 1:
        raise TraceError(file, None, None, f"{shown(key)} is not of the form ('job type', scale factor)")
    return job_type, scale


def _read_csv(file: str, lines: Iterable[str]) -> Table:
    reader = csv.DictReader(lines)
    wanted = ("gpu_type", "consolidated", "job_type", "scale_factor", "steps_per_s")
    if missing := [name for name in wanted if name not in (reader.fieldnames or ())]:
        raise TraceError(file, 1, missing[0], f"there is no such column; the table needs {', '.join(wanted)}")
    cells: dict[tuple[str, str, int, bool], float] = {}
    names: dict[str, None] = {}
    for row in reader:
        line = reader.line_num
        names[row["gpu_type"]] = None
        scale = row["scale_factor"] or ""
        if not scale.isdecimal() or len(scale) > 6 or not 1 <= int(scale) <= MOST_GPUS:
            raise TraceError(file, line, "scale_factor", f"{shown(scale)} is not a number of GPUs")
        if row["consolidated"] not in ("0", "1"):
            raise TraceError(file, line, "consolidated", f"{row['consolidated']!r} is neither 0 nor 1")
        speed = _speed(file, line, "steps_per_s", row["steps_per_s"])
        cells[row["gpu_type"].lower(), row["job_type"], int(scale), row["consolidated"] == "1"] = speed
    return Table(cells, tuple(names))


def _speed(file: str, line: int | None, column: str, value: object) -> float:
    try:
        speed = float(value)  # type: ignore[arg-type]  # whatever it is, it is refused below
    except (TypeError, ValueError, OverflowError):
        speed = math.nan
    if not math.isfinite(speed) or speed < 0:
        raise TraceError(file, line, column, f"{shown(value)} is not a speed in steps per second")
    return speed
