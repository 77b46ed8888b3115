"""Starts several services as forks of one process that has loaded what all of them work with (`portal.launch.processes.nursery`).

That takes half of the processor time that each takes by itself. It is for the first start alone: one that ended is started
again by its own command line, and so is each where this way fails, or where the system has no subreapers (docs/decisions/0226).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from portal.command_errors import LaunchError
from portal.launch.guarded import directory_of, guarded_argv
from portal.launch.processes.born import Born
from portal.launch.processes.descendants import PR_SET_CHILD_SUBREAPER, become_subreaper
from portal.layout import SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from portal.launch.processes.children import Child
    from portal.layout import Layout

NURSERY = "portal.launch.processes.nursery"
LIMIT_S = 120.0
STUCK = "Some of them may be running: nothing is started beside them. See logs/nursery.log, and try again."
_PR_GET_CHILD_SUBREAPER = 37


def begin(children: list[Child], layout: Layout, *, between: Callable[[], None]) -> None:
    """Start these services, as far as it goes: one without a `process` afterwards was not started.

    `between` is called while the modules load. When it raises, none was started yet.
    """
    if not sys.platform.startswith("linux"):
        return
    with contextlib.ExitStack() as opened, _subreaper():
        plan = [_service(child, *opened.enter_context(child.opened(layout))) for child in children]
        log = opened.enter_context((layout.logs / "nursery.log").open("wb"))
        argv = guarded_argv(str(layout.root), NURSERY, *(f"{each['name']}={each['words'][0]}" for each in plan))
        nursery = opened.enter_context(
            subprocess.Popen(  # noqa: S603 - our own argv, no shell
                argv,
                cwd=SOURCE,
                env=children[0].program.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                pass_fds=[each[name] for each in plan for name in ("output", "signs") if each[name] is not None],
            )
        )
        opened.callback(nursery.kill)
        pids = _pids(nursery, json.dumps(plan).encode(), between)
    for child in children:
        if child.program.name in pids:
            child.process = Born(pids[child.program.name])


def _service(child: Child, output: int, writer: int) -> dict[str, Any]:
    """Return what the nursery must know of a service: `nice` is its command line's first word where it has a niceness."""
    argv = child.program.argv
    words = argv[argv.index(str(directory_of(argv))) + 1 :]
    niceness = int(argv[2]) if argv[0] == "nice" else 0
    signs = writer if child.program.signs else None
    return {"name": child.program.name, "words": words, "niceness": niceness, "output": output, "signs": signs}


def _pids(nursery: subprocess.Popen[bytes], plan: bytes, between: Callable[[], None]) -> dict[str, int]:
    """Wait until all is loaded, and have the services started. Nothing where the nursery ends before, or takes too long.

    LaunchError where it does not say whom it started.
    """
    assert nursery.stdout is not None
    deadline = time.monotonic() + LIMIT_S
    while not select.select([nursery.stdout], [], [], 0)[0]:
        if time.monotonic() > deadline:
            return {}
        between()
    if not nursery.stdout.readline():
        return {}
    try:
        told, _ = nursery.communicate(plan + b"\n", timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise LaunchError(f"The services did not start within {LIMIT_S:.0f} s.", STUCK) from None
    found: dict[str, int] = json.loads(told or b"{}")
    return found


@contextlib.contextmanager
def _subreaper() -> Iterator[None]:
    """Become the parent of those whose parent ends meanwhile. Afterwards such are again init's, who waits for them."""
    libc, before = ctypes.CDLL(None), ctypes.c_int()
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    become_subreaper()
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)
