"""Trace files: opened, read, put in order of arrival, their first arrival at 0 where they are dated."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING

from portal.laboratory.errors import SimulationError
from scheduler.simulator.traces.registry import FORMATS
from scheduler.simulator.traces.source import Source, TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from portal.laboratory.sources.clusters import ClusterFile
    from scheduler.simulator.world.truth import TracedJob


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace where it lies. Picklable: each process reads it for itself.

    `profiles`: the folder of what the format reads beside it; the trace's own unless given. `most_jobs`: more are refused.
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
        self.check()
        form = FORMATS[self.form]
        options = dict(self.options)
        if "gpu_speeds" in form.options and cluster.gpu_speeds_option:
            options.setdefault("gpu_speeds", cluster.gpu_speeds_option)
        numbers = {name: number for number, name in enumerate(cluster.tenants, start=1)}
        with _opened(self.path) as lines:
            source = Source(self.path.name, _told(lines, self.path.name), self._companion, numbers)
            jobs = list(self._within_limit(form.read(source, options)))
        jobs.sort(key=lambda each: (each.job.submitted_s, each.job.id))
        if not jobs:
            raise SimulationError("trace", f"{self.path} holds no job")
        if form.dated:
            jobs = _from_zero(jobs)
        return jobs, {number: name for name, number in source.tenants.items()}

    def _within_limit(self, jobs: Iterator[TracedJob]) -> Iterator[TracedJob]:
        for number, job in enumerate(jobs, start=1):
            if self.most_jobs is not None and number > self.most_jobs:
                raise SimulationError("trace", f"it holds more than {self.most_jobs} jobs; cut it, or raise the limit")
            yield job

    def _companion(self, name: str) -> Iterable[str] | None:
        folder = (self.profiles or self.path.parent).resolve()
        path = (folder / name).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            return None
        with _opened(path) as lines:
            return list(_told(lines, name))


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _told(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines as text; one that is none is complained of."""
    number = 0
    try:
        for number, line in enumerate(lines, start=1):
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(name, number, f"at byte {error.start + 1}", "is not UTF-8") from error
    except (OSError, EOFError) as error:
        raise TraceError(name, number + 1, None, f"cannot be read: {error}") from error


def _from_zero(jobs: list[TracedJob]) -> list[TracedJob]:
    first_s = jobs[0].job.submitted_s
    return [replace(each, job=replace(each.job, submitted_s=each.job.submitted_s - first_s)) for each in jobs]
