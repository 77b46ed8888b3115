"""A job from a template: its description from values, their errors by parameter, and the submission. And a template from a job.

The template suggested is the job's own fields, with parameters where they are plain to see: sizes, and options of the command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.people.tenants.models import Tenant, User
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.templating.document import Document, document_kept, parameters_of_field
from portal.planning.templating.filling import filled, values_read
from portal.planning.templating.references import command_check
from portal.work.jobs.declaration.table import FIELDS
from portal.work.jobs.description import READ_ONLY, SHORT_NAMES
from portal.work.jobs.models import Job
from portal.work.jobs.services.submission import job_submit, submission_problems

if TYPE_CHECKING:
    from portal.planning.templating.models import JobTemplate, TemplateVersion


@dataclass(frozen=True)
class Order:
    """A template filled with values: the description, and the job's memory of its origin."""

    document: Document
    description: dict[str, Any]
    origin: dict[str, Any]


def order_make(
    template: JobTemplate,
    version: TemplateVersion,
    values: object,
    changes: object = None,
    *,
    tenant: str | None = None,
) -> tuple[Order | None, list[BerthError]]:
    """Return the order, or None and the errors of the values. `changes`: fields in place of the template's own."""
    document = document_kept(version.document)
    read, problems = values_read(document.parameters, values)
    if problems:
        return None, problems
    made = filled(document.job, document.parameters, read)
    description = {SHORT_NAMES.get(name, name): value for name, value in made.items()} | _changes(changes)
    whose = template.tenant.name if template.tenant else tenant
    if tenant not in (None, whose):
        detail = f"This is a template of {whose}, and makes jobs of {whose} alone."
        return None, [BerthError("conflict", detail, field="tenant")]
    if whose is not None:
        description["tenant"] = whose
    origin = {
        "id": template.pk,
        "name": template.name,
        "version": version.number,
        "tenant": template.tenant.name if template.tenant else None,
        "values": read,
    }
    return Order(document, description, origin), []


def _changes(changes: object) -> dict[str, Any]:
    if changes is None:
        return {}
    found = checks.mapping(changes, "job", max_items=100)
    for name in found:
        if name == "tenant" or name in READ_ONLY:
            shown = checks.quoted(name)
            detail = f"`job` cannot change {shown}. The tenant is given beside `job`."
            raise BerthError("not_changeable", detail, field=f"job.{shown.strip(chr(39))}")
    return {SHORT_NAMES.get(name, name): value for name, value in found.items()}


def order_submit(order: Order, *, user: User, tenant: Tenant | None, key: str | None = None) -> Job:
    """Submit it. Raises BerthError as a submission does; the field is the parameter's where only one fills it."""
    try:
        return job_submit(
            user=user,
            tenant=tenant,
            description=order.description,
            idempotency_key=key,
            r_num=knobs_current()["r_num"],
            template=order.origin,
        )
    except BerthError as error:
        raise of_parameter(order.document, error) from None


def order_problems(order: Order, *, user: User) -> list[BerthError]:
    """Return every reason to refuse it, each with its parameter's name where only one fills the field."""
    found = submission_problems(user=user, description=order.description, r_num=knobs_current()["r_num"])
    return [of_parameter(order.document, each) for each in found]


def of_parameter(document: Document, error: BerthError) -> BerthError:
    """Return the error with the field `values.NAME` where that one parameter fills the field that is wrong."""
    names = parameters_of_field(document.job, error.field) if error.field else []
    if len(names) != 1:
        return error
    return BerthError(error.code, error.detail, field=f"values.{names[0]}", status=error.status)


def values_known(document: Document, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of saved values whose parameters this version still has."""
    names = {each.name for each in document.parameters}
    return {name: value for name, value in values.items() if name in names}


MOST = 12
APART = frozenset({"tenant", "depends_on", "priority", "upload"})
_OPTION = re.compile(r"(?<![\w-])--([A-Za-z][\w-]{0,30})(=| {1,4})([A-Za-z0-9_.+][\w.+-]{0,60})(?=[ \n]|\Z)", re.ASCII)
_INTEGER = re.compile(r"[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)


def document_suggested(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document, unchecked, that makes the job again where every parameter keeps its default."""
    job = {SHORT_NAMES.get(name, name): value for name, value in description.items() if value is not None}
    job = {name: value for name, value in job.items() if name in FIELDS and name not in APART}
    parameters: list[dict[str, Any]] = []
    if isinstance(job.get("command"), str):
        job["command"], parameters = _with_options(job["command"])
    if job.get("gpus") not in (None, 0, [0]) and "gpus" not in {each["name"] for each in parameters}:
        parameters.append({"name": "gpus", "type": "gpus", "label": "GPUs", "default": job["gpus"]})
        job["gpus"] = "${{ gpus }}"
    name = re.sub(r"[^a-z0-9._-]+", "-", str(job.get("name") or "my-template").lower()).strip("-._")[:63]
    return {"name": name or "my-template", "title": "", "about": "", "parameters": parameters, "job": job}


def _with_options(command: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the command with references in place of its options' values, as far as each may stand there."""
    parameters: list[dict[str, Any]] = []

    def taken(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        if len(parameters) >= MOST or name in {each["name"] for each in parameters}:
            return found[0]
        parameters.append({"name": name, **_typed(found[3])})
        return f"--{found[1]}{found[2]}${{{{ {name} }}}}"

    made = _OPTION.sub(taken, command)
    try:
        command_check(made)
    except BerthError:
        return command, []
    return made, parameters


def _typed(text: str) -> dict[str, Any]:
    if _INTEGER.fullmatch(text):
        return {"type": "integer", "default": int(text)}
    if _NUMBER.fullmatch(text):
        return {"type": "number", "default": float(text)}
    return {"type": "text", "default": text}
