"""Rows of `sacct --parsable2`, which quotes nothing: a job's name may hold its separator and line ends.

Such a row is read where only one column can hold them, and all others are as Slurm writes them. Else it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from scheduler.simulator.traces.csvrows import Row
from scheduler.simulator.traces.moments import moment_of
from scheduler.simulator.traces.source import Source, TraceError, listed, shown

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
