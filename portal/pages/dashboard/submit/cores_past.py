"""The results of tuning for the reader's own earlier jobs, beside the cores that the form asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.submit.speeds import whole_of
from portal.work.jobs.services.tuning import cores_past

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.people.tenants.models import Tenant, User


def cores_past_context(user: User, tenant: Tenant | None, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the largest number that tuning found for the last similar jobs; None for a CPU job, and where none was tuned."""
    if tenant is None or values.get("gpu_mode") == "cpu":
        return None
    label, category = (str(values.get(name) or "").strip() for name in ("model", "category"))
    past, by_label = cores_past(owner=user, tenant=tenant, category=category, label=label)
    if not past:
        return None
    kind = f"jobs with the label {label}" if by_label else f"{category} jobs" if category else "jobs without a category"
    least, most = min(each.found for each in past), max(each.found for each in past)
    who = f"last {len(past)} {kind} kept their" if len(past) > 1 else f"last {kind.replace('jobs', 'job', 1)} kept its"
    cores = f"{least} to {most} cores" if least < most else f"{most} core{'s' if most > 1 else ''}"
    asked = whole_of(values.get("cores_per_gpu"))
    sentence = f"Your {who} GPUs busy with {cores} a GPU{f'; you ask for {asked}' if asked else ''}."
    return {"sentence": sentence, "take": None if asked == most else most}
