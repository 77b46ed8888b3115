"""Remedies of a failed job: a change of its description, or another run of it. One that is certain can be submitted."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import Max
from packaging.utils import canonicalize_name

from portal.cluster.models import Gpu
from portal.foundation.errors import BerthError
from portal.work.jobs.declaration.table import BY_NAME
from portal.work.jobs.failing.causes import Cause, Kind
from portal.work.jobs.failing.packages import DISTRIBUTION, distribution_of, imports_of
from portal.work.jobs.idle.using import span
from portal.work.jobs.software import MAX_REQUIREMENTS_BYTES, software_check

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from portal.work.jobs.models import Attempt, Job

FILE = "requirements.txt"
OTHER_NAMES = {"python": "python3", "python2": "python3", "pip": "python -m pip"}
"""Commands that a node with Python may lack, and one that does the same: Debian has no `python`."""
BATCH = re.compile(r"(--?[A-Za-z-]{0,12}batch[_-]?size[= ]|--?batch[= ]|\bBATCH(?:_SIZE)?=)([0-9]{1,6})\b")
NAMED = 2
BUILT = "It is built once, in about a minute."


@dataclass(frozen=True, slots=True)
class Remedy:
    """`change`: fields of the description. `at`: the field of the form to look at.

    `act`: `submit` (certain: it is submitted as it is), `form` (the form opens with it), `again` (this job runs again).
    """

    words: str
    button: str
    act: str
    at: str = ""
    change: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def remedies_of(job: Job, cause: Cause | None, attempt: Attempt | None = None) -> list[Remedy]:
    """Return the remedies of a failed job, the surest first; [] where none is known. One query, for GPU memory.

    `attempt`: its last one, with its GPUs, to say which GPU was too small.
    """
    return MADE[cause.kind](job, cause, attempt) if cause else []


# ---- a package, a command --------------------------------------------------------------------------------------------


def _package(job: Job, cause: Cause, _: Attempt | None) -> list[Remedy]:
    """Add it to the requirements; of a job with the node's own software, with the other packages that its files import.

    Certain where all of the job's software is known, by its requirements or by the files that it brought, and a line more
    can be built.
    """
    name, payload = cause.package, job.brought
    used = payload.software.get("requirements", "")
    text = used or base64.b64decode(payload.files.get(FILE, "")).decode("utf-8", "replace")
    named = {canonicalize_name(found[0]) for line in text.split("\n") if (found := DISTRIBUTION.match(line.strip()))}
    if payload.software.keys() - {"requirements"} or (used and canonicalize_name(name) in named):
        return [_form(f"Choose software that has {name}.", "software")]
    act = "form" if job.array_id or "--require-hashes" in text or "--hash" in text else "submit"
    try:  # it was sent along, and nobody looked at it yet
        software_check({} if used or not text else {"requirements_file": FILE}, payload.files)
    except BerthError as error:
        return [_form(error.detail.replace("`software.requirements_file`", f"Its {FILE}"), "files")]
    if canonicalize_name(name) in named:
        change = {"software": {"requirements_file": FILE}}
        return [Remedy(f"Its {FILE} names {name}. {BUILT}", "Build it and run again", act, "software", change)]
    imports = set() if text else {distribution_of(module) for module in imports_of(payload.files)}
    more = sorted(each for each in imports if each and each != name)
    whole = (f"{text.rstrip()}\n" if text.strip() else "") + "".join(f"{each}\n" for each in [name, *more])
    if len(whole.encode()) > MAX_REQUIREMENTS_BYTES:
        return []
    change, beside = (
        _with_requirements(payload, whole),
        " and ".join(more) if len(more) <= NAMED else f"{len(more)} more",
    )
    words = f"Add {name} to {FILE}{f', with {beside}' if more else ''}."
    if act == "form" or not (text or (payload.files and not payload.upload_id and not payload.code)):
        return [Remedy(words, f"Add {name}", "form", "software", change)]
    return [Remedy(words, f"Add {name} and run again", "submit", "software", change, BUILT)]


def _with_requirements(payload: Any, whole: str) -> dict[str, Any]:
    """Return the changed fields: in the file that the job's requirements came from, or in one that is made."""
    file = (payload.description.get("software") or {}).get("requirements_file", "" if payload.software else FILE)
    if not file or payload.code or (payload.upload_id is not None and file not in payload.files):
        return {"software": {"requirements": whole}}
    content = {name: {"base64": each} for name, each in payload.files.items()}
    content[file] = {"base64": base64.b64encode(whole.encode()).decode()}
    return {"software": {"requirements_file": file}, "files": content}


