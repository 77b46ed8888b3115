"""Starts of the submit form: an earlier job, templates, saved settings, and a batch script that a person brings."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from portal.cluster.selectors import gpu_type_names
from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.pages.dashboard.submit.files import text_of
from portal.pages.dashboard.submit.form import initial_of
from portal.planning.templating.selectors import saved_get, saved_of, templates_for
from portal.work.jobs.declaration.table import TABLE
from portal.work.jobs.description import SHORT_NAMES, description_examine
from portal.work.jobs.description_parts import MAX_FILES_BYTES
from portal.work.jobs.finding.lineage import description_again
from portal.work.jobs.imports import text_import

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import QueryDict

    from portal.pages.dashboard.submit.files import Uploads
    from portal.people.tenants.models import User
    from portal.work.jobs.models import Job


SHOWN = {"gpus", "files", *(field.name for field in TABLE if field.form)}
"""Fields that the form asks for."""
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


def again_values(job: Job, artefact: str) -> dict[str, Any]:
    """Return the form's values for a job like this one; `artefact`: the file that it begins with."""
    payload = job.array.payload if job.array_id else job.payload
    return initial_of(description_again(job, artefact)) | {"files": payload.files, "depends_on": ""}


def description_saved(user: User, number: str) -> dict[str, Any]:
    """Return the description that was saved of the whole form; {} for one of a template. Raises NotFound."""
    is_number = number.isascii() and number.isdigit() and len(number) < 10
    saved = saved_get(int(number) if is_number else 0, user=user)
    return {} if saved.template_id else dict(saved.values)


def import_read(
    post: QueryDict, uploads: Uploads | None, *, r_num: int
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return values for the form, and the report above it. None: the text is no job, and `problems` says why."""
    text, words = post.get("script", ""), post.get("script_arguments", "")
    context: dict[str, Any] = {"text": text, "arguments": words, "lines": [], "left_out": [], "problems": []}
    try:
        context["text"] = text = _read_upload(uploads) or text
        found = text_import(text, gpu_types=gpu_type_names(), arguments=_arguments(words))
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
    context["lines"] = found.lines
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
