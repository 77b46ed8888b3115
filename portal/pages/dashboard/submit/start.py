"""Starts of the submit form: an earlier job, templates, saved settings, and a batch script that a person brings."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from portal.cluster.selectors import gpu_type_names
from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.pages.dashboard.submit.files import text_of
from portal.pages.dashboard.submit.form import initial_of
from portal.planning.rounds.read.cores import import_starts
from portal.planning.templating.selectors import saved_get, saved_of, templates_for
from portal.work.jobs.declaration.table import TABLE
from portal.work.jobs.description import SHORT_NAMES, description_examine
from portal.work.jobs.description_parts import MAX_FILES_BYTES
from portal.work.jobs.failing.mending import remedies_now
from portal.work.jobs.imports import text_import
from portal.work.jobs.lineage import description_again
from portal.work.sweeps.models import TaskReading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import QueryDict

    from portal.pages.dashboard.submit.files import Uploads
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job


SHOWN = {"gpus", "files", *(field.name for field in TABLE if field.form)}
"""Fields that the form asks for."""
TENSORBOARD: dict[str, Any] = {
    "name": "tensorboard",
    "command": "tensorboard --host 127.0.0.1 --port 6006 --logdir events",
    "gpus": [0],
    "software": {"requirements": "tensorboard==2.20.0"},
    "idle_timeout_s": 7200,
}
"""A job that shows event files; its page offers its port."""
MOST_TEMPLATES = 6
MOST_SAVED = 100


def start_context(user: User) -> dict[str, Any]:
    """Return the first templates, how many there are, and the person's saved forms. Three queries."""
    found = templates_for(user=user)
    return {
        "templates": list(found[:MOST_TEMPLATES]),
        "count": found.count(),
        "saved": list(saved_of(user, None)[:MOST_SAVED]),
    }


def again_values(job: Job, asked: QueryDict, task: Job | None = None) -> dict[str, Any]:
    """Return the form's values for a job like this one.

    `asked` may name the artefact that it begins with, the page that shows it, or the field that a remedy changes.
    `task`: of this array; the form is for one job then, with the task's parameters as variables.
    """
    artefact, mended = asked.get("begin_with", ""), asked.get("mend", "")
    if artefact and asked.get("show") == TENSORBOARD["name"]:
        begins = {"job": job.number, "path": artefact, "as": f"events/{artefact}".rstrip("/")}
        return initial_of(TENSORBOARD | {"inputs": [begins]})
    description = description_again(job, artefact)
    if task is not None:
        description |= {"environment": {**(description.get("environment") or {}), **_parameters(task)}, "array": None}
    change = next((each.change for each in remedies_now(job) if each.at == mended), {}) if mended else {}
    files = {name: each["base64"] for name, each in change.get("files", {}).items()} or job.brought.files
    return initial_of({**description, **change}) | {"files": files, "depends_on": ""}


def _parameters(task: Job) -> dict[str, str]:
    """Return the parameters that the task wrote, where their names may be names of variables."""
    reading = TaskReading.objects.filter(task=task).first()
    told = reading.parameters if reading else {}
    texts = {name: str(value) for name, value in told.items() if name.isascii() and name.isidentifier()}
    return {name: text for name, text in texts.items() if "\n" not in text}  # the form has a variable a line


def description_saved(user: User, number: str) -> dict[str, Any]:
    """Return the description that was saved of the whole form; {} for one of a template. Raises NotFound."""
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    saved = saved_get(int(number) if is_number else 0, user=user)
    return {} if saved.template_id else dict(saved.values)


def import_read(
    post: QueryDict, uploads: Uploads | None, *, user: User, r_num: int
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return values for the form, and the report above it. None: the text is no job, and `problems` says why."""
    text, words = post.get("script", ""), post.get("script_arguments", "")
    context: dict[str, Any] = {"text": text, "arguments": words, "lines": [], "left_out": [], "problems": []}
    try:
        context["text"] = text = _read_upload(uploads) or text
        found = text_import(text, gpu_types=gpu_type_names(), arguments=_arguments(words), begins=import_starts(user))
    except BerthError as error:
        context["problems"] = [error.detail]
        return None, context
    parsed, problems = description_examine(found.description, r_num=r_num)
    if parsed is None:
        context["problems"] = [
            f"{problem.field}: {problem.detail}" if problem.field else problem.detail for problem in problems
        ]
        return None, context
    values = initial_of(found.description)
    values["files"] = parsed.files
    verdicts = Counter(line.verdict for line in found.lines)
    context["lines"], context["amiss"] = found.lines, bool(verdicts.keys() & {"refused", "looser"})
    context["digest"] = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    context["left_out"] = _left_out(found.description)
    return values, context


def _arguments(words: str) -> list[str]:
    try:
        return shlex.split(checks.text_safe(words, "arguments"))
    except ValueError:
        detail = "The arguments open a quotation that does not end."
        raise BerthError("unreadable", detail, field="arguments") from None


def _read_upload(uploads: Uploads | None) -> str:
    refusal = BerthError("too_long", "The file is larger than 1 MiB; that is no script.", field="text")
    return text_of(uploads.get("script_file") if uploads else None, MAX_FILES_BYTES, refusal)


def _left_out(description: Mapping[str, Any]) -> list[str]:
    """Return sentences on what the form has no field for."""
    told = [
        f"The form has no field for {name}."
        for name, value in description.items()
        if value is not None and SHORT_NAMES.get(name, name) not in SHOWN
    ]
    if len(description.get("gpu_types") or ()) > 1:
        told.append("The form takes one GPU type, or any.")
    return told
