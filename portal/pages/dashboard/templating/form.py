"""The form that a job template's parameters make, and how it is read."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from portal.planning.templating.filling import value_text
from portal.planning.templating.parameters import limits_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import QueryDict

    from portal.foundation.errors import BerthError
    from portal.pages.dashboard.parts.context import Choice, FieldContext
    from portal.planning.templating.document import Document
    from portal.planning.templating.parameters import Parameter

PREFIX = "p_"
KINDS = {"integer": "number", "choice": "select", "boolean": "check"}
SIZES = "One count, or all that it accepts: 1, 2, 4; or 1-8."


def values_posted(document: Document, post: QueryDict) -> dict[str, Any]:
    """Return the form's text of each parameter, unchecked."""
    found: dict[str, Any] = {}
    for each in document.parameters:
        text = post.get(PREFIX + each.name, "")
        found[each.name] = bool(text) if each.type == "boolean" else text
    return found


def fields_of(document: Document, values: Mapping[str, Any], errors: Mapping[str, str]) -> list[FieldContext]:
    """Return a field for each parameter with its value, or its default."""
    return [
        _field(each, values.get(each.name, each.default), errors.get(PREFIX + each.name))
        for each in document.parameters
    ]


def _field(parameter: Parameter, value: Any, error: str | None) -> FieldContext:
    kind = "textarea" if parameter.lines else KINDS.get(parameter.type, "text")
    made: FieldContext = {
        "name": PREFIX + parameter.name,
        "label": parameter.label,
        "kind": kind,  # type: ignore[typeddict-item] # the names of the form's own kinds
        "value": value if isinstance(value, str) else value_text(value),
        "help": _help(parameter),
        "error": error,
        "width": 12 if kind in {"textarea", "check"} else 6,
        "mono": parameter.type in {"path", "secret"} or parameter.lines,
        "required": parameter.required,
    }
    if not parameter.required and parameter.type not in {"choice", "boolean", "text"}:
        made["placeholder"] = value_text(parameter.default)
    if kind == "check":
        made["checked"] = bool(value)
    if kind == "select":
        chosen = value_text(value)
        made["choices"] = [_choice(each, chosen) for each in ([""] if value in (None, "") else [])]
        made["choices"] += [_choice(value_text(each), chosen) for each in parameter.choices]
    return made


def _choice(value: str, chosen: str) -> Choice:
    return {"value": value, "label": value or "none chosen", "selected": value == chosen}


def _help(parameter: Parameter) -> str:
    told = [parameter.help.rstrip(".") + "." if parameter.help else ""]
    if parameter.type == "gpus":
        told.append(SIZES)
    if parameter.type == "secret":
        told.append("The name of a secret of the tenant, as its page lists them.")
    if limits := limits_words(parameter):
        told.append(f"{limits[0].upper()}{limits[1:]}.")
    if parameter.type == "text" and parameter.longest < 200:
        told.append(f"At most {parameter.longest} characters.")
    return " ".join(filter(None, told))


def errors_of(document: Document, problems: list[BerthError]) -> dict[str, str]:
    """Return the first error of each field of the form; "" is the whole form's."""
    labels = {each.name: each.label for each in document.parameters}
    found: dict[str, str] = {}
    for problem in problems:
        top, _, rest = (problem.field or "").partition(".")
        name = rest.partition(".")[0]
        if top == "values" and name in labels:
            detail = problem.detail.replace(f"`values.{name}`", f"`{labels[name]}`").replace(
                f"`{name}`", f"`{labels[name]}`"
            )
            found.setdefault(PREFIX + name, detail)
        elif problem.field in {"tenant", "name", "save_as"}:
            found.setdefault(problem.field or "", problem.detail)
        else:
            found.setdefault("", problem.detail)
    return found


def summary_of(document: Document, errors: Mapping[str, str]) -> list[dict[str, Any]]:
    """List mistakes in the form's order; those without a field stand first."""
    labels = {PREFIX + each.name: each.label for each in document.parameters}
    labels |= {"tenant": "Tenant", "name": "Name", "save_as": "Save these settings as"}
    order = {name: place for place, name in enumerate(labels)}
    return [
        {"field": name, "label": labels.get(name), "target": f"id_{name}" if name in labels else None, "detail": detail}
        for name, detail in sorted(errors.items(), key=lambda item: order.get(item[0], -1))
    ]


def command_line(document: Document, version: int, values: Mapping[str, Any], more: Mapping[str, str]) -> str:
    """Return the same job for a shell: only values that are not the defaults are named."""
    words = ["berth", "submit", "--template", document.name, "--template-version", str(version)]
    for each in document.parameters:
        value = values[each.name]
        if each.required or value != each.default:
            words += ["--set", f"{each.name}={value_text(value)}"]
    for flag, text in more.items():
        words += [flag, text] if text else []
    return shlex.join(words)
