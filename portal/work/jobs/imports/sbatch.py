"""A batch script for sbatch as a job description; every directive is mapped, ignored or refused, with the reason."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.work.jobs.description_parts import MAX_FILES_BYTES
from portal.work.jobs.imports import sizes
from portal.work.jobs.imports.amounts import NotRead, shown
from portal.work.jobs.imports.answers import Imported, Line
from portal.work.jobs.imports.mapping import HANDLERS, Draft
from portal.work.jobs.imports.marks import MARK, marked
from portal.work.jobs.imports.options import OPTIONS
from portal.work.jobs.imports.variables import SCRIPT_NAME, command_for, unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.work.jobs.imports.answers import Begins

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


TOOLS = ("srun", "sbatch", "scontrol", "squeue", "scancel", "sbcast", "module")
"""Programs of the other cluster that a script may call."""
MOST_LINES = 50_000


def sbatch_import(
    script: str,
    *,
    gpu_types: Sequence[str] = (),
    arguments: Sequence[str] = (),
    now: datetime | None = None,
    begins: Begins | None = None,
) -> Imported:
    """Return the job of a batch script. `gpu_types`: those of this cluster, for names such as `gpu:a100:2`.

    `arguments`: those that the script is called with; `now`: the time that --begin counts from; `begins`: None = with the cores
    that it asks for. Raises BerthError (blank, too_long, too_many, wrap) when it is no script that can be read at all.
    """
    script = script.removeprefix("\ufeff").replace("\r\n", "\n")
    if not script.strip():
        raise BerthError("blank", "The script is blank; give the text of a batch script.", field="text")
    if len(script.encode()) > MAX_FILES_BYTES:
        raise BerthError("too_long", "The script is longer than 1 MiB; a job's files are not larger.", field="text")
    checks.credentials_refuse(script, "text")  # it goes with the job as a file, and is its command
    if script.count("\n") > MOST_LINES:
        detail = f"The script has more than {MOST_LINES} lines; read data from a file."
        raise BerthError("too_many", detail, field="text")
    found, lines = directives(script)
    found = _first_part(found)
    draft = Draft(gpu_types, now or datetime.now(UTC), begins)
    for directive in _last_of_each(found):
        _take(draft, directive)
    sizes.settle(draft)
    lines += _notes(script, draft)
    return Imported("sbatch", draft.description | _command(script, draft, arguments), lines)


def _first_part(found: list[Directive]) -> list[Directive]:
    """Return the options up to those of a second kind of part, and the mark that divides them."""
    place = next((place for place, each in enumerate(found) if each.option in {"hetjob", "packjob"}), len(found))
    for directive in found[place + 1 :]:
        directive.at.ignored("It is for a later kind of part of this job.")
    return found[: place + 1]


def _last_of_each(found: list[Directive]) -> list[Directive]:
    """Return the last of each option, as sbatch does; the lines of the others say so."""
    last = {_answers(directive): directive for directive in found}
    for directive in found:
        if directive is not last[_answers(directive)]:
            directive.at.ignored(f"Line {last[_answers(directive)].at.line} says it again.")
    return list(last.values())


def _answers(directive: Directive) -> str:
    """Return the question that an option answers; `--requeue` and `--no-requeue` are two answers to one."""
    return directive.option.removeprefix("no-")


def _take(draft: Draft, directive: Directive) -> None:
    option, line = OPTIONS[directive.option], directive.at
    try:
        if option.ignored:
            line.ignored(option.ignored)
        elif option.refused:
            line.refused(option.refused)
        elif option.name in sizes.READ:
            sizes.take(draft, option.name, directive.value or "", line)
        else:
            HANDLERS[option.name](draft, directive.value, line)
    except NotRead as error:
        text = str(error)
        line.refused(f"{text[0].upper()}{text[1:]}.")


def _command(script: str, draft: Draft, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the command, and the script as a file of the job: it runs by the program that its first line names."""
    instead = draft.command
    if instead is not None and arguments:
        raise BerthError("wrap", "A script with --wrap runs that command, which takes no arguments.", field="arguments")
    command = command_for(interpreter(script), draft.array, draft.asked, arguments=arguments, instead=instead)
    return {"command": command} | ({"files": {SCRIPT_NAME: script}} if instead is None else {})


def _notes(script: str, draft: Draft) -> list[Line]:
    """Return remarks on uses that no directive shows: variables and programs that are not there."""
    lines = script.split("\n")
    notes = []
    for name in unknown(script, draft.array, draft.asked)[:20]:
        number = next(place for place, line in enumerate(lines, start=1) if name in line)
        note = Line(number, name)
        note.ignored("The script reads this variable, and the job will not find it.")
        notes.append(note)
    for tool in TOOLS:
        number = next((place for place, line in enumerate(lines, start=1) if line.split()[:1] == [tool]), 0)
        if number:
            note = Line(number, shown(lines[number - 1].strip())[1:-1])
            note.ignored(f"The script calls `{tool}`; it runs only where the nodes have such a program.")
            notes.append(note)
    return sorted(notes, key=lambda note: note.line)
