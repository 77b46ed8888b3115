"""A job's fields as `table.toml` beside this file declares them. `portal.work.jobs.description` checks by them.

A new field is an entry there and a column of `Job`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from portal.work.jobs.declaration.schema import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["text", "whole", "number", "flag", "choice", "time", "lines", "pairs", "own"]
Widget = Literal["text", "number", "textarea", "select", "check"]
WIDGETS: Mapping[Kind, Widget] = {
    "whole": "number",
    "flag": "check",
    "choice": "select",
    "lines": "textarea",
    "pairs": "textarea",
}


@dataclass(frozen=True)
class Flag:
    """How `berth submit` asks for a field. Without `metavar` it is a switch."""

    name: str
    help: str
    metavar: str = ""


@dataclass(frozen=True)
class Input:
    """One control of the submit form. `width`: columns of 12. `name`: the field's, or of one part of it: `code.git`."""

    name: str
    group: str
    label: str
    width: int
    widget: Widget
    help: str = ""
    placeholder: str = ""
    mono: bool = False
    required: bool = False


@dataclass(frozen=True)
class JobField:
    """One field of a job description. `own`: a kind with a check and a schema of its own (`description`, `schema`).

    `says`: REST's description. `low` and `high` bound a number, `most_chars` a text. `unit`: of a bare number in the form.
    `default` is in normal form. `columns`: of `Job`; one of the field's name where the table names none.
    `listed`: REST answers with it in lists, else with one job. `answer`: the answer's type where it is not the request's.
    """

    name: str
    kind: Kind
    says: str = ""
    low: float = 0
    high: float = 0
    most_chars: int = 0
    choices: tuple[str, ...] = ()
    unit: Literal["", "s", "min", "h", "gib", "share"] = ""
    default: Any = None
    columns: tuple[str, ...] = ()
    listed: bool = False
    answer: str = ""
    form: tuple[Input, ...] = ()
    flag: Flag | None = None
    schema: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        return self.form[0].label if self.form else self.name.replace("_", " ").capitalize()

    @property
    def is_plain(self) -> bool:
        """Say whether its column says what REST says."""
        return self.columns == (self.name,) and self.kind in {"text", "whole", "number", "flag", "choice", "time"}


def _field(name: str, given: dict[str, Any]) -> JobField:
    kind, unit = given["kind"], given.get("unit")
    usual = "text" if unit else WIDGETS.get(kind, "text")
    form = tuple(
        Input(**{"name": name, "widget": "text" if "name" in each else usual} | each) for each in given.pop("form", ())
    )
    flag = Flag(**given.pop("flag")) if "flag" in given else None
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return JobField(**{"name": name, "columns": (name,)} | values, form=form, flag=flag, schema=SCHEMAS.get(name, {}))


_PATH = Path(__file__).with_suffix(".toml")
BY_NAME = {name: _field(name, given) for name, given in tomllib.loads(_PATH.read_text()).items()}
TABLE = tuple(BY_NAME.values())
FIELDS = frozenset(BY_NAME)
INPUTS = {each.name: each for field in TABLE for each in field.form}
"""The submit form's controls by name."""
COLUMNS = tuple(name for each in TABLE for name in each.columns)
"""Columns of `Job` that a description fills."""
PLAIN = tuple(each for each in TABLE if each.is_plain)

CATEGORIES = BY_NAME["category"].choices
MAX_CORES, MAX_COUNT = int(BY_NAME["cores"].high), int(BY_NAME["samples"].high)
MAX_SECONDS, PRIORITY_LIMIT = int(BY_NAME["time_limit_s"].high), int(BY_NAME["priority"].high)
