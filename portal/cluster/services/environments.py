"""Change named software environments for an operator. All nodes get each change with their next lists of parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import F

from portal.cluster.models import NamedEnvironment, Node
from portal.foundation import checks
from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.services import node_wake, page_event
from portal.people.tenants.services import audit_record

if TYPE_CHECKING:
    from portal.people.tenants.models import User

MOST_ENVIRONMENTS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


@transaction.atomic
def environment_add(*, name: str, directory: str, note: str = "", actor: User | None) -> NamedEnvironment:
    """Name an environment. Raises BerthError for a wrong value, Conflict where the name is taken."""
    if not _NAME.match(name):
        raise BerthError("bad_name", "A name is 1 to 63 letters, digits and `._-`.", field="name")
    if NamedEnvironment.objects.count() >= MOST_ENVIRONMENTS:
        raise BerthError("too_many", f"There are {MOST_ENVIRONMENTS} environments, the most; remove one first.")
    try:
        with transaction.atomic():
            made = NamedEnvironment.objects.create(name=name, **_checked(directory, note))
    except IntegrityError:
        raise Conflict("name_taken", f"There is an environment {name} already.", field="name") from None
    _changed("add", made, actor, {"directory": made.directory})
    return made


@transaction.atomic
def environment_change(
    *, environment: NamedEnvironment, directory: str, note: str, actor: User | None
) -> NamedEnvironment:
    """Change its directory and its note. Jobs that run in it go on. Raises BerthError."""
    row = NamedEnvironment.objects.select_for_update().get(pk=environment.pk)
    values = _checked(directory, note)
    detail = {name: [getattr(row, name), value] for name, value in values.items() if getattr(row, name) != value}
    if detail:
        for name, value in values.items():
            setattr(row, name, value)
        row.save()
        _changed("change", row, actor, detail)
    return row


@transaction.atomic
def environment_remove(*, environment: NamedEnvironment, actor: User | None) -> None:
    """Name it no more. Its files stay on the nodes; waiting jobs that ask for it say why they wait."""
    NamedEnvironment.objects.filter(pk=environment.pk).delete()
    _changed("remove", environment, actor, {"directory": environment.directory})


def _checked(directory: str, note: str) -> dict[str, str]:
    path = checks.text(directory, "directory", max_chars=1024).rstrip("/")
    if not path.startswith("/") or ".." in path.split("/") or ":" in path:
        detail = "Give an absolute directory below /, without `..` and `:`, as in /opt/torch."
        raise BerthError("path_escape", detail, field="directory")
    checks.credentials_refuse(note, "note")
    return {"directory": path, "note": checks.text(note, "note", max_chars=200, blank=True)}


def _changed(verb: str, environment: NamedEnvironment, actor: User | None, detail: dict[str, Any]) -> None:
    """Record it, and let all nodes' long polls answer."""
    audit_record(
        actor=actor,
        action=f"environment.{verb}",
        target=f"environment:{environment.name}",
        detail={"name": environment.name, **detail},
    )
    Node.objects.alive().update(revision=F("revision") + 1)
    for pk in Node.objects.alive().values_list("pk", flat=True):
        node_wake(node_id=pk)
    page_event(stream="cluster", topic="node")
