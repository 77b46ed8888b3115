"""Starts several programs as forks of one process that has loaded what all of them work with.

Services are forks of `portal.launch.processes.nursery` (docs/decisions/0226), agents of `workers.nursery`, which loads no Django
(docs/decisions/0221). That takes half of the processor time that each takes by itself. It is only for the first start: one
that ended is started again by its own command line, and so is each where this way fails, or where the system has no subreapers.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from portal.foundation.errors import LaunchError
from portal.foundation.layout import SOURCE
from portal.launch.guarded import directory_of, guarded_argv
from portal.launch.processes.children import Born

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from portal.foundation.layout import Layout
    from portal.launch.processes.children import Child

NURSERY = "portal.launch.processes.nursery"
AGENTS = "workers.nursery"
LIMIT_S = 120.0
STUCK = "Some of them may be running: nothing is started beside them. See logs/nursery.log, and try again."
PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


def become_subreaper() -> None:
    """Become the parent of all orphans among our descendants, in place of init (prctl(2)). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def begin(children: list[Child], layout: Layout, *, between: Callable[[], None]) -> None:
    """Start these, all services or all agents, as far as it goes: one without a `process` afterwards was not started.

    `between` is called while the modules load. When it raises, none was started yet.
    """
    if not sys.platform.startswith("linux") or len(children) < 2:
        return
    common = dict(set.intersection(*(set(child.program.environment.items()) for child in children)))
    with contextlib.ExitStack() as opened, _subreaper():
        plan = [_planned(child, common, *opened.enter_context(child.opened(layout))) for child in children]
        log = opened.enter_context((layout.logs / "nursery.log").open("ab"))
        names = [f"{each['name']}={each['words'][0]}" for each in plan]
        by_itself = [sys.executable, "-m", AGENTS, str(layout.nodes)]
        agents = children[0].program.role == "agent"
        nursery = opened.enter_context(
            subprocess.Popen(  # noqa: S603 - our own argv, no shell
                [*(by_itself if agents else guarded_argv(str(layout.root), NURSERY)), *names],
                cwd=SOURCE,
                env=common,
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


def _planned(child: Child, common: dict[str, str], output: int, writer: int) -> dict[str, Any]:
    """Return a program as the nursery must know it: `nice` is its command line's first word where it has a niceness."""
    argv = child.program.argv
    return {
        "name": child.program.name,
        "words": argv[argv.index(directory_of(argv) or "-m") + 1 :],
        "niceness": int(argv[2]) if argv[0] == "nice" else 0,
        "environment": {name: value for name, value in child.program.environment.items() if name not in common},
        "output": output,
        "signs": writer if child.program.signs else None,
    }


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
        raise LaunchError(f"What starts together did not start within {LIMIT_S:.0f} s.", STUCK) from None
    found: dict[str, int] = json.loads(told or b"{}")
    return found


@contextlib.contextmanager
def _subreaper() -> Iterator[None]:
    """Become the parent of those whose parent ends meanwhile. Afterwards they are init's again."""
    libc, before = ctypes.CDLL(None), ctypes.c_int()
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    become_subreaper()
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)
