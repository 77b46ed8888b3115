"""A part's own control group: found, made, entered, set, read and removed, in the kernel's version 2 and in version 1.

Its name is `berth-KEY-EPOCH-RANK.OWNER`, since two Berths on one machine may have equal keys. Version 2 has one directory
for all controllers, version 1 one in each hierarchy. The group lies beside the shim's own, and only where that changes
nothing for others: version 2 must pass the controller on there already, or the shim's own group must let it be. The shim
itself stays outside. A process without the right to write there never gets out, so the group names exactly the part's
processes. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    Version = Literal[1, 2]

MOUNTS, OWN = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")
PREFIX = "berth-"
CONTROLLERS = ("", "cpuset", "cpu", "memory", "pids", "devices")
"""All that a part's group uses. "" is a group of version 2 without controllers, which still tells who is in it."""


class Home(NamedTuple):
    """Where one controller is set for a part."""

    path: Path
    version: Version

    def write(self, name: str, text: str) -> None:
        """Set one of its files, as `pids.max`. Raises OSError."""
        (self.path / name).write_text(text)

    def read(self, name: str) -> str:
        return (self.path / name).read_text()

    def number(self, name: str) -> int | None:
        """Return a whole number; None where there is no such file, or "max"."""
        try:
            text = self.read(name).strip()
        except OSError:
            return None
        return int(text) if text.isdecimal() else None

    def field(self, name: str, key: str) -> int | None:
        """Return the number behind `key` in a file of lines `key number`, as `memory.events`; None where there is none."""
        try:
            lines = self.read(name).splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) for line in lines if line.split()[:1] == [key]), None)


class Group:
    """One part's group. `homes`: by controller; "" is version 2's directory where it has none of them."""

    tasks: Path | None = None
    """A file of resctrl that a process enters, too."""

    def __init__(self, homes: dict[str, Home]) -> None:
        self.homes = homes

    @property
    def paths(self) -> list[Path]:
        return list(dict.fromkeys(home.path for home in self.homes.values()))

    def home(self, controller: str) -> Home | None:
        return self.homes.get(controller)

    def enter(self) -> None:
        """Move the calling process in; its children are born there. Raises OSError."""
        for path in self.paths:
            (path / "cgroup.procs").write_text("0")
        if self.tasks is not None:
            with contextlib.suppress(OSError):  # its traffic is unknown
                self.tasks.write_text("0")

    def pids(self) -> set[int]:
        """Return the processes that are in it now, zombies included."""
        found: set[int] = set()
        for path in self.paths:
            with contextlib.suppress(OSError):  # it is gone, so nothing is in it
                found.update(map(int, (path / "cgroup.procs").read_text().split()))
        return found

    def remove(self) -> bool:
        """Remove it; False where a process is still in it."""
        for path in self.paths:
            with contextlib.suppress(OSError):
                path.rmdir()
        return not any(path.exists() for path in self.paths)


def owner_of(parts: Path) -> str:
    """Return the suffix of the names of a node's groups: the mark of its directory of parts."""
    return f"{_crc32(os.fsencode(os.path.realpath(parts))):08x}"


def _crc32(data: bytes) -> int:
    """Do as binascii.crc32, which would bring zlib into each shim."""
    found = 0xFFFFFFFF
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0xEDB88320 if found & 1 else 0)
    return found ^ 0xFFFFFFFF


def part_name(directory: Path) -> str:
    """Return a part's name among all groups of the machine. `directory`: the part's own."""
    return f"{directory.name}.{owner_of(directory.parent)}"


def part_group(directory: Path, *, virtual: bool) -> Group:
    """Make a part's group. A virtual node's cores are only declared, so no kernel wall is built for them."""
    return group_make(part_name(directory), [c for c in CONTROLLERS if c != "cpuset" or not virtual])


def groups_sweep(parts: Path, *, mounts: Path = MOUNTS, own: Path = OWN) -> int:
    """Remove the empty groups of parts that the node has no more, as shims leave them that were killed with their agent."""
    owner, gone = owner_of(parts), 0
    for parent, _ in _places(mounts, own):
        for path in parent.glob(f"{PREFIX}*.{owner}"):
            if not (parts / path.name.removeprefix(PREFIX).removesuffix(f".{owner}")).exists():
                with contextlib.suppress(OSError):  # somebody is in it
                    path.rmdir()
                    gone += 1
    return gone


