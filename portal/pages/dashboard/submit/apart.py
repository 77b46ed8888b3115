"""Fields of the submit form that have several controls: where the code comes from, software, secrets, the learning rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.foundation.errors import BerthError
from portal.work.jobs.software import BUILD, node_offers
from portal.work.secrets.models import Secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.http import QueryDict

    from portal.pages.dashboard.parts.context import Choice
    from portal.people.tenants.models import Tenant

SOURCES = {"files": "Only these files", "git": "Use a git repository", "path": "a folder on the nodes"}
_GIT = ("git", "ref", "secret")


def code_read(post: QueryDict) -> dict[str, Any]:
    """Return the description's field; nothing where the code comes as files."""
    kind = post.get("code_from", "files")
    if kind == "path":
        return {"code": {"path": post.get("code.path", "").strip()}}
    if kind != "git":
        return {}
    given = {name: value for name in _GIT if (value := post.get(f"code.{name}", "").strip()) or name == "git"}
    return {"code": given | ({"submodules": True} if post.get("code.submodules") else {})}


def code_values(code: Any) -> dict[str, Any]:
    """Return the form's values for a description's field, to edit and relaunch it."""
    if not isinstance(code, dict):
        return {"code_from": "files"}
    if code.get("path"):
        return {"code_from": "path", "code.path": code["path"]}
    values: dict[str, Any] = {f"code.{name}": code.get(name) or "" for name in _GIT}
    return {**values, "code_from": "git", "code.submodules": bool(code.get("submodules"))}


def code_choices(chosen: str) -> list[Choice]:
    known = chosen if chosen in SOURCES else "files"
    return [{"value": kind, "label": label, "selected": kind == known} for kind, label in SOURCES.items()]


def secrets_of(tenants: Iterable[Tenant]) -> list[str]:
    """Return the names of the secrets of these tenants, in order."""
    return sorted(set(Secret.objects.filter(tenant__in=list(tenants)).order_by().values_list("name", flat=True)))


def secret_choices(chosen: str, names: Sequence[str]) -> list[Choice]:
    """Return none, the names, and one that is gone where it was chosen: the page says so when it is sent."""
    known = [*names, *([chosen] if chosen and chosen not in names else [])]
    options = [("", "none: everybody may read it"), *((name, name) for name in known)]
    return [{"value": value, "label": label, "selected": value == chosen} for value, label in options]


def secrets_help(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    told = f"There are {shown}." if names else "There is none yet: your tenant's page sets them."
    return f"VARIABLE=secret, each on a line of its own. {told}"


NAMED = "environment:"
SOFTWARE = {
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
        if given is not None and kind in SOFTWARE:
            return {"software": kind, f"software.{'requirements' if kind == 'requirements' else 'path'}": str(given)}
    return {}


def software_choices(chosen: str, told: Iterable[Mapping[str, Any]]) -> list[Choice]:
    """Return the choices: the node's own, then the names that nodes offer. Each node's offer is one mapping."""
    names = sorted(name for name in {name for each in told for name in node_offers(each)} if name.startswith(NAMED))
    if chosen.startswith(NAMED) and chosen not in names:
        names.append(chosen)  # no node has it any more: the page says so when it is sent
    options = [("", SOFTWARE[""]), *((name, f"environment {name.removeprefix(NAMED)}") for name in names)]
    options += [(kind, label) for kind, label in SOFTWARE.items() if kind]
    return [{"value": value, "label": label, "selected": value == chosen} for value, label in options]


def pythons_offered(told: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the nodes' versions of Python, without the third number."""
    return {".".join(version.split(".")[:2]) for each in told if isinstance(version := each.get("python"), str)}


def software_help(told: Sequence[Mapping[str, Any]]) -> str:
    """Return the note on the choice."""
    if told and not any(BUILD in node_offers(each) for each in told):
        return NO_BUILDER
    return "Packages beside the node's own. What is built is kept for your tenant's next jobs."


RULES = {"none": "the same at every size", "linear": "times size / reference", "sqrt": "times its square root"}


def learning_rate_of(post: QueryDict) -> dict[str, Any]:
    """Return `{"learning_rate": ...}`, or {} when none was given. Raises BerthError when the text is not a number."""
    text, at = post.get("learning_rate", "").strip(), post.get("learning_rate.at", "").strip()
    rule = post.get("learning_rate.rule", "")
    if not text:
        if at:
            detail = "A number of GPUs is given without a learning rate; fill in the rate, or remove the number."
            raise BerthError("required", detail, field="learning_rate")
        return {}
    if ":" in text:
        return {"learning_rate": _rates(text)}
    value = _number(text)
    if not at and rule in {"", "none"}:
        return {"learning_rate": value}
    if not at:
        detail = f"The rule {rule} needs a number of GPUs; say at how many the rate is {text}."
        raise BerthError("required", detail, field="learning_rate.at")
    if not (at.isascii() and at.isdigit() and len(at) < 10):
        raise BerthError("invalid", f"{at[:30]!r} is not a whole number of GPUs.", field="learning_rate.at")
    return {"learning_rate": {"at": int(at), "value": value, "rule": rule or "none"}}


def _rates(text: str) -> dict[str, float]:
    rates: dict[str, float] = {}
    for part in text.replace(";", ",").split(","):
        if part.strip():
            size, _, rate = part.partition(":")
            if size.strip() in rates:
                raise BerthError(
                    "duplicate", f"The size {size.strip()!r} is given twice; give it once.", field="learning_rate"
                )
            rates[size.strip()] = _number(rate.strip())
    return rates


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        detail = (
            f"{text[:30]!r} is not a learning rate; write a number as 4e-4, or one for each size as 1: 1e-4, 2: 2e-4."
        )
        raise BerthError("invalid", detail, field="learning_rate") from None


def rate_values(rate: object) -> dict[str, Any]:
    """Return the form's values for a description's learning rate, to edit and relaunch it."""
    if rate is None:
        return {}
    if not isinstance(rate, dict):
        return {"learning_rate": repr(rate)}
    if "value" not in rate:
        return {"learning_rate": ", ".join(f"{size}: {value!r}" for size, value in rate.items())}
    return {
        "learning_rate": repr(rate["value"]),
        "learning_rate.at": rate.get("at"),
        "learning_rate.rule": rate.get("rule"),
    }
