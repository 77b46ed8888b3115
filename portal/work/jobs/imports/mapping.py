"""Turn each option of sbatch into a field of a job description, but the numbers of GPUs and cores (`sizes`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any

from portal.work.jobs.imports import amounts
from portal.work.jobs.imports.amounts import NotRead, shown
from portal.work.jobs.imports.gpu_names import LOOSER, types_like

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from portal.work.jobs.imports.answers import Begins, Line

_SIGNAL = re.compile(r"(?:([BR]{1,2}):)?([A-Za-z0-9]{1,12})(?:@([0-9]{1,5}))?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
SIGNAL_S = 60
"""The time before the end at which sbatch sends a signal that names no time."""


@dataclass
class Draft:
    """The description so far. `sizes`: values that `sizes` turns into GPUs, cores and memory, with their lines."""

    gpu_types: Sequence[str]
    now: datetime
    begins: Begins | None = None
    description: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, tuple[Any, Line]] = field(default_factory=dict)
    looser: set[str] = field(default_factory=set)
    array: amounts.Array | None = None
    command: str | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """Return the numbers that options asked for, by option."""
        return {name: value for name, (value, _) in self.sizes.items()}

    def put(self, line: Line, name: str, value: Any, says: str) -> None:
        self.description[name] = value
        line.mapped(name, says)

    def narrow(self, types: Sequence[str]) -> list[str]:
        """Keep these GPU types, of those that were asked for before. Raises NotRead when none is left."""
        before = self.description.get("gpu_types")
        kept = [each for each in dict.fromkeys(types) if before is None or each in before]
        if not kept:
            raise NotRead(f"another option asks for GPUs of {' or '.join(before or ())}; a GPU is of one type")
        self.description["gpu_types"] = kept
        return kept


def _job_name(draft: Draft, value: str, line: Line) -> None:
    if not value.strip():
        line.ignored("It is blank; the job is called after its program.")
        return
    draft.put(line, "name", value, f"It is called {shown(value)}.")


def _lasting(seconds: int) -> str:
    """For example: 1 d 2 h, 90 min, 45 s."""
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    found = []
    for word, length in units:
        whole, seconds = divmod(seconds, length)
        found += [f"{whole} {word}"] if whole else []
    return " ".join(found) or "0 s"


def _time(draft: Draft, value: str, line: Line) -> None:
    limit_s = amounts.seconds(value)
    if limit_s is None:
        line.ignored("No time limit is what a job has that asks for none.")
    else:
        draft.put(line, "time_limit_s", limit_s, f"It may run for {_lasting(limit_s)}: a limit, no expected duration.")


def _array(draft: Draft, value: str, line: Line) -> None:
    draft.array = found = amounts.array(value)
    array = {"size": found.size} | ({"concurrency": found.at_once} if found.at_once else {})
    draft.put(line, "array", array, f"Tasks: {found.size}; SLURM_ARRAY_TASK_ID has the numbers that it has there.")


def _constraint(draft: Draft, value: str, line: Line) -> None:
    if any(sign in value for sign in "&[]()*,"):
        raise NotRead(f"{shown(value)} asks for a mixture; GPU types joined by | can be chosen here")
    found = [types_like(draft.gpu_types, name) for name in value.split("|")]
    types = draft.narrow([each for like in found for each in like.types])
    says = f"GPUs of these types: {', '.join(types)}."
    if any(like.looser for like in found):
        line.looser("gpu_types", f"{says} {LOOSER}")
    else:
        line.mapped("gpu_types", says)


def _dependency(draft: Draft, value: str, line: Line) -> None:
    found = amounts.dependencies(value)
    ends = {"ok": "completed", "any": "ended", "notok": "failed"}
    words = [f"job {each['job']} has {ends[str(each['kind'])]}" for each in found if "job" in each]
    words += ["your earlier jobs of its name have ended" for each in found if "job" not in each]
    draft.put(line, "depends_on", found, f"It starts when {', '.join(words)}. Numbers are those of jobs of this Berth.")


def _chdir(draft: Draft, value: str, line: Line) -> None:
    if not value.strip():
        raise NotRead("the directory is blank; name one, or leave the option out")
    draft.put(line, "working_directory", value, "It must be there on the nodes of this cluster.")


def _export(draft: Draft, value: str, line: Line) -> None:
    """Each NAME=value is a variable of the job; a comma outside of quotation marks ends a value, as sbatch has it."""
    variables: dict[str, str] = {}
    for part in amounts.outside_quotes(value):
        name, equals, text = part.partition("=")
        if part.upper() in {"ALL", "NONE", "NIL"}:
            continue
        if not equals or not _NAME.fullmatch(name):
            raise NotRead(f"{shown(part)} takes its value from the shell that submits; write NAME=value")
        variables[name] = text
    if variables:
        draft.description.setdefault("environment", {}).update(variables)
        line.mapped("environment", f"The job finds {', '.join(variables)}.")
    else:
        line.ignored("Nothing of the submitting shell's environment comes along; set what is needed in the script.")


def _signal(draft: Draft, value: str, line: Line) -> None:
    found = _SIGNAL.fullmatch(value)
    if not found:
        raise NotRead(f"{shown(value)} is no signal; sbatch writes B:USR1@120")
    name, grace_s = found[2].upper().removeprefix("SIG"), int(found[3] or SIGNAL_S)
    says = f"{grace_s} s pass from the signal to the end."
    if name not in {"TERM", "15"}:
        says += f" The signal is SIGTERM here, not {name}: let the script trap TERM as well."
    draft.put(line, "grace_s", max(1, grace_s), says)


def _comment(draft: Draft, value: str, line: Line) -> None:
    if not value.strip():
        line.ignored("It is blank.")
        return
    draft.description.setdefault("labels", {})["comment"] = value[:255]
    line.mapped("labels", "It is the label `comment`.")


def _tmp(draft: Draft, value: str, line: Line) -> None:
    gib = amounts.mib(value) / 1024
    if not gib:
        line.ignored("It asks for nothing.")
    else:
        draft.put(line, "disk_gib", gib, f"{gib:g} GiB of disk on each node, its logs and checkpoints counted.")


def _wrap(draft: Draft, value: str, line: Line) -> None:
    if not value.strip():
        raise NotRead("the command is blank; name one")
    draft.command = value
    line.mapped("command", "It is the command.")


def _begin(draft: Draft, value: str, line: Line) -> None:
    if value.lower() == "now":
        line.ignored("Jobs may start at once in any case.")
        return
    at, is_exact = amounts.moment(value, draft.now)
    says = f"It does not start before {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC."
    if at <= draft.now:
        line.ignored("That time is past; the job may start at once.")
    else:
        draft.put(line, "start_after", at.isoformat(timespec="seconds"), says)
        if not is_exact:
            line.looser("start_after", f"{says} --begin names no zone: check it, or give `start_after` with a zone.")


def _nice(draft: Draft, value: str | None, line: Line) -> None:
    line.ignored("`priority` orders one tenant's jobs, by another scale: -100 to 0, for managers to 100.")


def _exclude(draft: Draft, value: str, line: Line) -> None:
    line.ignored("Those are names of the other cluster's nodes.")


def _input(draft: Draft, value: str, line: Line) -> None:
    if value != "/dev/null":
        raise NotRead("a job's standard input is empty; read the file in the script")
    line.ignored("A job's standard input is empty in any case.")


def _requeue(draft: Draft, value: str | None, line: Line) -> None:
    draft.put(
        line,
        "restartable",
        True,
        "It starts again after its node is lost, from the beginning; say `checkpointable` if it resumes.",
    )


def _no_requeue(draft: Draft, value: str | None, line: Line) -> None:
    draft.put(line, "restartable", False, "It does not start again by itself.")


HANDLERS: dict[str, Callable[[Draft, Any, Line], None]] = {
    "job-name": _job_name,
    "time": _time,
    "array": _array,
    "constraint": _constraint,
    "dependency": _dependency,
    "chdir": _chdir,
    "export": _export,
    "signal": _signal,
    "comment": _comment,
    "tmp": _tmp,
    "wrap": _wrap,
    "begin": _begin,
    "nice": _nice,
    "exclude": _exclude,
    "input": _input,
    "requeue": _requeue,
    "no-requeue": _no_requeue,
}
