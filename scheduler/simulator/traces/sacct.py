"""Slurm's records of its jobs: `sacct --allusers --parsable2 --format=...`, with columns separated by `|` and a header.

Job steps (`12.batch`, `12.0`) and jobs that never ran are left out. The tasks of an array (`12_3`) and the parts of a
heterogeneous job (`12+1`) are jobs of their own. A job that still runs counts with the time that it has run so far. GPUs, cores
and memory are those allocated, else those asked for (AllocTRES, ReqTRES). A job without `gres/gpu` is a CPU job.

sacct quotes nothing: a job's name may hold its separator and line ends. Such a row is read where only one column can hold them,
and all others are as Slurm writes them. Else it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from scheduler.model import Job
from scheduler.simulator.traces.source import (
    GPU_SPEEDS,
    MOST_GPUS,
    MOST_NUMBER,
    MOVABLE,
    Choices,
    Column,
    Format,
    Row,
    Source,
    TraceError,
    listed,
    moment_of,
    shown,
)
from scheduler.simulator.world.laws import law_of
from scheduler.simulator.world.truth import TracedJob

REQUIRED = ("JobID", "Submit", "Elapsed", "State")
FREE = frozenset(
    "AdminComment Comment Constraints Container Extra FailedNode JobName Reason StdErr StdIn StdOut SubmitLine SystemComment "
    "WCKey WorkDir".split()
)
"""Columns of texts that users choose."""
MOST_LINES = 1000
"""The most lines of one row."""
_NUMBER = re.compile(r"\d+(_(\d+|\[[^\]|]*\]))?(\+\d+)?(\.[A-Za-z0-9_+-]+)?", re.ASCII)
_STATE = re.compile(r"[A-Z][A-Z_]*\b.*")


def sacct_rows(source: Source, needs: Sequence[str]) -> Iterator[Row]:
    """Yield the rows below the header, a number of a job in each. Raises TraceError."""
    header: list[str] = []
    pending: list[str] = []  # the lines of a row whose free text goes on in the next one
    began = bars = 0
    for number, line in enumerate(source.lines, start=1):
        text = line.rstrip("\r\n")
        if not header:
            if text.strip():
                header = [name.strip().lstrip("\ufeff") for name in text.split("|")]
                _check_header(source.name, number, header, needs)
            continue
        if not pending:
            began, bars = number, 0
            if not text.strip():
                continue
        elif _NUMBER.fullmatch(text.partition("|")[0]) or len(pending) > MOST_LINES:
            raise _not_whole(source.name, began, header, _values(pending))
        pending.append(text)
        bars += text.count("|")
        place = _free(header)
        if place is not None and place <= bars < len(header) - 1:
            continue  # it may have ended within the free text, which may have bars of its own
        yield _row(source.name, began, header, _values(pending))
        pending = []
    if pending:
        raise _not_whole(source.name, began, header, _values(pending))
    if not header:
        raise TraceError(source.name, 1, None, f"the file is empty; its first line names {', '.join(REQUIRED)} ...")


def _check_header(file: str, line: int, header: Sequence[str], needs: Sequence[str]) -> None:
    for name in needs:
        if name not in header:
            there = listed(filter(None, header))
            raise TraceError(file, line, name, f"there is no such column ({there}); add it to sacct's --format")
    if "AllocTRES" not in header and "ReqTRES" not in header:
        raise TraceError(file, line, "AllocTRES", "neither AllocTRES nor ReqTRES is there; add one to sacct's --format")


def _values(lines: Sequence[str]) -> list[str]:
    return "\n".join(lines).split("|")


def _free(header: Sequence[str]) -> int | None:
    """Return the place of the one column of free text; None where there is none, or more than one."""
    found = [place for place, name in enumerate(header) if name in FREE]
    return found[0] if len(found) == 1 else None


def _not_whole(file: str, line: int, header: Sequence[str], values: Sequence[str]) -> TraceError:
    column = header[min(len(values), len(header) - 1)]
    several = [name for name in header if name in FREE]
    which = f"one of {listed(several)}" if several else "a text"
    detail = (
        f"{len(values)} values, the header names {len(header)} columns: the row is cut, or a bar or line end stands in {which}. "
        f"Dump with --parsable2, and leave {'these' if len(several) > 1 else 'that'} out of --format"
    )
    return TraceError(file, line, column, detail)


def _row(file: str, line: int, header: Sequence[str], values: list[str]) -> Row:
    """Return a row; surplus values between bars belong to the free text."""
    more, place = len(values) - len(header), _free(header)
    if more < 0 or (more and place is None):
        raise _not_whole(file, line, header, values)
    found = values
    if more and place is not None:
        found = [*values[:place], "|".join(values[place : place + more + 1]), *values[place + more + 1 :]]
    row = Row(file, line, dict(zip(header, found, strict=True)))
    for each, value in enumerate(found):
        if "\n" in value and each != place:
            raise row.wrong(header[each], "a line end stands in it, or the row is cut")
    if [value.strip() for value in found] == header:
        raise row.wrong("JobID", "a second header: dump the whole time at once, so that no job counts twice")
    if not _NUMBER.fullmatch(row.text("JobID")):
        raise row.wrong("JobID", f"{shown(row.text('JobID'))} is no number of a job; a bar or line end in a name?")
    is_odd = more > 0 or any("\n" in value for value in found)
    if is_odd and not (_STATE.fullmatch(row.text("State")) and moment_of(row.text("Submit"))):
        raise _not_whole(file, line, header, values)  # the others are not where they belong: no bar of a name's
    return row


COLUMNS = (
    Column("JobID", "", "12, 12_3 or 12+1; steps such as 12.batch are passed over"),
    Column("Account", "", "the tenant, unless the option tenant names another column"),
    Column("Submit", "date", "arrival, as 2024-05-01T08:00:00, all with their zone (+0200, Z) or none"),
    Column("Elapsed", "[days-]hours:minutes:seconds", "how long it ran; 00:00:00 = it never did"),
    Column("State", "", "COMPLETED, FAILED, TIMEOUT, CANCELLED by 1001 ...; PENDING ones are passed over"),
    Column("AllocTRES", "", "cpu=8,mem=64G,gres/gpu:a100=2 ...: what it had"),
    Column("ReqTRES", "", "the same: what it asked for, used where AllocTRES is empty; optional where that is there"),
    Column("User", "", "who of the tenant submitted it; optional"),
    Column("JobName", "", "optional; a name may hold bars and line ends, if no other column holds free text"),
    Column("Partition", "", "optional"),
    Column("Start", "date", "tells runs of one job apart; optional"),
    Column("End", "date", "not used; optional"),
    Column("Timelimit", "[days-]hours:minutes:seconds", "for expected=timelimit; optional"),
)
OPTIONS = {
    "tenant": "the column that names the tenant: Account (default), User or Partition",
    "expected": "none (default): the scheduler expects of a job what earlier ones took; timelimit: its time limit; exact: "
    "what it ran",
    "gpu_types": "any (default): a job may use every GPU type; as-run: only the type that its TRES names",
    "movable": MOVABLE,
    "gpu_speeds": GPU_SPEEDS,
}
NO_LIMIT = frozenset({"UNLIMITED", "Partition_Limit", "INVALID"})
NEVER_RAN = frozenset({"PENDING", "REQUEUED", "RESV_DEL_HOLD"})

_TIME = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})(?:\.\d+)?", re.ASCII)
_MEMORY = re.compile(r"(\d{1,15}(?:\.\d+)?)([KMGTP]?)", re.ASCII)
_COUNT_DIGITS = 15
_MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}


def read(source: Source, options: Mapping[str, str]) -> Iterator[TracedJob]:
    """The jobs that ran, numbered from 1 in the file's order."""
    reading = _Reading(source, Choices(source.name, options, OPTIONS))
    numbers = count(1)
    lines: dict[tuple[str, ...], int] = {}
    for row in sacct_rows(source, reading.needs):
        # Steps of jobs, and jobs that never ran, are left out.
        number, state = row.text("JobID"), row.text("State").split()[0]
        if "." in number or "[" in number or state in NEVER_RAN:
            continue
        if ran_s := _seconds(row, "Elapsed"):
            run = number, row.text("Submit"), row.values.get("Start", "").strip()
            if (before := lines.setdefault(run, row.line)) != row.line:
                raise row.wrong("JobID", f"line {before} has this run already: dump the whole time at once")
            yield reading.job(row, next(numbers), ran_s)


