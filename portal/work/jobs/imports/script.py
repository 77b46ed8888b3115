"""A batch script's directives, each with its line, and the program that reads the script."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from portal.work.jobs.imports.amounts import NotRead, shown
from portal.work.jobs.imports.answers import Line
from portal.work.jobs.imports.marks import MARK, marked

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


def words(text: str) -> list[str]:
    """Return the words of a directive's line, without quotes and without a comment at its end."""
    if len(text) > MOST_LINE:
        raise NotRead(f"the line is longer than {MOST_LINE} characters")
    try:
        return shlex.split(text.removesuffix("\\"), comments=True)
    except ValueError:
        raise NotRead(f"{shown(text)} opens a quotation that does not end") from None


def directives(script: str) -> tuple[list[Directive], list[Line]]:
    """Return the options of a script, and all its lines in order: each option has its line there."""
    from portal.work.jobs.imports.options import split

    found: list[Directive] = []
    lines: list[Line] = []
    for number, text, problem in marked(script):
        if problem.ignored or problem.refused:
            told = Line(number, text[:200])
            (told.refused if problem.refused else told.ignored)(problem.refused or problem.ignored)
            lines.append(told)
        if not problem.read:
            continue
        try:
            parts = words(text.strip().removeprefix(MARK))
            options = split(parts)
        except NotRead as error:
            line = Line(number, text[:200])
            line.refused(f"{str(error)[0].upper()}{str(error)[1:]}.")
            lines.append(line)
            continue
        if not options and not problem.ignored:
            lines.append(Line(number, text[:200], detail="It asks for nothing."))
        for option, value, written in options:
            line = Line(number, written[:200])
            lines.append(line)
            found.append(Directive(option, value, line))
    return found, lines
