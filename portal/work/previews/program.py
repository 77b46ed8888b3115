"""The program that reads a tenant's files, started anew for each look: `python -I -S program.py ORDER`.

ORDER is a descriptor with JSON: which files, by descriptor. The answer is JSON on descriptor 1. It imports the standard
library and the readers beside it, nothing else; `portal/__init__.py`, which loads Celery, stays out (docs/decisions/0239).
"""

from __future__ import annotations

import codecs
import ctypes
import json
import os
import resource
import signal
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.work.previews.shown import Source

LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG = 444, 446, 38, 1
MEMORY_BYTES = 128 * 1024 * 1024
CPU_S = 2
CODECS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp437", "ascii")


def main() -> None:
    """Answer the order: imports come first, then the walls go up, then the file is read.

    Of the file its first 128 bytes are read before, and only compared: they say what is needed.
    """
    stub = types.ModuleType("portal")
    stub.__path__ = [__file__.removesuffix("/work/previews/program.py")]
    sys.modules["portal"] = stub
    from portal.work.previews.shown import Unreadable

    for codec in CODECS:
        codecs.lookup(codec)
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        order = json.load(file)
    _end_with(order["portal"])
    sources = [_source(each) for each in order["files"]]
    look = _look(order["what"], sources)
    _walls(max((each["file"] for each in order["files"]), default=2))
    try:
        told = look()
    except (MemoryError, RecursionError):
        told = {"costly": True}
    except Unreadable as why:
        told = {"kind": "nothing", "why": f"No preview: {why}.", "first": []}
    with os.fdopen(1, "wb", closefd=False) as out:
        out.write(json.dumps(told).encode())


def _look(what: str, sources: list[Source]) -> Callable[[], dict[str, Any]]:
    """Import the readers of files of their kind, and nothing else: it is half of a look's cost."""
    if what == "curves":
        from portal.work.previews.curves.files import curves_told

        return lambda: curves_told(sources)
    if what == "sweep":
        from portal.work.previews.curves.sweep import sweep_told

        return lambda: sweep_told(sources)
    from portal.work.previews.preview import reader_of

    reader = reader_of(sources[0])
    return lambda: reader(sources[0])._asdict()


def _end_with(portal: int) -> None:
    """Let the kernel end this process when the portal's thread that waits for it ends, however that is."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != portal:  # it has ended already
        os.kill(os.getpid(), signal.SIGKILL)


def _source(given: dict[str, Any]) -> Source:
    from portal.work.previews.shown import Source

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
