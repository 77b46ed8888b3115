"""Trace files: opened, read, put in order of arrival, their first arrival at 0 where they are dated."""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING

from portal.pages.laboratory.errors import SimulationError
from scheduler.simulator.traces.registry import FORMATS
from scheduler.simulator.traces.source import Source, TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from portal.pages.laboratory.sources.clusters import ClusterFile
    from scheduler.simulator.world.truth import TracedJob


MOST_LINE_BYTES, MOST_COMPANION_BYTES = 256 * 1024, 16 * 1024 * 1024
"""Most bytes of one line: a trace has a job in each, a table beside it may be one line of JSON."""
LINES_A_JOB = 50
"""Blank lines and the steps of sacct's jobs count."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace where it lies. Picklable: each process reads it for itself.

    `profiles`: the folder of further files of the format; the trace's own unless given. `most_jobs`: more are refused.
    """

    path: Path
    form: str
    profiles: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    most_jobs: int | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def check(self) -> None:
        """SimulationError for a format that there is not, a file or folder that is not there."""
        if self.form not in FORMATS:
            raise SimulationError("format", f"there is no trace format {self.form!r}; there are {', '.join(FORMATS)}")
        if not self.path.is_file():
            raise SimulationError("trace", f"{self.path} is no file")
        if self.profiles is not None and not self.profiles.is_dir():
            raise SimulationError("profiles", f"{self.profiles} is no folder")

    def read(self, cluster: ClusterFile) -> tuple[list[TracedJob], dict[int, str]]:
        """The jobs in order of arrival, and the tenants' names by number. TraceError, SimulationError."""
        numbers = {name: number for number, name in enumerate(cluster.tenants, start=1)}
        jobs = list(self._jobs(numbers, cluster.gpu_speeds_option))
        jobs.sort(key=lambda each: (each.job.submitted_s, each.job.id))
        if FORMATS[self.form].dated:
            first_s = jobs[0].job.submitted_s
            jobs = [replace(each, job=replace(each.job, submitted_s=each.job.submitted_s - first_s)) for each in jobs]
        return jobs, {number: name for name, number in numbers.items()}

    def measured(self) -> tuple[int, float]:
        """The number of jobs, and the seconds from the first arrival to the last; no job is kept. TraceError, SimulationError."""
        number, first_s, last_s = 0, math.inf, -math.inf
        for job in self._jobs({}, ""):
            number, at_s = number + 1, job.job.submitted_s
            first_s, last_s = min(first_s, at_s), max(last_s, at_s)
        return number, last_s - first_s

    def _jobs(self, tenants: dict[str, int], gpu_speeds: str) -> Iterator[TracedJob]:
        """Yield the jobs in the file's order; `tenants` learns the names. Complains of a file without one."""
        self.check()
        form, options = FORMATS[self.form], dict(self.options)
        if "gpu_speeds" in form.options and gpu_speeds:
            options.setdefault("gpu_speeds", gpu_speeds)
        number = 0
        with _open(self.path) as lines:
            most_lines = None if self.most_jobs is None else LINES_A_JOB * (self.most_jobs + 1000)
            told = _told(lines, self.path.name, most_lines=most_lines)
            source = Source(self.path.name, told, self._companion, tenants)
            for number, job in enumerate(form.read(source, options), start=1):
                if self.most_jobs is not None and number > self.most_jobs:
                    detail = f"it holds more than {self.most_jobs} jobs; cut it, or raise the limit"
                    raise SimulationError("trace", detail)
                yield job
        if not number:
            raise SimulationError("trace", f"{self.name} holds no job")

    def _companion(self, name: str) -> Iterable[str] | None:
        folder = (self.profiles or self.path.parent).resolve()
        path = (folder / name).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            return None
        with _open(path) as lines:
            return list(_told(lines, name, most=MOST_COMPANION_BYTES))


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _told(lines: IO[bytes], name: str, *, most: int = MOST_LINE_BYTES, most_lines: int | None = None) -> Iterator[str]:
    """The lines as text; one that is none, is longer than `most` bytes, or is one too many is complained of."""
    number = 0
    try:
        while line := lines.readline(most + 1):
            number += 1
            if len(line) > most:
                raise TraceError(name, number, None, f"it is longer than {most // 1024} KiB; is this another format?")
            if most_lines is not None and number > most_lines:
                raise TraceError(
                    name, number, None, f"it holds more than {most_lines} lines; cut it, or leave steps out"
                )
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(name, number, f"at byte {error.start + 1}", "is not UTF-8") from error
    except (OSError, EOFError) as error:
        raise TraceError(name, number + 1, None, f"cannot be read: {error}") from error
