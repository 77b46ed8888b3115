"""Contexts of the pages of job templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.templating.form import errors_of, fields_of, summary_of
from portal.people.tenants.selectors import tenants_of
from portal.planning.templating.filling import value_text
from portal.planning.templating.parameters import limits_words
from portal.planning.templating.selectors import saved_of, templates_for, version_get, versions_of
from portal.planning.templating.services import may_change, may_delete
from portal.planning.templating.yaml_text import difference, shown_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.foundation.errors import BerthError
    from portal.people.tenants.models import User
    from portal.planning.templating.document import Document
    from portal.planning.templating.models import JobTemplate, TemplateVersion

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
        "name": given.get("name") or "",
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
