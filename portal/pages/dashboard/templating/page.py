"""The pages of job templates: the form that parameters make and how it is read, and the contexts."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.templating.reading import CHANGES, PREFIX, asks_length
from portal.people.tenants.selectors import tenants_of
from portal.planning.templating.filling import value_text
from portal.planning.templating.parameters import limits_words
from portal.planning.templating.selectors import saved_of, templates_for, version_get, versions_of
from portal.planning.templating.services import may_change, may_delete
from portal.planning.templating.yaml_text import difference, shown_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.foundation.errors import BerthError
    from portal.pages.dashboard.parts.context import Choice, FieldContext
    from portal.people.tenants.models import User
    from portal.planning.templating.document import Document
    from portal.planning.templating.models import JobTemplate, TemplateVersion
    from portal.planning.templating.parameters import Parameter

KINDS = {"integer": "number", "choice": "select", "boolean": "check"}
SIZES = "One count, or all that it accepts: 1, 2, 4; or 1-8."


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
        elif problem.field in {*CHANGES, "tenant", "save_as"}:
            found.setdefault(problem.field or "", problem.detail)
        else:
            found.setdefault("", problem.detail)
    return found


def summary_of(document: Document, errors: Mapping[str, str]) -> list[dict[str, Any]]:
    """List mistakes in the form's order; those without a field stand first."""
    labels = {PREFIX + each.name: each.label for each in document.parameters}
    labels |= {**CHANGES, "tenant": "Tenant", "save_as": "Save these settings as"}
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


PAGE_SIZE = 60


def list_context(user: User, text: str, page: int) -> dict[str, Any]:
    found = templates_for(user=user, text=text)
    count = found.count()
    start = (page - 1) * PAGE_SIZE
    return {
        "templates": list(found[start : start + PAGE_SIZE]),
        "count": count,
        "q": text,
        "page": page,
        "next": page + 1 if start + PAGE_SIZE < count else None,
        "previous": page - 1 if page > 1 else None,
    }


def use_context(
    user: User,
    template: JobTemplate,
    version: TemplateVersion,
    document: Document,
    given: Mapping[str, Any],
    problems: list[BerthError],
) -> dict[str, Any]:
    """Return the form. `given`: values by parameter, and beside them `tenant` and `name` as the form says them."""
    errors = errors_of(document, problems)
    tenants = [] if template.tenant else [each.name for each in tenants_of(user)]
    return {
        "template": template,
        "version": version,
        "fields": fields_of(document, given["values"], errors),
        "tenants": tenants if len(tenants) > 1 else [],
        "tenant": given.get("tenant") or "",
        **{name: given.get(name) or "" for name in CHANGES},
        "asks_length": asks_length(document),
        "errors": errors,
        "problems": summary_of(document, errors),
        "saved": list(saved_of(user, template)),
        "from_job": given.get("from_job"),
        "save_as": given.get("save_as") or "",
    }


def detail_context(user: User, template: JobTemplate, shown: TemplateVersion, other: int | None) -> dict[str, Any]:
    """Return one version, all versions, and the difference to `other`."""
    compared = version_get(template, other) if other else None
    return {
        "template": template,
        "shown": shown,
        "document": shown.document,
        "parameters": [_row(each) for each in shown.document["parameters"]],
        "text": shown_text(shown.document),
        "versions": list(versions_of(template)),
        "compared": compared,
        "difference": difference(compared.document, shown.document) if compared else None,
        "may_change": may_change(user, template),
        "may_delete": may_delete(user, template),
    }


def _row(parameter: Mapping[str, Any]) -> dict[str, str]:
    from portal.planning.templating.parameters import parameter_read

    read = parameter_read(parameter, "parameter")
    limits = ", ".join(value_text(each) for each in read.choices) or limits_words(read)
    return {
        "name": read.name,
        "label": read.label,
        "type": read.type,
        "default": "needed" if read.required else value_text(read.default),
        "limits": limits,
        "help": read.help,
    }
