"""Puts walls round a job for ever: Landlock, the sandbox of the Linux kernel, which keeps it out of Berth's files and processes.

It needs no root. Landlock can only grant rights, and a right on a directory holds for all below it. The directories above a
closed one get no rights; each of their other entries gets its own. For that reason a job can neither list these directories
nor make new names in them. All else the account may do as before. The rules hold for a process and all its descendants, also
for root's. With an old Landlock a filter of system calls does the rest. Standard library only: the shim runs without site
packages.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
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


_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF: load a word, jump if equal, return
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_TRUNCATES: dict[str, dict[int, tuple[int, ...]]] = {
    "x86_64": {0xC000003E: (76, 0x40000000 | 76), 0x40000003: (92, 193)},
    "aarch64": {0xC00000B7: (45,), 0x40000028: (92, 193)},
}
"""Numbers of truncate(2) and truncate64(2), by machine and by its audit architectures, 32-bit ones included."""


_PR_CAPBSET_DROP = 24
_POWERS = (16, 17, 19, 21, 22, 27, 34, 38, 39, 40)
"""Root's capabilities that could get around the walls: modules, raw devices, ptrace, mounts, perf, BPF and others."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def seclude(walls: Walls, version: int) -> None:
    """Restrict this process and all that it starts. From the next exec on, root loses some capabilities too.

    Raises LandlockError; then the restrictions may be missing or incomplete.
    """
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for number in _POWERS:
            if libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) != 0 and ctypes.get_errno() == errno.EPERM:
                break  # root in a container: it has none of them
    restrict(walls.grants(), version)
    if version < TRUNCATE_VERSION:
        _refuse_truncate()


def _refuse_truncate() -> None:
    """Refuse truncate(2): before version 3 Landlock lets a process empty any file by its path. Programs use ftruncate(2)."""
    by_architecture = _TRUNCATES.get(os.uname().machine)
    if by_architecture is None:
        raise LandlockError(errno.ENOSYS, f"Berth cannot refuse truncate(2) on {os.uname().machine}")
    code = _filter(by_architecture)
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(program), 0, 0) != 0:
        raise LandlockError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")


def _filter(by_architecture: dict[int, tuple[int, ...]]) -> bytes:
    """Return the filter's program: it refuses these calls and allows all others."""
    code = []
    for architecture, numbers in by_architecture.items():
        block = [_step(_LOAD, _NUMBER_AT)]
        for left, number in zip(range(len(numbers), 0, -1), numbers, strict=True):
            block.append(_step(_JUMP_EQUAL, number, equal=left))  # to the refusal behind the allowance
        block += [_step(_RETURN, _ALLOW), _step(_RETURN, _REFUSE)]
        code += [_step(_LOAD, _ARCHITECTURE_AT), _step(_JUMP_EQUAL, architecture, unequal=len(block)), *block]
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _step(code: int, operand: int, *, equal: int = 0, unequal: int = 0) -> bytes:
    return struct.pack("=HBBI", code, equal, unequal, operand)