def group_make(name: str, controllers: Iterable[str], *, mounts: Path = MOUNTS, own: Path = OWN) -> Group:
    """Make the part's group with those of the controllers that can be had here; perhaps none."""
    homes: dict[str, Home] = {}
    left = list(controllers)
    for parent, version, had in _parents(left, mounts, own):
        wanted = [c for c in had if c in left]
        if not wanted:
            continue
        path = parent / f"{PREFIX}{name}"
        try:
            path.mkdir(exist_ok=True)
            if not (os.access(path / "cgroup.procs", os.W_OK) and os.access(parent / "cgroup.procs", os.W_OK)):
                raise PermissionError(path)
            if version == 1 and "cpuset" in wanted:  # without these two nothing can be moved in
                for file in ("cpuset.mems", "cpuset.cpus"):
                    (path / file).write_text((parent / file).read_text())
        except OSError:
            with contextlib.suppress(OSError):
                path.rmdir()
            continue
        homes |= dict.fromkeys(wanted, Home(path, version))
        left = [c for c in left if c not in wanted]
    return Group(homes)


def group_find(name: str, *, mounts: Path = MOUNTS, own: Path = OWN) -> Group:
    homes = {}
    for parent, version in _places(mounts, own):
        path = parent / f"{PREFIX}{name}"
        if path.is_dir():
            homes[str(path)] = Home(path, version)
    return Group(homes)


def group_path2(group: Group, *, mounts: Path = MOUNTS, own: Path = OWN) -> tuple[Path, str] | None:
    """Return where version 2 is mounted, and the group's path below that; None: the group has no part in it."""
    path = next((home.path for home in group.homes.values() if home.version == 2), None)
    trees = [Path(fields[4]) for fields in _read(mounts, own)[1] if _kind(fields) == "cgroup2"]
    return next(((tree, str(path.relative_to(tree))) for tree in trees if path and path.is_relative_to(tree)), None)


def _parents(controllers: list[str], mounts: Path, own: Path) -> Iterator[tuple[Path, Version, list[str]]]:
    """Yield the directories in which a part's may be made and the controllers that it has there, version 2's first."""
    second = [(parent, _passed_on(parent, controllers, may_ask=is_own)) for parent, is_own in _second(mounts, own)]
    for parent, passed in second:
        if passed:  # a process is in only one group of version 2
            yield parent, 2, passed
            break
    else:
        if second and "" in controllers:
            yield second[0][0], 2, [""]
    for parent, had in _first(mounts, own):
        yield parent, 1, had


def _places(mounts: Path, own: Path) -> Iterator[tuple[Path, Version]]:
    for parent, _ in _second(mounts, own):
        yield parent, 2
    for parent, _ in _first(mounts, own):
        yield parent, 1


def _second(mounts: Path, own: Path) -> Iterator[tuple[Path, bool]]:
    """Yield version 2's directories: the shim's own (true), and the one above."""
    names, found = _read(mounts, own)
    for fields in found:
        if _kind(fields) == "cgroup2" and "" in names:
            inside = _inside(Path(fields[4]), fields[3], names[""])
            yield inside, True
            if inside != Path(fields[4]):
                yield inside.parent, False


def _first(mounts: Path, own: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the shim's own directory in each hierarchy of version 1, with the hierarchy's controllers."""
    names, found = _read(mounts, own)
    for fields in found:
        had = [c for c in fields[-1].split(",") if c in CONTROLLERS and c in names]
        if _kind(fields) == "cgroup" and had:
            yield _inside(Path(fields[4]), fields[3], names[had[0]]), had


def _read(mounts: Path, own: Path) -> tuple[dict[str, str], list[list[str]]]:
    """Return the shim's own path by controller, "" for version 2, and the fields of each line of mountinfo."""
    try:
        # A person may mount on a path with `\r`, a no-break space or bytes that are no text.
        rows = mounts.read_bytes().decode("utf-8", "surrogateescape").split("\n")
        return dict(_own_paths(own.read_text())), [line.split(" ") for line in rows if line]
    except OSError:
        return {}, []


def _own_paths(text: str) -> Iterator[tuple[str, str]]:
    """Yield (controller, path) of each line `number:controllers:path`; version 2's has no controller."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _kind(fields: list[str]) -> str:
    """Return the kind of file system of a line of mountinfo: the word after the lone hyphen."""
    return fields[fields.index("-") + 1]


def _inside(mount: Path, root: str, own: str) -> Path:
    """Return where a group's path lies below a mount that shows the hierarchy from `root` on."""
    below = own.removeprefix(root) if root != "/" else own
    return mount / below.strip("/")


def _passed_on(parent: Path, controllers: list[str], *, may_ask: bool) -> list[str]:
    """Return which of the controllers version 2's children of this group have, perhaps after asking for them."""
    control = parent / "cgroup.subtree_control"
    try:
        passed, had = control.read_text().split(), (parent / "cgroup.controllers").read_text().split()
    except OSError:
        return []
    if may_ask:
        for controller in (c for c in controllers if c in had and c not in passed):
            with contextlib.suppress(OSError):  # refused where processes are in it
                control.write_text(f"+{controller}")
        passed = control.read_text().split()
    return [c for c in controllers if c in passed]
