"""How far this node can keep its jobs out of Berth's files. The agent tries it, and tells the portal the result."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from workers.system.landlock import LEAST_VERSION, SIGNAL_VERSION, LandlockError, Walls, landlock_version
from workers.system.seclude import seclude

if TYPE_CHECKING:
    from workers.agent.settings import AgentSettings
    from workers.protocol.inventory import Isolation

SOURCE = Path(__file__).resolve().parents[2]
_SYSTEM = (Path("/usr"), Path("/bin"), Path("/lib"))
"""Directories that only root may change. Against a job that runs as root nothing helps."""


def walls_of(settings: AgentSettings) -> Walls:
    """Return what is closed to every job of this node. Each job's own directories are added later."""
    closed = {settings.dir, settings.storage_dir / "checkpoints", *([settings.closed] if settings.closed else [])}
    paths = sysconfig.get_paths()
    program = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve().parent
    used = {SOURCE, Path(sys.prefix).resolve(), program, *(Path(paths[n]).resolve() for n in ("stdlib", "purelib"))}
    readable = {path for path in used if not any(path.is_relative_to(place) for place in _SYSTEM)}
    return Walls(closed=tuple(sorted(closed)), readable=tuple(sorted(readable)), own=())


def isolation_find(settings: AgentSettings) -> tuple[Isolation, Walls | None]:
    """Return how far jobs are kept out, and the walls round each job; None when there are no walls.

    Jobs of root get walls too. They stop accidents and simple attacks, so such jobs do not count as kept out.
    """
    version = landlock_version()
    if settings.isolation == "off":
        return _none(version, "the node's settings switch it off (--isolation off)"), None
    if version == 0:
        return _none(
            version, "this kernel has no Landlock; Linux 5.19 and later have it, unless it was switched off at boot"
        ), None
    if version < LEAST_VERSION:
        why = f"Landlock {version} of this kernel forbids moving files between directories; Linux 5.19 has version 2"
        return _none(version, why), None
    walls = walls_of(settings)
    if failure := _tried(walls, version, settings.dir):
        return _none(version, failure), None
    if os.geteuid() == 0:
        return _none(
            version, "jobs run as root, and root can get around it; run Berth under an account of its own"
        ), walls
    why = (
        ""
        if version >= SIGNAL_VERSION
        else "jobs can send signals to Berth's processes; Linux 6.12 and later prevent that"
    )
    return {"files": True, "signals": version >= SIGNAL_VERSION, "landlock": version, "why": why}, walls


def _none(version: int, why: str) -> Isolation:
    return {"files": False, "signals": False, "landlock": version, "why": why[:300]}


def _tried(walls: Walls, version: int, closed: Path) -> str:
    """Let a child process with walls try to open a closed directory; return "" when it cannot, else what is wrong."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, _try(walls, version, closed).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return "" if said == "kept out" else said or "the process that had to try it ended at once"


def _try(walls: Walls, version: int, closed: Path) -> str:
    try:
        seclude(walls, version)
        os.close(os.open(closed, os.O_RDONLY | os.O_DIRECTORY))
    except LandlockError as error:
        return f"the kernel refused: {error.strerror}"
    except PermissionError:
        return "kept out"
    except OSError as error:
        return f"it could not be tried: {error}"
    return "a process with walls could still open a closed directory"
