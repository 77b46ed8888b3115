"""A process of ours (`portal.launch.guarded`) that loads once what all services work with, and becomes each of them.

The start of a Berth is nearly all imports, and most modules are those of several services. When all is loaded it
says so, and reads one line of JSON: for each service its name, its words (the module that it runs, and its arguments), its
niceness, what its environment alone has, and its open files. Each is a fork of this process in a session of its own. It prints
their pids and ends, so the supervisor, a subreaper meanwhile, becomes their parent (docs/decisions/0226). The names on its
command line are for readers of the list of processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import sys
import threading
from typing import Any, NoReturn

MODULES = """
    portal.asgi portal.foundation.celery portal.foundation.beat celery.__main__
    celery.bin.celery celery.bin.worker celery.bin.beat
    celery.apps.worker celery.apps.beat celery.concurrency.prefork celery.worker.consumer kombu.transport.redis
    portal.launch.serving.server uvicorn.loops.auto uvicorn.lifespan.on uvicorn.protocols.http.auto
""".split()
_PR_SET_NAME = 15


def load() -> None:
    """Load what the services work with. This opens no connection and starts no thread."""
    for name in MODULES:
        importlib.import_module(name)
    from portal.foundation.celery import app, laboratory
    from portal.foundation.loaded import stays

    for each in (app, laboratory):
        each.loader.import_default_modules()
        each.finalize()
    stays()


def bear(service: dict[str, Any]) -> int:
    """Fork one service; return its pid."""
    pid = os.fork()
    if pid == 0:
        _become(service)
    return pid


def _become(service: dict[str, Any]) -> NoReturn:
    """Be the service, from here to its end."""
    from portal.foundation import alive
    from portal.launch.guarded import leave, run

    try:
        os.setsid()
        os.nice(service["niceness"])
        ctypes.CDLL(None).prctl(_PR_SET_NAME, f"berth-{service['name']}".encode()[:15], 0, 0, 0)
        silence = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((silence, service["output"], service["output"])):
            os.dup2(file, number)
        _close_all_but({0, 1, 2, service["signs"]})
        alive.adopt(service["signs"])
        os.environ.update(service["environment"])
        sys.argv[:] = service["words"]
        code = run(sys.argv[0])
        leave(1 if code is None else code)
    finally:
        os._exit(1)


def _close_all_but(kept: set[int | None]) -> None:
    """Close the files of others: log and signs of another service, and both pipes of the nursery."""
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - numbers, no paths
        if number not in kept:
            with contextlib.suppress(OSError):  # the list itself was read from this one
                os.close(number)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Load, say so, bear whom the line names, and tell their pids. With a thread that a fork would lack, bear nobody."""
    load()
    if threading.active_count() > 1:
        return 1
    _tell("loaded")
    born = {}
    for service in json.loads(sys.stdin.readline() or "[]"):
        with contextlib.suppress(OSError):  # no room for a process: the supervisor starts it later
            born[service["name"]] = bear(service)
    _tell(json.dumps(born))
    return 0


if __name__ == "__main__":
    sys.exit(main())
