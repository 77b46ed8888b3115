"""Removes environments that no job has used for long, and the longest unused ones above a size in all. Never one in use.

Beside each environment the agent keeps `HASH.used`: its moment of change says when a job used it last, its content how
large it is, measured once. No job can write there.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.controls.diskuse import DiskMeter
from workers.system import log
from workers.system.files import BrokenFileError, read_record, write_json
from workers.system.trees import tree_remove

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from workers.environments.offer import Limits
    from workers.system.filework import FileWork

DAY_S = 86_400.0
_TRASH = "trash-"


@dataclass(frozen=True, slots=True)
class Kept:
    """One environment: its name, `tenant-7/HASH`; when it was used last (Unix); its size."""

    name: str
    used_at: float
    size: int


def used_mark(root: Path, name: str) -> None:
    path = root / f"{name}.used"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)


def kept_find(root: Path, *, in_use: Collection[str]) -> list[Kept]:
    """Return the kept environments, the longest unused first. Measures new ones; one in use counts as used now."""
    found = []
    for entry in root.glob("tenant-*/*/"):
        name = f"{entry.parent.name}/{entry.name}"
        with contextlib.suppress(OSError):
            if name in in_use or not (root / f"{name}.used").exists():
                used_mark(root, name)
            found.append(Kept(name, (root / f"{name}.used").stat().st_mtime, _size(root, name, in_use)))
    return sorted(found, key=lambda kept: (kept.used_at, kept.name))


def _size(root: Path, name: str, in_use: Collection[str]) -> int:
    path = root / f"{name}.used"
    try:
        told = read_record(path, bytes=int) if path.stat().st_size else None
    except BrokenFileError:
        told = None
    if told is not None:
        return int(told["bytes"])
    meter = DiskMeter([root / name], 0)
    for _ in meter.walk():
        pass
    if name not in in_use:  # else it may be growing
        at = path.stat().st_mtime
        write_json(path, {"bytes": meter.used_bytes}, durable=False)
        os.utime(path, (at, at))
    return meter.used_bytes


def superfluous(kept: Sequence[Kept], limits: Limits, *, now: float, in_use: Collection[str], room: bool) -> list[str]:
    """Return the names to remove: unused for too long, and the longest unused until the rest is small enough.

    `room` false: the disk is almost full, and all that is not in use goes.
    """
    most = limits.all_gib * 2**30 if room else 0.0
    total, found = sum(each.size for each in kept), []
    for each in kept:
        if each.name in in_use:
            continue
        if now - each.used_at > limits.keep_days * DAY_S or total > most:
            found.append(each.name)
            total -= each.size
    return found


class Tidying:
    """The agent's tidying. `in_use` tells the environments of live parts; it is asked in the event loop, as are removals."""

    def __init__(self, root: Path, limits: Limits, *, files: FileWork, in_use: Callable[[], set[str]]) -> None:
        self._root, self._limits, self._files, self._in_use = root, limits, files, in_use

    async def tidy(self, *, room: bool = True) -> None:
        """Remove what is superfluous. Raises OSError."""
        if not self._root.exists():
            return
        used = self._in_use()
        kept = await self._files.run("environments", lambda: kept_find(self._root, in_use=used), limit_s=None)
        # From here to the renames nothing is awaited: no part can begin to use one of them meanwhile.
        used = self._in_use()
        for name in superfluous(kept, self._limits, now=time.time(), in_use=used, room=room):
            (self._root / name).rename(self._root / f"{_TRASH}{name.replace('/', '-')}")
            (self._root / f"{name}.used").unlink(missing_ok=True)
            log.info("environment removed", name=name)
        await self._files.run("environments", self._empty_trash, limit_s=None)

    def _empty_trash(self) -> None:
        for path in self._root.glob(f"{_TRASH}*"):
            tree_remove(path)
