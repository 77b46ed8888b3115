"""The job description for readers and tools: its OpenAPI schema with examples. `description_parse` is what checks.

The client imports nothing of the portal, so it gets its part of the table as a file of Python.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiExample

from portal.foundation.api.schema import RawSchema
from portal.work.jobs.declaration.schema import record
from portal.work.jobs.declaration.table import PLAIN, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from portal.work.jobs.declaration.table import JobField


def property_of(field: JobField) -> dict[str, Any]:
    """Return the field's OpenAPI schema."""
    found: dict[str, Any] = {**_kind(field), **field.schema}
    if field.name != "command":
        found["nullable"] = True
    if field.says:
        found["description"] = field.says
    if field.default is not None and field.kind in {"whole", "choice"}:
        found["default"] = field.default
    return found


def _kind(field: JobField) -> dict[str, Any]:
    match field.kind:
        case "text":
            return {"type": "string", "maxLength": field.most_chars}
        case "whole":
            return {"type": "integer", "minimum": field.low, "maximum": field.high}
        case "number":
            return {"type": "number", "minimum": field.low, "exclusiveMinimum": True, "maximum": field.high}
        case "flag":
            return {"type": "boolean"}
        case "choice":
            return {"type": "string", "enum": [*field.choices, None]}
        case "time":
            return {"type": "string", "format": "date-time"}
        case "lines":
            return {"type": "array"}
    return {}


PROPERTIES = {field.name: property_of(field) for field in TABLE}


class JobDescription(RawSchema):
    """The body of POST /jobs."""

    schema = {
        **record(PROPERTIES, ["command"]),
        "description": "What to run and what it needs. null is the same as not given; unknown fields are refused.",
    }


EXAMPLES = (
    OpenApiExample(
        "An elastic training",
        request_only=True,
        value={
            "name": "convnext-b-aerial",
            "model": "convnext-b",
            "command": "torchrun --nproc_per_node=$BERTH_GPUS train.py --epochs 30",
            "working_directory": "/home/lena/aerial",
            "category": "cv",
            "pipelined": True,
            "parameters": 89_000_000,
            "gpus": [1, 2, 4],
            "cores_per_gpu": 4,
            "memory_mib": 24_576,
            "time_limit_s": 36_000,
            "batch_per_gpu": 128,
            "samples": 5_760_000,
            "learning_rate": {"at": 4, "value": 4.0e-4, "rule": "linear"},
            "checkpointable": True,
        },
    ),
    OpenApiExample(
        "A CPU array with its script",
        request_only=True,
        value={
            "name": "count-words",
            "command": "python count.py",
            "gpus": 0,
            "cores": 1,
            "files": {"count.py": "import os\nprint(os.environ['BERTH_ARRAY_INDEX'])\n"},
            "array": {"size": 20, "concurrency": 4},
        },
    ),
)


HEAD = '''"""A job's fields: types, flags, labels. Made by `./berth manage client_fields`; do not edit."""

from __future__ import annotations

from typing import Any, NamedTuple, Required, TypedDict


class Flag(NamedTuple):
    """One flag, and the field of the description that it fills. Without `metavar` it is a switch."""

    name: str
    field: str
    kind: str
    metavar: str
    help: str
'''
WIDTH = 120
TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
READ_AS = {"gpus": "gpus", "array": "array", "learning_rate": "number", "gpu_compute": "number"}


def client_text() -> str:
    """Return `client/berth_client/fields.py`."""
    request = [f"    {each.name}: {_request_type(each)}" for each in TABLE]
    listed, more = ([each for each in TABLE if each.listed], [each for each in PLAIN if not each.listed])
    flags = [
        _call("Flag", flag.name, each.name, _read_as(each), flag.metavar, flag.help)
        for each in TABLE
        if (flag := each.flag) is not None
    ]
    shown = [
        _call("", each.label[0].lower() + each.label[1:], each.name, _read_as(each))
        for each in listed
        if each.unit or each.kind == "time"
    ]
    says = "The command and its needs; `/api/v1/docs` explains each field."
    parts = [
        HEAD,
        _class("JobDescription", says, request, ", total=False"),
        _class("Asked", "REST's answer for a job in a list.", _answers(listed)),
        _class("AskedMore", "More of REST's answer for one job.", _answers(more)),
        "\n".join(
            [
                "FLAGS = (",
                *flags,
                ")\nSHOWN = (",
                *shown,
                ')\n"""Label, field and kind of each request that is shown."""\n',
            ]
        ),
    ]
    return "\n\n".join(parts)


def _call(function: str, *values: str) -> str:
    """Return a call as `ruff format` would write it."""
    texts = [json.dumps(value) for value in values]
    line = f"    {function}({', '.join(texts)}),"
    if len(line) <= WIDTH:
        return line
    within = f"        {', '.join(texts)}"
    inner = within if len(within) <= WIDTH else "\n".join(f"        {each}," for each in texts)
    return f"    {function}(\n{inner}\n    ),"


def _class(name: str, says: str, lines: Iterable[str], more: str = "") -> str:
    return "\n".join([f"class {name}(TypedDict{more}):", f'    """{says}"""', "", *lines, ""])


def _answers(fields: Iterable[JobField]) -> list[str]:
    return [
        f"    {each.name}: {each.answer or _type(property_of(each)) + (' | None' if each.default is None else '')}"
        for each in fields
    ]


def _request_type(field: JobField) -> str:
    schema = property_of(field)  # made anew: the generator of REST's document changes what it was given
    return f"{_type(schema)} | None" if schema.get("nullable") else f"Required[{_type(schema)}]"


def _type(schema: Mapping[str, Any]) -> str:
    if "oneOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["oneOf"]))
    if schema["type"] == "array":
        return f"list[{_type(schema['items'])}]"
    if schema["type"] == "object":
        inner = schema.get("additionalProperties")
        return f"dict[str, {_type(inner) if inner else 'Any'}]"
    return TYPES[schema["type"]]


def _read_as(field: JobField) -> str:
    """Return how the command line reads and shows a value."""
    if field.name in READ_AS:
        return READ_AS[field.name]
    if field.unit:
        return "duration" if field.unit in {"s", "min", "h"} else "mib" if field.name.endswith("_mib") else "gib"
    return field.kind if field.kind in {"whole", "time"} else "text"
