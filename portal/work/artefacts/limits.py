"""How much a tenant may keep, how long, and how much disk artefacts leave to the portal itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.foundation.disk import DiskLow, disk_state
from portal.foundation.environment import env

if TYPE_CHECKING:
    from portal.people.tenants.models import Tenant

GIB = 2**30


def quota_gib(tenant: Tenant) -> int:
    return env("BERTH_ARTEFACT_QUOTA_GIB") if tenant.artefact_quota_gib is None else tenant.artefact_quota_gib


def kept_days(tenant: Tenant) -> int | None:
    """Return how many days after a job's end its artefacts are kept; None: until somebody removes them."""
    days = env("BERTH_ARTEFACT_DAYS") if tenant.artefact_days is None else tenant.artefact_days
    return days or None


def room_require() -> None:
    """Raise DiskLow where artefacts would take what jobs, logs and the database need; the files wait on their nodes."""
    disk = disk_state()
    if disk.low or disk.free_mib < env("BERTH_ARTEFACT_DISK_LOW_MIB"):
        raise DiskLow(disk)
