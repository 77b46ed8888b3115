"""Whether a part may still run: its lease, and the maintenance lease of `--keep-jobs` beside it; and for how long it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workers.system.files import read_record
from workers.system.procs import boottime

if TYPE_CHECKING:
    from pathlib import Path


def lease_ended(directory: Path, launch: dict[str, Any]) -> bool:
    """Say whether the part must end because no lease holds. A part that was launched without a lease needs none.

    Raises BrokenFileError or OSError when a lease cannot be read.
    """
    if not launch["leased"]:
        return False
    now = boottime()
    for name in ("lease.json", "maintenance.json"):
        lease = read_record(directory / name, boot_id=str, until=(int, float))
        if lease is not None and lease["boot_id"] == launch["boot_id"] and now < lease["until"]:
            return False
    return True


def limit_now(directory: Path, launch: dict[str, Any]) -> float | None:
    """Return the launch's time limit, or a longer one that the agent wrote down since. Raises as `lease_ended` does."""
    limit_s: float | None = launch["time_limit_s"]
    if launch.get("time_limit_fixed"):
        return limit_s
    longer = read_record(directory / "limit.json", limit_s=(int, float))
    return limit_s if longer is None or limit_s is None else max(limit_s, longer["limit_s"])
