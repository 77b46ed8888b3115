"""Starts Berth's processes, starts again what dies, stops all in order.

A child that ends is started again after 0.5 s, then 1, 2, ... up to 30 s; one that lived for 30 s begins at 0.5 s
anew. Each child leads a process group of its own, so that Ctrl-C at the terminal reaches the supervisor alone, and what
a killed child left behind (Celery's pool) is ended before the next one starts. An agent's group is spared: jobs' shims
outlive their agent.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from portal.launch.identity import boot_id, identity_of
from portal.launch.layout import SOURCE, Layout, write_json

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
SETTLED_AFTER_S = 30.0
LOG_LIMIT_BYTES = 20 * 2**20
LOG_CHECK_PERIOD_S = 60.0


@dataclass(frozen=True)
class Program:
    """What to run: `role` is broker, portal, worker, beat or agent; `spares_group` keeps its descendants alive."""

    name: str
    role: str
    argv: list[str]
    environment: dict[str, str]
    spares_group: bool = False
    patience_s: float = 8.0


@dataclass
class Child:
    """One program and its present process; times are monotonic seconds."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_again_at: float = 0.0
    delay_s: float = FIRST_DELAY_S
    restarts: int = 0
    last_exit: int | None = None


def exit_words(code: int) -> str:
    """`exit code 1`, or `signal SIGKILL` for a process that was killed."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


class Supervisor:
    """Holds the children of one data directory. `tick` is called a few times a second; only `stop` waits."""

    def __init__(
        self, layout: Layout, *, notify: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.layout = layout
        self.children: dict[str, Child] = {}
        self.about: dict[str, Any] = {}
        self._notify = notify
        self._clock = clock
        self._logs_checked_at = clock()

    def start(self, program: Program) -> None:
        child = Child(program)
        self.children[program.name] = child
        self._launch(child)
        self.write_state()

    def tick(self) -> list[str]:
        """Reap and restart; the names of the children that ended since the last tick."""
        ended = [name for name, child in self.children.items() if self._reap(child)]
        due = [c for c in self.children.values() if c.process is None and self._clock() >= c.start_again_at]
        for child in due:
            self._launch(child)
        if ended or due:
            self.write_state()
        self._rotate_logs()
        return ended

    def stop(self, roles: Iterable[str]) -> None:
        """End the children of these roles: SIGTERM, then SIGKILL for those that outlive their patience."""
        wanted = set(roles)
        chosen = [child for child in self.children.values() if child.program.role in wanted]
        for child in chosen:
            _signal(child, signal.SIGTERM)
        began = self._clock()
        for child in chosen:
            self._await_end(child, deadline=began + child.program.patience_s)
            del self.children[child.program.name]
        self.write_state()

    def write_state(self) -> None:
        """`run/state.json`: read by `status`, `down` and tests; who we are, and each child's pid, role and restarts."""
        me = identity_of(os.getpid())
        write_json(
            self.layout.state,
            {
                "supervisor": me.as_dict() if me else {"pid": os.getpid(), "started": 0, "boot_id": boot_id()},
                **self.about,
                "children": {name: _facts(child) for name, child in self.children.items()},
            },
        )

    def _launch(self, child: Child) -> None:
        program = child.program
        log = self.layout.logs / f"{program.name}.log"
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as output:
            child.process = subprocess.Popen(  # noqa: S603 - our own argv, no shell
                program.argv,
                cwd=SOURCE,
                env=program.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        child.started_at = self._clock()

    def _reap(self, child: Child) -> bool:
        """True when the child's process has ended since the last look; its next start is then set."""
        if child.process is None:
            return False
        code = child.process.poll()
        if code is None:
            return False
        self._end_group(child)
        now = self._clock()
        if now - child.started_at >= SETTLED_AFTER_S:
            child.delay_s = FIRST_DELAY_S
        child.process, child.last_exit = None, code
        child.start_again_at = now + child.delay_s
        child.restarts += 1
        self._notify(f"{child.program.name} ended ({exit_words(code)}); starting it again in {child.delay_s:g} s")
        child.delay_s = min(LONGEST_DELAY_S, child.delay_s * 2)
        return True

    def _end_group(self, child: Child) -> None:
        """Kill what is left of the group of a child that has ended."""
        if child.process is None or child.program.spares_group:
            return
        try:
            os.killpg(child.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # nothing was left

    def _await_end(self, child: Child, *, deadline: float) -> None:
        if child.process is None:
            return
        try:
            child.process.wait(timeout=max(0.1, deadline - self._clock()))
        except subprocess.TimeoutExpired:
            self._notify(f"{child.program.name} did not stop in {child.program.patience_s:g} s; killing it")
            child.process.kill()
            child.process.wait()
        self._end_group(child)

    def _rotate_logs(self) -> None:
        """Copy a log above the limit to `.1` and empty it: children write in append mode, so go on at its start."""
        if self._clock() - self._logs_checked_at < LOG_CHECK_PERIOD_S:
            return
        self._logs_checked_at = self._clock()
        for log in self.layout.logs.glob("*.log"):
            if log.stat().st_size > LOG_LIMIT_BYTES:
                shutil.copy2(log, log.with_suffix(".log.1"))
                os.truncate(log, 0)


def _signal(child: Child, number: signal.Signals) -> None:
    """To the child alone: Celery's main process and uvicorn end their own; `_end_group` sweeps up after them."""
    if child.process is not None and child.process.poll() is None:
        child.process.send_signal(number)


def _facts(child: Child) -> dict[str, Any]:
    identity = identity_of(child.process.pid) if child.process else None
    return {
        "role": child.program.role,
        "pid": identity.pid if identity else None,
        "started": identity.started if identity else None,
        "restarts": child.restarts,
        "last_exit": child.last_exit,
    }
