"""A batch script's lines: which are directives, which come too late, and which program reads the script."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from portal.errors import BerthError
from portal.jobs.imports.amounts import NotRead, shown
from portal.jobs.imports.answers import Line

MARK = "#SBATCH"
MOST_DIRECTIVES = 500
MOST_LINE = 4096
SHELL = ("/bin/sh",)


class Directive(NamedTuple):
    """One option as it stands in a line; `value` None: none was given."""

    option: str
    value: str | None
    at: Line


def interpreter(script: str) -> list[str]:
    """Return the program that the first line names, with its arguments; without one, /bin/sh."""
    first = script.partition("\n")[0]
    return (first[2:].split() if first.startswith("#!") else []) or list(SHELL)


def marked(script: str) -> list[tuple[int, str, bool]]:
    """Return number, text after the mark, and whether sbatch reads it, of each directive: it stops at the first command."""
    found, reads = [], True
    for number, line in enumerate(script.split("\n"), start=1):
        if line.startswith(MARK) and line[len(MARK) :][:1] in {"", " ", "\t"}:
            found.append((number, line[len(MARK) :].strip(), reads))
        elif line.strip() and not line.lstrip().startswith("#"):
            reads = False
    if len(found) > MOST_DIRECTIVES:
        detail = f"The script has {len(found)} lines that begin with {MARK}; at most {MOST_DIRECTIVES} are read."
        raise BerthError("too_many", detail, field="text")
    return found


def words(text: str) -> list[str]:
    """Return the words of a directive's line, without quotes and without a comment at its end."""
    if len(text) > MOST_LINE:
        raise NotRead(f"the line is longer than {MOST_LINE} characters")
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        raise NotRead(f"{shown(text)} opens a quotation that does not end") from None


def directives(script: str) -> tuple[list[Directive], list[Line]]:
    """Return the options of a script, and all its lines in order: each option has its line there."""
    from portal.jobs.imports.options import split

    found: list[Directive] = []
    lines: list[Line] = []
    for number, text, reads in marked(script):
        try:
            parts = words(text)
            options = split(parts)
        except NotRead as error:
            line = Line(number, f"{MARK} {text[:200]}")
            line.refused(f"{error}.")
            lines.append(line)
            continue
        for option, value, written in options:
            line = Line(number, written[:200])
            lines.append(line)
            if reads:
                found.append(Directive(option, value, line))
            else:
                line.ignored("It stands below the first command, where sbatch itself reads no more.")
    return found, lines
