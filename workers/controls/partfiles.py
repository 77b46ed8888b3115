"""Files by which a part's agent and shim speak: lock, lease, how the command began, and how it ended; on a full disk too.

Only the lock's holder may start the command, and only if none has started it before.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from workers.system.files import fix_modes, lock_take, read_record, write_json
from workers.system.procs import boottime
from workers.system.room import is_no_room, room_keep, room_use, write_until_room

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

EXIT_LOCKED = 75  # another shim holds this part's lock
EXIT_USED = 76  # a shim ran here before, or the part was closed before one could start

_held: list[int] = []  # kept open as long as the process lives: closing would release the lock


def hold_part(directory: Path) -> bool:
    """Take the part's lock for as long as this process lives; False when another process has it."""
    descriptor = lock_take(directory / "lock")
    if descriptor is None:
        return False
    _held.append(descriptor)
    return True


def void_part(directory: Path) -> bool:
    """Close the part, so that no shim can start here, not even one that is starting now; False when one has started."""
    descriptor = lock_take(directory / "lock")
    if descriptor is None:
        return False
    try:
        if (directory / "shim.json").exists():
            return False
        write_json(directory / "shim.json", {"pid": 0, "start_ticks": 0, "boot_id": ""})
    finally:
        os.close(descriptor)
    return True


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


JOB, RESULT = "job.json", "result.json"
ROOM_BYTES = 8 * 1024
"""A reason may take two kilobytes, a job's logs and pipes a few hundred bytes."""


class Telling:
    """Writes `job.json` and `result.json`. Room for both is taken before the command starts, by the files `.kept`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._began: dict[str, Any] | None = None
        self._lacking = [self._room(name) for name in (JOB, RESULT)]
        self.write_rest()

    def _room(self, name: str) -> Path:
        return self._directory / f"{name}.kept"

    def began(self, record: dict[str, Any]) -> None:
        self._began = record
        self.write_rest()

    def write_rest(self) -> None:
        """Do what could not be done before, because the disk was full or somebody changed modes."""
        self._lacking = [path for path in self._lacking if not room_keep(path, ROOM_BYTES)]
        if self._began is None:
            return
        try:
            write_json(self._directory / JOB, self._began)
        except OSError as error:
            fix_modes((self._directory.parent, self._directory))
            if not is_no_room(error) or not self._use(JOB, self._began):
                return
        self._began = None

    def _use(self, name: str, record: dict[str, Any]) -> bool:
        if not room_use(self._room(name), self._directory / name, json.dumps(record).encode()):
            return False
        self._lacking.append(self._room(name))
        return True

    def ended(self, record: dict[str, Any], *, spare: Iterable[Path] = ()) -> None:
        """Write the result. Without it a job that ended well would count as lost, so this waits where no room was kept."""
        if self._began is not None:
            write_until_room(self._directory / JOB, self._began, spare=spare, room=self._room(JOB))
        write_until_room(self._directory / RESULT, record, spare=spare, room=self._room(RESULT))
        for name in (JOB, RESULT):
            self._room(name).unlink(missing_ok=True)
