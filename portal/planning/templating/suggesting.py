"""A template from a job: its own fields, with parameters where they are plain to see: sizes, and options of the command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from portal.foundation.errors import BerthError
from portal.planning.templating.references import command_check
from portal.work.jobs.declaration.table import FIELDS
from portal.work.jobs.description import SHORT_NAMES

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
