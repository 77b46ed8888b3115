"""The last changes by operators, in words; the audit trail has the codes and all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.foundation.console.show import names_of, plain
from portal.people.tenants.models import AuditEvent
from portal.planning.rounds.settings.plain import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN = 5
LEFT_OUT = ("job.submit", "upload.create", "session.end", "trace.add", "simulation.order")
"""Deeds of operators as of any user."""
SAID: Mapping[str, str] = {
    "node.drained": "took {it} out{why}",
    "node.resumed": "put {it} back",
    "node.declared-dead": "declared {it} dead{why}",
    "node.token-revoked": "revoked the token of {it}",
    "node.register": "let {it} join",
    "gpu.cordon": "took GPU {gpu} of {it} out{why}",
    "gpu.resume": "put GPU {gpu} of {it} back",
    "gpu.mode": "set GPU {gpu} of {it} to {mode}",
    "join-token.create": "made a join token for {node}",
    "tenant.create": "made the tenant {it}",
    "tenant.update": "changed {it}{values}",
    "membership.set": "made {it} a {role} of {tenant}",
    "membership.remove": "took {it} out of {tenant}",
    "user.create": "made the user {it}",
    "user.update": "changed the user {it}{values}",
    "user.password-reset": "reset the password of {it}",
    "job.cancel": "cancelled {it}",
    "job.hold": "held {it}",
    "job.release": "released {it}",
    "job.requeue": "put {it} back into the queue",
    "job.priority": "set the priority of {it} from {from} to {to}",
    "setting.change": "set {setting} from {from} to {to}{reason}",
    "announcement.make": "announced: {text}",
}
PAST: Mapping[str, str] = dict(
    pair.split("=")
    for pair in (
        "add=added cancel=cancelled create=made delete=deleted describe=described edit=changed end=ended keep=kept make=made "
        "measure=measured remove=removed restore=restored retry=reran revoke=revoked save=saved set=set share=shared "
        "train=trained withdraw=withdrew"
    ).split()
)
"""Verbs of other deeds."""


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return ""


def changes_make() -> list[dict[str, Any]]:
    """Return the last changes by operators. Two queries, and one for each kind of target."""
    made = AuditEvent.objects.filter(actor__is_staff=True).exclude(action__in=LEFT_OUT)
    events = list(made.select_related("tenant")[:SHOWN])
    names = names_of(event.target for event in events)
    return [
        {
            "at": event.at.isoformat(),
            "who": event.actor_name,
            "what": words_of(event, names.get(event.target, "")),
            "title": f"{event.action} {event.target}",
            "url": reverse("admin:tenants_auditevent_change", args=[event.pk]),
        }
        for event in events
    ]


def words_of(event: AuditEvent, name: str) -> str:
    """Return an event's deed, without its actor. `name`: of its target, where it has one."""
    kind, _, number = event.target.partition(":")
    it = name or (f"job #{number}" if kind == "job" else f"{kind} {number}")
    said = SAID.get(event.action)
    if said is None:
        verb = event.action.rpartition(".")[2]
        return f"{PAST.get(verb, verb.replace('-', ' ') + ':')} {it}"
    told = event.detail if isinstance(event.detail, dict) else {}
    words = {name: plain(value) for name, value in told.items() if isinstance(value, str | int | float | None)}
    pairs = [
        f"{key.replace('_', ' ')} {plain(pair[0])} to {plain(pair[1])}"
        for key, pair in told.items()
        if isinstance(pair, list) and len(pair) == 2
    ]
    why = f": {told['reason']}" if told.get("reason") else ""
    words |= {"it": it, "why": why, "reason": why, "tenant": event.tenant.name if event.tenant else ""}
    words |= {"values": f": {', '.join(pairs)}" if pairs else "", "setting": label_of(number)}
    return said.format_map(_Known(words))
