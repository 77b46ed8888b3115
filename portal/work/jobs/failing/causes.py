"""The cause of a failed job, from how it ended and the last lines that it printed: the thing to name, and the line that says it.

Lines are a tenant's bytes: at most `LINES` of them are looked at, `CHARS` of each, by patterns without nested repetition. A line
counts only where nothing later tells another error, so that a warning of a module that was done without names no cause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from portal.work.jobs.failing.packages import OWN_NAMES, distribution_of, is_standard
from portal.work.jobs.idle.using import IDLE_END
from portal.work.jobs.states import OF_SIGNALS, JobState, shell_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.work.jobs.models import Job

LINES, CHARS = 200, 400
NOT_FOUND = 127
"""A shell's exit code for a command that it does not find."""
SIGNALS = range(OF_SIGNALS + 1, OF_SIGNALS + 65)


class Kind(StrEnum):
    PACKAGE = "package"
    MODULE = "module"  # one that no package has, or that is the job's own
    COMMAND = "command"
    GPU_MEMORY = "gpu-memory"
    MEMORY = "memory"
    TIME = "time"
    IDLE = "idle"
    DISK = "disk"
    NODE_DISK = "node-disk"
    NODE = "node"
    DEPENDENCY = "dependency"


@dataclass(frozen=True, slots=True)
class Cause:
    """`name`: the module or command; `package`: its distribution; `by`: the file or package that imports it.

    `line`: the place of the telling line among those given; None: the end itself says it.
    """

    kind: Kind
    name: str = ""
    package: str = ""
    by: str = ""
    line: int | None = None


_MODULE = re.compile(
    r"(?:ModuleNotFoundError|ImportError|python[0-9.]{0,6}): No module named (['\"])?([A-Za-z_]\w{0,63})(\.\w[\w.]{0,200})?"
    r"(?(1)\1|(?=$|; '))",
    re.ASCII,
)
"""A name that is not whole, or of other letters, is none: a part of it may be another package."""
_COMMANDS = (
    re.compile(r"env: ['\"\u2018]?([^\s:'\"\u2018\u2019]{1,100})['\"\u2019]?: No such file or directory"),
    # dash says the second where a folder of PATH may not be read.
    re.compile(r"(?:^|: )([^\s:]{1,100}): (?:(?:command )?not found|Permission denied)$"),
)
_ERROR = re.compile(r"(?:\[[^\]\s]{1,40}\]:? )?[A-Za-z_][\w.]{0,150}(?:Error|Exception|Interrupt)(?::|$)", re.ASCII)
_WRAPPERS = ("ChildFailedError", "CalledProcessError", "ProcessRaisedException")
"""Errors of a launcher about the error of the process that it started."""
_FRAME = re.compile(r' {0,8}File "([^"]{1,300})", line ')
_GPU_MEMORY = (
    *("CUDA out of memory", "CUDA error: out of memory", "HIP out of memory", "CUBLAS_STATUS_ALLOC_FAILED"),
    *("OOM when allocating", "RESOURCE_EXHAUSTED: Out of memory"),
)
_FULL = ("No space left on device", "Disk quota exceeded")


def cause_of(job: Job, lines: Sequence[str] = ()) -> Cause | None:
    """Return the cause of a job that ended badly; None where nothing tells. `lines`: its last ones, oldest first."""
    return _cause_of_end(job) or _cause_of_lines(lines[-LINES:], max(0, len(lines) - LINES), job)


def _cause_of_end(job: Job) -> Cause | None:
    detail = job.end_detail
    if job.state == JobState.OUT_OF_MEMORY:
        return Cause(Kind.GPU_MEMORY if "(gpu_memory_mib)" in detail else Kind.MEMORY)
    if job.state == JobState.TIMEOUT:
        return Cause(Kind.IDLE if detail.endswith(IDLE_END) else Kind.TIME)
    if job.state == JobState.NODE_FAIL:
        return Cause(Kind.NODE)
    if job.state == JobState.CANCELLED and detail.endswith(" did not complete"):
        return Cause(Kind.DEPENDENCY)
    return Cause(Kind.DISK) if job.state == JobState.FAILED and "(disk_gib)" in detail else None


def _cause_of_lines(lines: Sequence[str], skipped: int, job: Job) -> Cause | None:
    """Return the cause that the last telling line says; an error that is none of those known ends the search."""
    if job.state != JobState.FAILED:
        return None
    code = shell_code(job.exit_code, job.signal)
    for place in range(len(lines) - 1, -1, -1):
        line = lines[place][:CHARS]
        found = _cause_of_line(lines, place, line, code or 0)
        if found is not None:
            kind, name, package, by = found
            return Cause(kind, name, package, by, skipped + place)
        if _ERROR.match(line) and not any(each in line for each in _WRAPPERS):
            return None
    return None


def _cause_of_line(lines: Sequence[str], place: int, line: str, code: int) -> tuple[Kind, str, str, str] | None:
    """`code`: as a shell has it. A program that lacks a module ends itself, and by no signal."""
    if code not in SIGNALS and (module := _MODULE.search(line)) is not None:
        return _missing(module[2], is_part=bool(module[3]), by=_importer(lines, place))
    if any(sign in line for sign in _GPU_MEMORY):
        return Kind.GPU_MEMORY, "", "", ""
    if any(sign in line for sign in _FULL):
        return Kind.NODE_DISK, "", "", ""
    for pattern in _COMMANDS if code == NOT_FOUND else ():
        if (command := pattern.search(line)) is not None:
            return Kind.COMMAND, command[1], "", ""
    return None


def _missing(module: str, *, is_part: bool, by: str) -> tuple[Kind, str, str, str]:
    package = distribution_of(module)
    if package is None or is_part or is_standard(module) or module in OWN_NAMES:
        return Kind.MODULE, module, "", by
    return Kind.PACKAGE, module, package, by


def _importer(lines: Sequence[str], place: int) -> str:
    """Return the file whose import failed, without its folder; of a file of a package the package."""
    for line in reversed(lines[max(0, place - 20) : place]):
        if (frame := _FRAME.match(line[:CHARS])) is not None:
            path = frame[1]
            if "site-packages/" in path:
                return path.partition("site-packages/")[2].partition("/")[0].removesuffix(".py")
            if "<" not in path:
                return path.rpartition("/")[2]
    return ""
