"""The program that reads a tenant's files, started anew for each look: `python -I -S program.py ORDER`.

ORDER is a descriptor with JSON: which files, by descriptor. The answer is JSON on descriptor 1. It imports the standard
library and the readers beside it alone; `portal/__init__.py`, which loads Celery, stays out (docs/decisions/0239).
"""

from __future__ import annotations

import codecs
import ctypes
import json
import os
import resource
import sys
import types
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.previews.source import Source

LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF, PR_SET_NO_NEW_PRIVS = 444, 446, 38
MEMORY_BYTES = 128 * 1024 * 1024
CPU_S = 2
CODECS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp437", "ascii")


def main() -> None:
    """Answer the order: everything is imported first, then the walls go up, then the first byte is read."""
    stub = types.ModuleType("portal")
    stub.__path__ = [str(Path(__file__).resolve().parent.parent)]
    sys.modules["portal"] = stub
    from portal.previews.curves.told import curves_told
    from portal.previews.preview import preview_of
    from portal.previews.source import Unreadable

    for codec in CODECS:
        codecs.lookup(codec)
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        order = json.load(file)
    sources = [_source(each) for each in order["files"]]
    _walls(max((each["file"] for each in order["files"]), default=2))
    try:
        told = curves_told(sources) if order["what"] == "curves" else asdict(preview_of(sources[0]))
    except (MemoryError, RecursionError):
        told = {"costly": True}
    except Unreadable as why:
        told = {"kind": "nothing", "why": f"No preview: {why}.", "first": []}
    with os.fdopen(1, "wb", closefd=False) as out:
        out.write(json.dumps(told).encode())


def _source(given: dict[str, Any]) -> Source:
    from portal.previews.source import Source

    return Source(given["name"], given["size"], lambda start, length: _read(given, start, length))


def _read(given: dict[str, Any], start: int, length: int) -> bytes:
    """Read a piece; of a file that lies in a far store the portal first brings the piece into the descriptor."""
    if given["far"]:
        os.write(1, f"{given['place']} {start} {length}\n".encode())
        os.read(0, 1)
    return os.pread(given["file"], length, start)


def _landlock() -> None:
    """Refuse each file, TCP port, signal and abstract socket that the kernel's Landlock knows; older kernels know fewer."""
    libc = ctypes.CDLL(None)
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return
    files = {1: 13, 2: 14}.get(version, 15 if version < 5 else 16)
    rules = (ctypes.c_uint64 * 3)((1 << files) - 1, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 * (3 if version >= 6 else 2 if version >= 4 else 1)
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, rules, ctypes.c_size_t(size), 0)
    held = ruleset >= 0 and not libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if not held or libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0):
        raise OSError("Landlock is there and takes no rules")
    os.close(ruleset)


def _walls(last: int) -> None:
    """Take limits of memory and processor; from here on no file, socket or process can be opened or made.

    Root may raise limits again, so Landlock stands beside them where the kernel has it: a set of rules without any rule.
    """
    _landlock()
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, max(last, 2) + 1),
    ):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most, most if hard == resource.RLIM_INFINITY else min(most, hard)))
    try:
        while True:  # the free numbers below the last file's
            os.dup(0)
    except OSError:
        return


if __name__ == "__main__":
    main()
