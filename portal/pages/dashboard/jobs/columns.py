"""The columns of the job list: which there are, and which a reader sees, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Column:
    label: str
    css: str
    """Classes of its cells; `b-drop` leaves it out on a phone."""


NUMBER = "b-number b-drop"
COLUMNS = {
    "state": Column("State", ""),
    "job": Column("Job", ""),
    "tenant": Column("Tenant", "b-drop"),
    "owner": Column("Owner", "b-drop"),
    "category": Column("Category", "b-drop"),
    "labels": Column("Labels", "b-drop"),
    "gpus": Column("GPUs", NUMBER),
    "cores": Column("Cores", NUMBER),
    "priority": Column("Priority", NUMBER),
    "where": Column("Where, or why not", "b-drop"),
    "waited": Column("Waited", NUMBER),
    "lr": Column("LR", "b-number"),
    "progress": Column("Progress", "b-drop"),
    "submitted": Column("Submitted", NUMBER),
    "start": Column("Start", NUMBER),
    "end": Column("End", NUMBER),
}
USUAL = ("state", "job", "tenant", "owner", "gpus", "cores", "where", "waited", "lr", "progress", "start", "end")
ALWAYS = "job"


def columns_parse(wanted: Sequence[str]) -> list[str]:
    """Return the columns asked for, each once, with the one that always stands. Code unknown_column."""
    for name in wanted:
        if name not in COLUMNS:
            known = ", ".join(COLUMNS)
            raise BerthError("unknown_column", f"There is no column {name[:30]!r}; known: {known}.", field="columns")
    found = list(dict.fromkeys(wanted))
    return found if ALWAYS in found else [ALWAYS, *found]


def columns_known(kept: Sequence[str]) -> list[str]:
    """Return the kept columns that still exist; the usual ones for nothing."""
    return [name for name in kept if name in COLUMNS] or list(USUAL)
