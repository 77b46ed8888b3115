"""A job template's document: its name, its purpose, its parameters, and the job's fields that refer to them.

Pure: no database. It is checked as a whole, so that a template which is kept makes a valid description of every valid value,
as far as the description's own fields can tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.planning.templating.filling import filled, sample
from portal.planning.templating.parameters import MOST_PARAMETERS, Parameter, parameter_read
from portal.planning.templating.references import MOST_REFERENCES, command_check, references_in, texts_of
from portal.work.jobs.description import SHORT_NAMES, description_examine

MOST_BYTES = 256 * 1024
MOST_ARGUMENTS = 1000
_NOT_IN_JOB = {
    "tenant": "A template cannot have a `tenant`: whoever submits it chooses the tenant.",
    "upload": "A template cannot have an `upload`: put small files into `files`, large ones on storage.",
}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
KEYS = frozenset({"name", "title", "about", "parameters", "job"})


@dataclass(frozen=True)
class Document:
    """A valid document. `job`: the fields of a description, in whose texts `${{ name }}` stands for a value."""

    name: str
    title: str
    about: str
    parameters: tuple[Parameter, ...]
    job: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "parameters": [each.as_json() for each in self.parameters],
            "job": dict(self.job),
        }


def document_read(data: object) -> Document:
    """Return the document. Raises BerthError, whose field is a path in it such as `parameters[1].least` or `job.command`."""
    found = checks.mapping(data, "document", max_items=20)
    checks.known_keys(found, "document", required={"name", "job"}, optional=KEYS)
    name = found["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        detail = "`name` must be 1 to 63 lower-case letters, digits, `.`, `_` and `-`, first a letter or digit."
        raise BerthError("bad_name", detail, field="name")
    made = Document(
        name=name,
        title=_line(found, "title", 100) or name,
        about=_line(found, "about", 1000),
        parameters=_parameters(found.get("parameters")),
        job=dict(checks.mapping(found["job"], "job", max_items=100)),
    )
    if len(json.dumps(made.as_json())) > MOST_BYTES:
        detail = "The template is larger than 256 KiB; put large files on storage that the nodes can read."
        raise BerthError("too_large", detail, field="job")
    _job_check(made)
    for field in ("title", "about", "parameters"):
        checks.credentials_refuse(made.as_json()[field], field, named="job.secrets")
    return made


def document_kept(data: Mapping[str, Any]) -> Document:
    """Return a document that was checked when it was kept."""
    parameters = [parameter_read(each, f"parameters[{n}]") for n, each in enumerate(data["parameters"])]
    return Document(data["name"], data["title"], data["about"], tuple(parameters), data["job"])


def _line(found: Mapping[str, Any], name: str, most: int) -> str:
    value = found.get(name)
    if value is None:
        return ""
    text = " ".join(value.split()) if isinstance(value, str) and len(value) < 10 * most else value
    return checks.text(text, name, max_chars=most, blank=True)


def _parameters(value: object) -> tuple[Parameter, ...]:
    if value is None:
        return ()
    found = tuple(
        parameter_read(each, f"parameters[{place}]")
        for place, each in enumerate(checks.items(value, "parameters", max_items=MOST_PARAMETERS))
    )
    names = [each.name.lower() for each in found]
    for place, name in enumerate(names):
        if name in names[:place]:
            detail = f"Two parameters are named `{name}`; rename one."
            raise BerthError("duplicate", detail, field=f"parameters[{place}].name")
    return found


def _job_check(made: Document) -> None:
    """Refuse references that mean nothing, and a job that would not be valid with its defaults and smallest values."""
    for name, detail in _NOT_IN_JOB.items():
        if name in made.job:
            raise BerthError("not_allowed", detail, field=f"job.{name}")
    used = references_used(made.job)
    known = {each.name for each in made.parameters}
    for name, field in used:
        if name not in known:
            detail = (
                f"`{field}` refers to `{name}`, which is not a parameter; add it to `parameters`, or correct the name."
            )
            raise BerthError("unknown_parameter", detail, field=field)
    for place, each in enumerate(made.parameters):
        if each.name not in {name for name, _ in used}:
            detail = (
                f"The parameter `{each.name}` is used nowhere; put `${{{{ {each.name} }}}}` into the job, or remove it."
            )
            raise BerthError("unused", detail, field=f"parameters[{place}]")
    _, problems = description_examine(filled(made.job, made.parameters, sample(made.parameters)))
    for problem in problems:
        field = f"job.{problem.field}" if problem.field else "job"
        raise BerthError(problem.code, problem.detail, field=field)


def references_used(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (parameter, field) of each reference in a job's fields. Raises BerthError for one that may not stand there."""
    used: list[tuple[str, str]] = []
    for name, value in job.items():
        field = f"job.{name[:60]}"
        if name == "files":
            _files_check(value)
        elif name == "command" and isinstance(value, str):
            used += [(each, field) for each in command_check(value)]
        else:
            if name == "command":
                checks.items(value, field, max_items=MOST_ARGUMENTS)
            used += [(each, at) for at, text in texts_of(value, field) for _, _, each in references_in(text, at)]
        if len(used) > MOST_REFERENCES:
            detail = (
                f"The job refers to parameters more than {MOST_REFERENCES} times; pass a file or a variable instead."
            )
            raise BerthError("too_many", detail, field=field)
    return used


def _files_check(files: object) -> None:
    """Files are sent as they stand: a program reads its parameters from its arguments or its environment."""
    for name, content in checks.mapping(files, "job.files", max_items=1000).items():
        if isinstance(content, str) and "${{" in content:
            detail = f"The file {checks.quoted(name)} holds `${{{{`: files are sent as they stand; give it arguments instead."
            raise BerthError("bad_reference", detail, field="job.files")


def parameters_of_field(job: Mapping[str, Any], field: str) -> list[str]:
    """Return the parameters that a field of the description was made of; short names count."""
    top = field.split(".", 1)[0].split("[", 1)[0]
    names = {f"job.{each}" for each in job if SHORT_NAMES.get(each, each) == top}
    return list(dict.fromkeys(name for name, at in references_used(job) if ".".join(at.split(".")[:2]) in names))
