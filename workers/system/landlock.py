"""Keeps a job out of Berth's own files and processes with Landlock, the sandbox of the Linux kernel. It needs no root.

Landlock can only grant rights, and a right on a directory holds for all below it. So the directories above a closed one
get no rights; each of their other entries gets its own. For that reason a job can neither list these directories nor make
new names in them. All else the account may do as before. The rules hold for a process and all its descendants for ever,
also for root's. Standard library only: the shim runs without site packages.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_RULE_PATH_BENEATH, _VERSION_FLAG = 1, 1
_PR_SET_NO_NEW_PRIVS = 38

LEAST_VERSION = 2
"""Version 1 (Linux 5.13) forbids moving a file between directories. Too many programs need that."""
TRUNCATE_VERSION, DEVICE_VERSION, SIGNAL_VERSION = 3, 5, 6
"""The first versions that restrict truncate(2); ioctl on devices; signals and abstract sockets."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1 << 0, 1 << 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
READ = _EXECUTE | _READ_FILE | _READ_DIR
ALL = (1 << 16) - 1
NONE = 0
TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - what a view replaces with a job's own


class LandlockError(OSError):
    """The kernel refused the rules. Nothing was restricted."""


class _RulesetAttributes(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def _syscall(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    value = int(libc.syscall(ctypes.c_long(number), *arguments))
    if value < 0:
        code = ctypes.get_errno()
        raise LandlockError(code, os.strerror(code))
    return value


def landlock_version() -> int:
    """Return the kernel's version of Landlock; 0 when it has none, or when it is switched off."""
    if sys.platform != "linux":
        return 0
    try:
        return _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    except LandlockError:
        return 0


@dataclass(frozen=True, slots=True)
class Walls:
    """Absolute paths, without links.

    `closed`: directories in which a job sees nothing. `readable`: those that it may read and execute, but not change.
    `own`: its own directories, inside or outside the closed ones.
    """

    closed: tuple[Path, ...]
    readable: tuple[Path, ...]
    own: tuple[Path, ...]

    def with_own(self, *own: Path) -> Walls:
        return replace(self, own=own)

    def behind_view(self, *own: Path) -> Walls:
        """Return the walls of a job with a view of its own (`workers.system.view`): closed things are not there."""
        return Walls(closed=(), readable=self.readable, own=(*own, *TEMPORARY))

    def with_readable(self, *more: Path) -> Walls:
        return replace(self, readable=(*self.readable, *more))

    @classmethod
    def from_json(cls, value: dict[str, list[str]]) -> Walls:
        return cls(**{name: tuple(map(Path, value[name])) for name in ("closed", "readable", "own")})

    def to_json(self) -> dict[str, list[str]]:
        return {name: [str(p) for p in getattr(self, name)] for name in ("closed", "readable", "own")}

    def grants(self) -> Iterator[tuple[Path, int]]:
        """Yield (path, rights) of every rule."""
        special = dict.fromkeys(self.readable, READ) | dict.fromkeys(self.closed, NONE)
        ancestors = {above for path in special for above in path.parents}
        yield from _visit(Path("/"), ALL, special, ancestors)
        for path in self.own:
            yield path, ALL


def _visit(path: Path, rights: int, special: dict[Path, int], ancestors: set[Path]) -> Iterator[tuple[Path, int]]:
    """Yield the rules of a directory. The kinds of its entries come from the listing: a stat of a dead mount never ends."""
    rights = special.get(path, rights)
    if path not in ancestors:
        if rights != NONE:
            yield path, rights
        return
    seen = set()
    for child, kind in _children(path):
        seen.add(child)
        if child in ancestors or child in special or kind == "directory":
            yield from _visit(child, rights, special, ancestors)
        elif rights != NONE and kind == "file":  # a link needs no rule: the rule of its target counts
            yield child, rights & _OF_FILES
    for child in sorted({p for p in ancestors | special.keys() if p.parent == path != p} - seen):
        yield from _visit(child, rights, special, ancestors)


def _children(path: Path) -> list[tuple[Path, str]]:
    """Return (path, "directory", "file" or "link") of each entry; nothing when the account may not list the directory."""
    try:
        with os.scandir(path) as entries:
            return [(Path(e.path), _kind(e)) for e in entries]
    except OSError:
        return []


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    return "directory" if entry.is_dir(follow_symlinks=False) else "file"


def restrict(grants: Iterable[tuple[Path, int]], version: int) -> None:
    """Restrict this process and its descendants to these rights for ever. Raises LandlockError; then nothing is restricted."""
    newest = 15 if version >= DEVICE_VERSION else 14 if version >= TRUNCATE_VERSION else 13
    handled = (1 << (newest + 1)) - 1  # rights that this version does not know are not restricted
    scoped = _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL if version >= SIGNAL_VERSION else 0
    attributes = _RulesetAttributes(handled, 0, scoped)
    size = ctypes.sizeof(attributes) if version >= SIGNAL_VERSION else 16 if version >= 4 else 8
    ruleset = _syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for path, rights in grants:
            if rights:
                _grant(ruleset, path, rights & handled)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0) != 0:
            raise LandlockError(ctypes.get_errno(), "no_new_privs")
        _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # it is gone, or the account cannot reach it: there is nothing to grant
        return
    try:
        rule = _PathBeneath(rights, descriptor)
        _syscall(
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_PATH_BENEATH),
            ctypes.byref(rule),
            ctypes.c_uint32(0),
        )
    except LandlockError as error:
        if error.errno != errno.EBADFD:  # it is in a file system of the kernel itself, and stays closed
            raise
    finally:
        os.close(descriptor)
