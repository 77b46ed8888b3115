"""Puts walls round this process for ever: Landlock, and with an old Landlock a filter for the rest."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TYPE_CHECKING

from workers.system.landlock import TRUNCATE_VERSION, LandlockError, restrict

if TYPE_CHECKING:
    from workers.system.landlock import Walls

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