def _command(job: Job, cause: Cause, attempt: Attempt | None) -> list[Remedy]:
    other, command = OTHER_NAMES.get(cause.name), job.brought.command
    nodes = [part.node for part in attempt.allocations.all()] if attempt else []
    if other is None or not nodes or not all(node.software.get("python") for node in nodes):
        return [_form("Give its full path, send it along, or choose software that has it.", "command")]
    changed = re.sub(rf"(?<![\w./-]){re.escape(cause.name)}(?![\w./-])", other, command)
    return [Remedy(f"This node has {other}.", f"Use {other}", "form", "command", {"command": changed})]


# ---- room and time ---------------------------------------------------------------------------------------------------


def _gpu_memory(job: Job, cause: Cause, attempt: Attempt | None) -> list[Remedy]:
    """Return a larger part of a GPU; or a GPU type with more memory, and half the batch."""
    if cause.line is None:
        return [_doubled(job, "gpu_memory_mib", "GPU memory", _gib)]
    found = [_larger_type(attempt), _half_batch(job)]
    return [each for each in found if each] or [_form("Make its batches smaller.", "command")]


def _larger_type(attempt: Attempt | None) -> Remedy | None:
    """Return the smallest GPU type here with more memory than the GPUs that it ran on. One query."""
    parts = attempt.allocations.all() if attempt else ()
    had = [held.gpu.memory_mib for part in parts for held in part.gpu_allocations.all()]
    if not had:
        return None
    larger = Gpu.objects.takes_jobs().filter(node__dead_at=None, memory_mib__gt=max(had)).with_type()
    rows = larger.exclude(type_name=None).order_by().values("type_name").annotate(most=Max("memory_mib"))
    found = rows.order_by("most", "type_name").first()
    if found is None:
        return None
    name = found["type_name"]
    words = f"{name} has {_gib(found['most'])} of memory; its GPU had {_gib(max(had))}."
    return Remedy(words, f"Try {name}", "form", "gpu_types", {"gpu_types": [name]})


def _half_batch(job: Job) -> Remedy | None:
    """Halve the batch that its command or its variables name."""
    payload = job.brought
    for name, text in (("command", payload.command), *payload.environment.items()):
        found = BATCH.search(text if name == "command" else f"{name}={text}")
        if found is None or int(found[2]) < 2:
            continue
        half = str(int(found[2]) // 2)
        words, button = f"A batch of {half} needs less.", f"Try a batch of {half}"
        if name == "command":
            changed = text[: found.start(2)] + half + text[found.end(2) :]
            return Remedy(words, button, "form", "command", {"command": changed})
        return Remedy(words, button, "form", "environment", {"environment": {**payload.environment, name: half}})
    return None


def _time(job: Job, *_: Any) -> list[Remedy]:
    longer = _doubled(job, "time_limit_s", "time", span)
    if not job.checkpointable:
        return [longer]
    return [Remedy("It saves checkpoints, so another run goes on from the last one.", "Go on", "again"), longer]


def _node(job: Job, *_: Any) -> list[Remedy]:
    if job.is_requeueable:
        return [Remedy(f"It lost its node {job.requeues + 1} times.", "Run again", "again")]
    return [
        Remedy(
            "Another node can run it.", "Run again", "again", note="Jobs marked restartable run again by themselves."
        )
    ]


def _doubled(job: Job, name: str, what: str, words: Callable[[float], str]) -> Remedy:
    """Return twice the amount that it asked for; the field to fill in, where it asked for none."""
    was, most = getattr(job, name), BY_NAME[name].high
    if not was or (most and was >= most):
        return _form(f"Say how much {what} it needs.", name)
    twice = min(was * 2, type(was)(most)) if most else was * 2
    return Remedy(f"Give it more {what}: it had {words(was)}.", f"Give it {words(twice)}", "form", name, {name: twice})


def _form(words: str, field: str) -> Remedy:
    return Remedy(words, "Edit and relaunch", "form", field)


def _gib(mib: float) -> str:
    return f"{round(mib / 1024, 2):g} GiB"


MADE: Mapping[Kind, Callable[[Job, Cause, Attempt | None], list[Remedy]]] = {
    Kind.PACKAGE: _package,
    Kind.MODULE: lambda _, cause, __: [_form(f"Send {cause.name}.py along, or a package that has it.", "files")],
    Kind.COMMAND: _command,
    Kind.GPU_MEMORY: _gpu_memory,
    Kind.MEMORY: lambda job, *_: [_doubled(job, "memory_mib", "memory", _gib)],
    Kind.TIME: _time,
    Kind.IDLE: lambda *_: [Remedy("Run it again when you need it.", "Run again", "again")],
    Kind.DISK: lambda job, *_: [_doubled(job, "disk_gib", "disk", "{:g} GiB".format)],
    Kind.NODE_DISK: lambda *_: [_form("Let it write less, or elsewhere.", "command")],
    Kind.NODE: _node,
    Kind.DEPENDENCY: lambda *_: [_form("A retry of that job does not bring this one back.", "depends_on")],
}
