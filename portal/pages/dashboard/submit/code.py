"""The submit form's choice of where the code comes from, and the secrets that its fields may name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.work.secrets.models import Secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.http import QueryDict

    from portal.pages.dashboard.parts.context import Choice
    from portal.people.tenants.models import Tenant

KINDS = {"files": "Files", "git": "A git repository", "path": "A folder on the nodes"}
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
    known = chosen if chosen in KINDS else "files"
    return [{"value": kind, "label": label, "selected": kind == known} for kind, label in KINDS.items()]


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
