"""How far this node can keep jobs apart from Berth and from each other. The agent tries it, and tells the portal the result."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from workers import environments, instrument
from workers.agent.trying import Trial, try_apart, try_limits, try_walls
from workers.environments.programs import PROGRAMS
from workers.protocol.inventory import Isolation, Wall, wall
from workers.system.gpus import Devices, devices_find
from workers.system.landlock import LEAST_VERSION, SIGNAL_VERSION, Walls, landlock_version
from workers.system.view import View

if TYPE_CHECKING:
    from workers.agent.settings import AgentSettings
    from workers.environments.offer import Offer
    from workers.networks.site import Site

SOURCE = Path(__file__).resolve().parents[2]
_SYSTEM = (Path("/usr"), Path("/bin"), Path("/lib"))
"""Directories that only root may change. Against a job that runs as root nothing helps."""
_BUILD = Path(environments.__file__).resolve().parent
_INSTRUMENT = Path(instrument.__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Means:
    """The means that set a job apart here. `walls` None: without Landlock. `view` None: it sees all files.

    `mps`: the pipes of the MPS daemon that jobs on one GPU use; None: they take turns. `site`: for tenants' networks;
    None: parts on one node have none of their own. `members`: parts in the node's network are behind rules.
    """

    walls: Walls | None = None
    accounts: bool = False
    view: View | None = None
    devices: Devices | None = None
    mps: Path | None = None
    site: Site | None = None
    members: bool = False

    def with_software(self, software: Offer) -> Means:
        """Return the same, with the operator's environments and the installer where every job can use them."""
        if self.view is None:
            return self
        wheels = [Path(word) for word in software.index if word.startswith("/")]
        named = [path.resolve() for path in software.named.values()]
        programs = [
            Path(word).resolve().parent for word in (software.python, *software.program[:1]) if word.startswith("/")
        ]
        libraries = [path.parent / "lib" for path in programs if path.name == "bin"]
        shown = {*self.view.program, *_not_the_systems({*named, *wheels, *programs, *libraries})}
        return replace(self, view=replace(self.view, program=tuple(sorted(shown))))


def walls_of(settings: AgentSettings) -> Walls:
    """Return the walls of every job of this node. Each job's own directories are added later."""
    closed = {settings.dir, settings.storage_dir / "checkpoints", *([settings.closed] if settings.closed else [])}
    paths = sysconfig.get_paths()
    program = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve().parent
    used = {SOURCE, Path(sys.prefix).resolve(), program, *(Path(paths[n]).resolve() for n in ("stdlib", "purelib"))}
    readable = (settings.dir / PROGRAMS, *_not_the_systems(used))
    return Walls(closed=tuple(sorted(closed)), readable=readable, own=())


def program_of(directory: Path) -> tuple[Path, ...]:
    """Return the paths that a job needs: the interpreter with its packages, the instrument, and the agent's programs."""
    used = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), _INSTRUMENT, _BUILD}
    return (directory / PROGRAMS, *_not_the_systems(used))


def _not_the_systems(used: set[Path]) -> tuple[Path, ...]:
    return tuple(sorted(path for path in used if not any(path.is_relative_to(place) for place in _SYSTEM)))


def isolation_find(settings: AgentSettings) -> tuple[Isolation, Means]:
    """Return how far jobs are kept apart, and by which means.

    Jobs of root get walls too. They stop accidents and simple attacks, so such jobs do not count as kept out.
    """
    version, files, signals = landlock_version(), False, False
    if settings.isolation == "off":
        why = "the node's settings switch it off (--isolation off)"
        means, found = Means(), [wall("accounts", "", why)]
    else:
        walls, why = _try_walls(settings, version)
        means, found = _apart(settings, walls)
        if means.accounts:
            files, signals, why = True, True, ""
        elif walls is not None and os.geteuid() == 0:
            refused = next(each["why"] for each in found if each["name"] == "accounts")
            why = f"jobs run as root, and root can get around it: {refused}"
        elif walls is not None:
            files, signals = True, version >= SIGNAL_VERSION
            why = "" if signals else "jobs can send signals to Berth's processes; Linux 6.12 and later prevent that"
    return {"files": files, "signals": signals, "landlock": version, "why": why[:300], "walls": found}, means


def _try_walls(settings: AgentSettings, version: int) -> tuple[Walls | None, str]:
    """Return Landlock's walls; or None, and why they do not stand."""
    if version == 0:
        return None, "this kernel has no Landlock; Linux 5.19 and later have it, unless it was switched off at boot"
    if version < LEAST_VERSION:
        return None, (
            f"Landlock {version} of this kernel forbids moving files between directories; Linux 5.19 has version 2"
        )
    walls = walls_of(settings)
    failure = try_walls(walls, version, settings.dir)
    return (None, failure) if failure else (walls, "")


def _apart(settings: AgentSettings, walls: Walls | None) -> tuple[Means, list[Wall]]:
    """Try accounts with views, accounts without, and the limits; return the means that hold, and a report of each."""
    devices = devices_find()
    found = try_limits()
    if os.geteuid() != 0:
        why = "the agent does not run as root, so all jobs share its account"
        return Means(walls=walls), [wall("accounts", "", why), *found]
    if settings.accounts == "off":
        return Means(walls=walls), [
            wall("accounts", "", "the node's settings switch them off (--accounts off)"),
            *found,
        ]
    trial = Trial(settings.dir, walls_of(settings), walls is not None, program_of(settings.dir), _INSTRUMENT)
    no_view = try_apart(trial, with_view=True)
    if not no_view:
        view = View(walls_of(settings).closed, program_of(settings.dir))
        means = Means(walls, accounts=True, view=view, devices=devices)
        own = [wall("accounts", "setuid"), wall("mounts", "namespace"), wall("processes", "namespace")]
        devices_by_mounts = [
            wall("devices", "mounts") if each["name"] == "devices" and not each["by"] else each for each in found
        ]
        return means, [*own, *devices_by_mounts]
    if no_account := try_apart(trial, with_view=False):
        return Means(walls=walls, devices=devices), [
            wall("accounts", "", no_account),
            wall("mounts", "", no_view),
            *found,
        ]
    means = Means(walls, accounts=True, devices=devices)
    return means, [wall("accounts", "setuid"), wall("mounts", "", no_view), wall("processes", "accounts"), *found]
