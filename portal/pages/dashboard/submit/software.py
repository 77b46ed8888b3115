"""The submit form's choice of software: as on the node, an environment by name, requirements, or a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.work.jobs.software import BUILD, node_offers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.http import QueryDict

    from portal.pages.dashboard.parts.context import Choice

NAMED = "environment:"
KINDS = {
    "": "as on the node",
    "requirements": "requirements, built on the node",
    "requirements_file": "a requirements file among its files",
    "path": "an environment's directory on the node",
    "image": "a container image",
}
NO_BUILDER = "No node here builds environments: neither uv nor pip was found. An operator can install one."


def software_read(post: QueryDict) -> dict[str, Any]:
    """Return the form's choice, as the description's field; nothing for the node's own software."""
    kind = post.get("software", "")
    if kind.startswith(NAMED):
        return {"software": {"environment": kind.removeprefix(NAMED)}}
    if kind == "requirements":
        return {"software": {kind: post.get("software.requirements", "")}}
    return {"software": {kind: post.get("software.path", "").strip()}} if kind else {}


def software_values(software: Any) -> dict[str, str]:
    """Return the form's values for a description's field, to edit and relaunch it."""
    if not isinstance(software, dict):
        return {}
    for kind, given in software.items():
        if kind == "environment":
            return {"software": f"{NAMED}{given}"}
        if given is not None and kind in KINDS:
            return {"software": kind, f"software.{'requirements' if kind == 'requirements' else 'path'}": str(given)}
    return {}


def software_choices(chosen: str, told: Iterable[Mapping[str, Any]]) -> list[Choice]:
    """Return the choices: the node's own, then the names that nodes offer. `told`: each node's offer."""
    names = sorted(name for name in {name for each in told for name in node_offers(each)} if name.startswith(NAMED))
    if chosen.startswith(NAMED) and chosen not in names:
        names.append(chosen)  # no node has it any more: the page says so when it is sent
    options = [("", KINDS[""]), *((name, f"environment {name.removeprefix(NAMED)}") for name in names)]
    options += [(kind, label) for kind, label in KINDS.items() if kind]
    return [{"value": value, "label": label, "selected": value == chosen} for value, label in options]


def software_help(told: Sequence[Mapping[str, Any]]) -> str:
    """Return the note on the choice."""
    if told and not any(BUILD in node_offers(each) for each in told):
        return NO_BUILDER
    return "Packages beside the node's own. What is built is kept for your tenant's next jobs."
