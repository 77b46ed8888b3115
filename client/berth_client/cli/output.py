"""How answers are printed: as aligned tables, JSON, YAML or names, once or again and again; times and amounts in short words."""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from berth_client.errors import AwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from berth_client import Berth

CLEAR = "\x1b[H\x1b[2J\x1b[3J"
MOST_WIDE = 48
"""A longer cell moves the rest of its own line only: one long name pushes no other line apart."""


class Columns(NamedTuple):
    """The columns of a list: headings, and how a row's cell is found. `wide` comes after `short`."""

    short: Sequence[tuple[str, Callable[[Any], Any]]]
    wide: Sequence[tuple[str, Callable[[Any], Any]]]
    name: Callable[[Any], str]


def format_rows(asked: Any, rows: Sequence[Any], columns: Columns, *, empty: str) -> str:
    """Return a list in the form that was asked for; `empty` is what a table without rows says."""
    if asked.parsable:
        every = [find for _, find in (*columns.short, *columns.wide)]
        return "".join("\t".join(cell(find(row)) for find in every) + "\n" for row in rows)
    if asked.output == "name":
        return "".join(f"{cell(columns.name(row))}\n" for row in rows)
    if asked.output in {"json", "yaml"}:
        return format_value(asked, list(rows))
    chosen = [*columns.short, *(columns.wide if asked.output == "wide" else ())]
    if not rows:
        return f"{empty}\n"
    return table([head for head, _ in chosen], [[find(row) for _, find in chosen] for row in rows]) + "\n"


def format_page(
    asked: Any, berth: Berth, ask: Callable[..., Any], *names: object, columns: Columns, empty: str, **filters: Any
) -> str:
    """Return the first rows of a list of the portal's, --most of them, and say on standard error where it goes on."""
    rows, found = [], 0
    for page in berth.pages(ask, *names, most=asked.most, **filters):
        rows += page["results"]
        found = page["count"]
    if found > len(rows):
        print(f"{len(rows)} of {found} shown; --most N shows more", file=sys.stderr)
    return format_rows(asked, rows, columns, empty=empty)


def format_one(asked: Any, value: Any, rows: Sequence[Any], columns: Columns) -> str | None:
    """Return a value as JSON or YAML, or its `rows` as lines or names; None where a person reads it."""
    if asked.output in {"json", "yaml"}:
        return format_value(asked, value)
    if asked.parsable or asked.output == "name":
        return format_rows(asked, rows, columns, empty="")
    return None


def format_value(asked: Any, value: Any) -> str:
    if asked.output == "json":
        return json.dumps(value, indent=1) + "\n"
    from berth_client.cli.yaml_text import yaml_text

    return yaml_text(value)


def facts(pairs: Sequence[tuple[str, Any]]) -> str:
    """Return names and values, one a line; those that are None or empty are left out."""
    shown = [(name, cell(value)) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in shown)


def print_again(asked: Any, make: Callable[[], str]) -> int:
    """Print the text that `make` returns; with --watch again and again, until Ctrl-C. It waits for a portal that is away."""
    if asked.watch is None:
        sys.stdout.write(make())
        return 0
    on_screen = sys.stdout.isatty()
    while True:
        try:
            text = make()
        except AwayError as error:
            text = f"{error}\n"
        sys.stdout.write(f"{CLEAR}{datetime.now().astimezone():%H:%M:%S}\n{text}" if on_screen else f"{text}\n")
        sys.stdout.flush()
        time.sleep(asked.watch)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return the rows aligned: words left, numbers right."""
    cells = [[cell(value) for value in row] for row in rows]
    numeric = [any(isinstance(row[n], (int, float)) for row in rows) for n in range(len(columns))]
    wide = [[wide_of(text) for text in row] for row in [list(columns), *cells]]
    widths = [max(each for row in wide if (each := row[n]) <= MOST_WIDE or row is wide[0]) for n in range(len(columns))]
    lines = [
        "  ".join(
            " " * (width - own) + text if right else text + " " * (width - own)
            for text, width, own, right in zip(line, widths, owns, numeric, strict=True)
        ).rstrip()
        for line, owns in zip([list(columns), *cells], wide, strict=True)
    ]
    return "\n".join(lines)


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return printable(str(value))


def printable(text: str) -> str:
    """Return text as it can be shown here: a control character becomes a question mark, a letter that is not known its number."""
    shown = "".join(char if char.isprintable() else "?" for char in text)
    known = getattr(sys.stdout, "encoding", None) or "utf-8"
    return shown.encode(known, "backslashreplace").decode(known)


def wide_of(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


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
