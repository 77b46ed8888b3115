"""The client's part of the table as Python text: the client imports nothing of the portal, so it gets this file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from portal.work.jobs.declaration.openapi import property_of
from portal.work.jobs.declaration.table import PLAIN, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from portal.work.jobs.declaration.table import JobField

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
        _call("Flag", flag.name, each.name, _kind(each), flag.metavar, flag.help)
        for each in TABLE
        if (flag := each.flag) is not None
    ]
    shown = [
        _call("", each.label[0].lower() + each.label[1:], each.name, _kind(each))
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


def _kind(field: JobField) -> str:
    """Return how the command line reads and shows a value."""
    if field.name in READ_AS:
        return READ_AS[field.name]
    if field.unit:
        return "duration" if field.unit in {"s", "min", "h"} else "mib" if field.name.endswith("_mib") else "gib"
    return field.kind if field.kind in {"whole", "time"} else "text"
