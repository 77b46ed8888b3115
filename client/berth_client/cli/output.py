"""How answers are printed: as tables, JSON, YAML or names, once or again and again; times and amounts in short words."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from berth_client.cli.tables import cell, table
from berth_client.errors import AwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from berth_client import Berth

CLEAR = "\x1b[H\x1b[2J\x1b[3J"


class Columns(NamedTuple):
    """The columns of a list: headings, and how a row's cell is found. `wide` comes after `short`."""

    short: Sequence[tuple[str, Callable[[Any], Any]]]
    wide: Sequence[tuple[str, Callable[[Any], Any]]]
    name: Callable[[Any], str]


def rows_told(asked: Any, rows: Sequence[Any], columns: Columns, *, empty: str) -> str:
    """Return a list in the form that was asked for; `empty` is what a table without rows says."""
    if asked.parsable:
        every = [find for _, find in (*columns.short, *columns.wide)]
        return "".join("\t".join(cell(find(row)) for find in every) + "\n" for row in rows)
    if asked.output == "name":
        return "".join(f"{cell(columns.name(row))}\n" for row in rows)
    if asked.output in {"json", "yaml"}:
        return value_text(asked, list(rows))
    chosen = [*columns.short, *(columns.wide if asked.output == "wide" else ())]
    if not rows:
        return f"{empty}\n"
    return table([head for head, _ in chosen], [[find(row) for _, find in chosen] for row in rows]) + "\n"


def some_told(
    asked: Any, berth: Berth, ask: Callable[..., Any], *names: object, columns: Columns, empty: str, **filters: Any
) -> str:
    """Return the first rows of a list of the portal's, --most of them, and say on standard error where it goes on."""
    rows, found = berth.some(ask, *names, most=asked.most, **filters)
    if found > len(rows):
        print(f"{len(rows)} of {found} shown; --most N shows more", file=sys.stderr)
    return rows_told(asked, rows, columns, empty=empty)


def one_told(asked: Any, value: Any, rows: Sequence[Any], columns: Columns) -> str | None:
    """Return a value as JSON or YAML, or its `rows` as lines or names; None where a person reads it."""
    if asked.output in {"json", "yaml"}:
        return value_text(asked, value)
    if asked.parsable or asked.output == "name":
        return rows_told(asked, rows, columns, empty="")
    return None


def value_text(asked: Any, value: Any) -> str:
    if asked.output == "json":
        return json.dumps(value, indent=1) + "\n"
    from berth_client.cli.yaml_text import yaml_text

    return yaml_text(value)


def facts(pairs: Sequence[tuple[str, Any]]) -> str:
    """Return names and values, one a line; those that are None or empty are left out."""
    shown = [(name, cell(value)) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in shown)


def repeated(asked: Any, told: Callable[[], str]) -> int:
    """Print the text of `told`; with --watch again and again, until Ctrl-C. It waits for a portal that is away."""
    if asked.watch is None:
        sys.stdout.write(told())
        return 0
    on_screen = sys.stdout.isatty()
    while True:
        try:
            text = told()
        except AwayError as error:
            text = f"{error}\n"
        sys.stdout.write(f"{CLEAR}{datetime.now().astimezone():%H:%M:%S}\n{text}" if on_screen else f"{text}\n")
        sys.stdout.flush()
        time.sleep(asked.watch)


# ---- short words -----------------------------------------------------------------------------------------------------


def when(text: str | None) -> str | None:
    """Return a time of REST in the reader's own zone."""
    return None if text is None else _local(text, "%Y-%m-%d %H:%M:%S")


def _local(text: str, form: str) -> str:
    try:
        return f"{datetime.fromisoformat(text).astimezone():{form}}"
    except OverflowError:  # the first or last day of the calendar, which is no day in the reader's zone
        return text


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z")


def sentence(text: str) -> str:
    """Return a sentence of the portal with its times in the reader's own zone: `by about 2026-01-31T12:00Z` in it, too."""

    def local(found: re.Match[str]) -> str:
        form = "%Y-%m-%d %H:%M:%S" if found[1] else "%Y-%m-%d %H:%M"
        return _local(found[0], form)

    return cell(_INSTANT.sub(local, text))


def seconds_between(begin: str | None, end: str | None) -> float | None:
    """Return the seconds from one time of REST to another, or to now."""
    if begin is None:
        return None
    until = datetime.fromisoformat(end) if end else datetime.now(UTC)
    return max(0.0, (until - datetime.fromisoformat(begin)).total_seconds())


def lasting(seconds: float | None) -> str | None:
    """Return `45 s`, `12 min`, `3 h 05 min` or `2 d 4 h`."""
    if seconds is None:
        return None
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if seconds < 120:
        return f"{seconds:.0f} s"
    if minutes < 120:
        return f"{minutes:.0f} min"
    if hours < 48:
        return f"{hours:.0f} h {minutes % 60:02.0f} min"
    return f"{days:.0f} d {hours % 24:.0f} h"


def counted(number: int, word: str) -> str:
    """For example: 1 GPU, 4 GPUs."""
    return f"{number} {word}{'s' if number != 1 else ''}"


def memory(mib: float | None) -> str | None:
    if mib is None:
        return None
    return f"{mib / 1024:.4g} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def listed(values: Sequence[object]) -> str:
    return ",".join(map(str, values))
