"""Change how plannings are made; every change is checked, audited, and in force from the next planning."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import JSONField, Value

from portal.foundation.events.services import page_event, plan_nudge
from portal.people.tenants.models import User
from portal.people.tenants.services import audit_record
from portal.planning.rounds.models import OperatorSetting
from portal.planning.rounds.settings.knobs import knob_check, knobs_current
from portal.planning.rounds.settings.schedule import schedule_make


@transaction.atomic
def settings_update(*, actor: User | None, reason: str = "", **values: Any) -> dict[str, Any]:
    """Set knobs by name and return all values in force. Raises BerthError naming a bad value, and then changes none.

    `reason` stands in the audit trail.
    """
    checked = {name: knob_check(name=name, value=value) for name, value in values.items()}
    before = knobs_current()
    changed = {name: value for name, value in checked.items() if before[name] != value}
    for name, value in changed.items():
        stored = Value(None, JSONField()) if value is None else value  # a bare None would be SQL's NULL
        OperatorSetting.objects.update_or_create(name=name, defaults={"value": stored, "updated_by": actor})
        detail = {"from": before[name], "to": value} | ({"reason": reason} if reason else {})
        audit_record(actor=actor, action="setting.change", target=f"setting:{name}", detail=detail)
    if "tick_s" in changed:
        schedule_make()
    if changed:
        page_event(stream="cluster", topic="settings")
        plan_nudge()
    return knobs_current()
