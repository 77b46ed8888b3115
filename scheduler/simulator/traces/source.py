"""The source of a trace reader, and the error that it raises. The caller opens the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from reprlib import Repr
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
