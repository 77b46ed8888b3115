"""The lock of a part: only its holder may start the command, and only if none has started it before."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from workers.system.files import write_json
from workers.system.locks import lock_take

if TYPE_CHECKING:
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