def _seconds(row: Row, column: str) -> float:
    match = _TIME.fullmatch(row.text(column))
    if match is None:
        raise row.wrong(column, f"{shown(row.text(column))} is not a time like 1-06:30:00")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


class _Reading:
    """The options; they make a job of a row."""

    def __init__(self, source: Source, choices: Choices) -> None:
        self._source = source
        self._has_zone: bool | None = None
        self._speeds = choices.speeds()
        self._tenant = choices.word("tenant", "Account", "User", "Partition")
        self._expected = choices.word("expected", "none", "timelimit", "exact")
        self._bound = choices.word("gpu_types", "any", "as-run") == "as-run"
        self._movable = choices.word("movable", "no", "yes") == "yes"
        self.needs = (*REQUIRED, self._tenant, *(("Timelimit",) if self._expected == "timelimit" else ()))

    def job(self, row: Row, number: int, ran_s: float) -> TracedJob:
        arrival_s = self._arrival_s(row)
        tres = _Tres(row)
        gpus, cpus = tres.gpus, tres.count("cpu")
        if gpus > MOST_GPUS:
            raise row.wrong("AllocTRES", f"{gpus} GPUs are more than {MOST_GPUS}")
        tenant, user = row.text(self._tenant), row.values.get("User", "").strip()
        job = Job(
            id=number,
            tenant=self._source.tenant(tenant),
            requirement=(gpus,),
            submitted_s=arrival_s,
            gpu_types=frozenset({tres.gpu_type} if self._bound and tres.gpu_type else ()),
            cores=max(1, cpus // max(1, gpus)),
            memory_mib=tres.memory_mib,
            owner=self._source.person(f"{tenant}/{user}") if user else None,
            expected_duration_s=self._expectation_s(row, ran_s),
            movable=self._movable,
        )
        law = law_of(gpus, tres.gpu_type, self._speeds, elastic=False)
        return TracedJob(job, ran_s, law, name=row.values.get("JobName", "").strip() or row.text("JobID"))

    def _arrival_s(self, row: Row) -> float:
        """Return when it was submitted. All dates name their zone, or none does: they would be hours apart."""
        found = moment_of(row.text("Submit"))
        if found is None:
            raise row.wrong(
                "Submit", f"{shown(row.text('Submit'))} is not a date like 2024-05-01T08:00:00 or ...T08:00:00+0200"
            )
        arrival_s, has_zone = found
        if self._has_zone not in {None, has_zone}:
            told = "names a zone, and earlier dates do not" if has_zone else "names no zone, and earlier dates do"
            raise row.wrong("Submit", f"{shown(row.text('Submit'))} {told}; dump all with one SLURM_TIME_FORMAT")
        self._has_zone = has_zone
        return arrival_s

    def _expectation_s(self, row: Row, ran_s: float) -> float | None:
        if self._expected == "none" or (self._expected == "timelimit" and row.text("Timelimit") in NO_LIMIT):
            return None
        return ran_s if self._expected == "exact" else _seconds(row, "Timelimit") or None


class _Tres:
    """Trackable resources: `billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G,node=1`."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self._column = "AllocTRES" if row.values.get("AllocTRES", "").strip() else "ReqTRES"
        text = row.values.get(self._column, "").strip()
        self._parts: dict[str, str] = {}
        for part in filter(None, text.split(",")):
            name, equals, value = part.partition("=")
            if not equals:
                raise row.wrong(self._column, f"{shown(part)} is not like cpu=8")
            self._parts[name] = value
        self._typed = {name.split(":", 1)[1]: name for name in self._parts if name.startswith("gres/gpu:")}

    def count(self, name: str) -> int:
        text = self._parts.get(name, "0")
        if not (text.isdecimal() and text.isascii() and len(text) <= _COUNT_DIGITS):
            raise self._row.wrong(self._column, f"{name}={shown(text)} is not a count")
        return int(text)

    @property
    def gpus(self) -> int:
        """The GPUs of all types: `gres/gpu`, or the sum over the types if the site tracks only types."""
        if "gres/gpu" in self._parts:
            return self.count("gres/gpu")
        return sum(self.count(name) for name in self._typed.values())

    @property
    def gpu_type(self) -> str | None:
        """The GPU type of most of the GPUs; of equally many the first by name."""
        return min(self._typed, key=lambda name: (-self.count(self._typed[name]), name), default=None)

    @property
    def memory_mib(self) -> int:
        text = self._parts.get("mem", "0")
        match = _MEMORY.fullmatch(text)
        if match is None:
            raise self._row.wrong(self._column, f"mem={shown(text)} is not like 64G")
        found = float(match[1]) * _MIB[match[2]]
        if found > MOST_NUMBER:
            raise self._row.wrong(self._column, f"mem={shown(text)} is more than {MOST_NUMBER:g} MiB")
        return int(found)


DUMP = "JobID,JobName,User,Account,Partition,State,Submit,Start,End,Elapsed,Timelimit,AllocTRES,ReqTRES"
FORMAT = Format(
    "sacct",
    f"a Slurm cluster's accounting: `sacct -a -P -S now-7days -o {DUMP}`. `./berth bridge slurm --history 7` reads it, "
    "and sends it to the laboratory",
    COLUMNS,
    read,
    options=OPTIONS,
    dated=True,
)
