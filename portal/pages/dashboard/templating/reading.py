"""The posted form of a job template: a value for each parameter, and the fields that every such form asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.foundation.errors import BerthError
from portal.pages.dashboard.submit.reading import read_text
from portal.work.jobs.declaration.table import BY_NAME
from portal.work.jobs.description import SHORT_NAMES

if TYPE_CHECKING:
    from django.http import QueryDict

    from portal.planning.templating.document import Document

PREFIX = "p_"
CHANGES = {"name": "Name", "expected_duration_s": "Expected duration"}
"""Fields of the job, and their labels, that the form asks for beside the parameters."""
LENGTHS = frozenset({"expected_duration_s", "samples", "epochs"})


def asks_length(document: Document) -> bool:
    """Whether the form asks for an expected duration: the template itself gives no length."""
    return LENGTHS.isdisjoint(SHORT_NAMES.get(each, each) for each in document.job)


def form_read(document: Document, post: QueryDict) -> tuple[dict[str, Any], dict[str, Any], list[BerthError]]:
    """Return the form as it was posted, the fields that it changes in the template's job, and those that cannot be read."""
    given: dict[str, Any] = {name: post.get(name, "").strip() for name in (*CHANGES, "tenant", "save_as")}
    changes, problems = {}, []
    for name in CHANGES:
        try:
            if given[name]:
                changes[name] = read_text(BY_NAME[name], given[name])
        except BerthError as error:
            problems.append(error)
    return given | {"values": _values(document, post)}, changes, problems


def _values(document: Document, post: QueryDict) -> dict[str, Any]:
    """Return the text of each parameter, unchecked."""
    found: dict[str, Any] = {}
    for each in document.parameters:
        text = post.get(PREFIX + each.name, "")
        found[each.name] = bool(text) if each.type == "boolean" else text
    return found
