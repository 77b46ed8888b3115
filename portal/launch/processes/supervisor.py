"""Starts Berth's processes, starts them again when they die or hang, and stops them in order.

A child that ends is started again after 0.5 s, then after 1, 2, ... up to 30 s; after it has lived for 30 s the pause is
0.5 s again. Each child has a process group of its own, for two reasons: Ctrl-C at the terminal reaches only the supervisor;
and the rest of a killed child (Celery's pool) is ended before the next start. An agent's group is not ended: the shims of
jobs outlive their agent.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from portal.foundation.layout import Layout, write_json
from portal.launch.processes import together
from portal.launch.processes.children import FIRST_DELAY_S, Child, Program, exit_words
from portal.launch.processes.identity import boot_id, identity_of
from portal.launch.processes.liveness import Liveness

LONGEST_DELAY_S = 30.0
SETTLED_AFTER_S = 30.0
HUNG_SETTLED_AFTER_S = 600.0
"""The same for a program that hung, because it takes longer until it shows that it hangs."""
LOG_LIMIT_BYTES = 20 * 2**20
LOG_CHECK_PERIOD_S = 60.0
MODES_PERIOD_S = 1.0
STATE_RETRY_S, REFUSED_S = 2.0, 5.0
AGAIN = f"it must be writable for this user, and is looked at again each {REFUSED_S:g} s"


class Supervisor:
    """Holds the children of one data directory. `tick` is called a few times a second. Only `stop` waits.

    A full disk does not end it: it writes again when there is room.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        notify: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        liveness: Liveness | None = None,
    ) -> None:
        self.layout = layout
        self.children: dict[str, Child] = {}
        self.about: dict[str, Any] = {}
        self.liveness = liveness or Liveness(limit_s=0.0, clock=clock)
        self._notify = notify
        self._clock = clock
        self._logs_checked_at = self._modes_checked_at = clock()
        self._unwritten_since: float | None = None
        self._write_again_at = 0.0

    def start(self, program: Program) -> None:
        child = Child(program)
        self.children[program.name] = child
        self._launch(child)
        self.write_state()

    def start_together(self, programs: Iterable[Program], *, between: Callable[[], None]) -> None:
        """Start services, or agents: they load the same modules. `between` is called meanwhile, a few times a second."""
        children = [Child(program) for program in programs]
        for child in children:
            child.started_at = self._clock()
        try:
            together.begin(children, self.layout, between=between)
        except OSError as error:
            names = ", ".join(child.program.name for child in children)
            self._notify(f"{names} could not be started together ({error.strerror}); each starts by itself")
        for child in children:
            self.children[child.program.name] = child
            if child.process is None:
                self._launch(child)
            else:
                self.liveness.begin(child)
        self.write_state()

    def tick(self) -> list[str]:
        """Reap, kill what hangs, and start again; return the names of the children that ended since the last tick."""
        ended = [name for name, child in self.children.items() if self._reap(child)]
        due = [c for c in self.children.values() if c.process is None and self._clock() >= c.start_again_at]
        for child in due:
            self._launch(child)
        self._end_hanging()
        if ended or due or (self._unwritten_since is not None and self._clock() >= self._write_again_at):
            self.write_state()
        self._rotate_logs()
        self._put_modes_right()
        return ended

    def _put_modes_right(self) -> None:
        """Set modes right that a job changed (chmod): the kernel keeps jobs out of our files, but lets them change modes."""
        if self._clock() - self._modes_checked_at >= MODES_PERIOD_S:
            self._modes_checked_at = self._clock()
            for path in self.layout.put_right():
                self._notify(f"the mode of {path} kept Berth itself out (chmod); it has set it right")

    def stop(self, roles: Iterable[str]) -> None:
        """End the children of these roles: SIGTERM, and SIGKILL for those that do not end within their patience."""
        wanted = set(roles)
        chosen = [child for child in self.children.values() if child.program.role in wanted]
        for child in chosen:
            child.signal(signal.SIGTERM)
        began = self._clock()
        for child in chosen:
            self._await_end(child, deadline=began + child.program.patience_s)
            child.close()
            del self.children[child.program.name]
        self.write_state()

    def write_state(self) -> None:
        """Write `run/state.json` for `status`, `down` and tests: our own identity, and each child's pid, role and restarts.

        On a full disk the old file stays, and `tick` tries again.
        """
        me = identity_of(os.getpid())
        state = {
            "supervisor": me.as_dict() if me else {"pid": os.getpid(), "started": 0, "boot_id": boot_id()},
            **self.about,
            "children": {name: child.facts() for name, child in self.children.items()},
        }
        try:
            write_json(self.layout.state, state)
        except OSError as error:
            self._write_again_at = self._clock() + STATE_RETRY_S
            if self._unwritten_since is None:
                self._unwritten_since = self._clock()
                self._notify(f"{self.layout.state} cannot be written ({error.strerror}); Berth goes on and tries again")
            return
        if self._unwritten_since is not None:
            self._notify(f"{self.layout.state} can be written again")
        self._unwritten_since = None

    def _launch(self, child: Child) -> None:
        """Start it. When its database cannot be written, or the machine cannot start a process, set the time of the next try."""
        child.started_at = self._clock()
        child.hung = False
        if child.refuse() and child.refused:
            self._notify(f"{child.program.name} is not started: {child.refused}; {AGAIN}")
        if child.refused:
            child.start_again_at = self._clock() + REFUSED_S
            return
        try:
            child.spawn(self.layout)
        except OSError as error:
            self._start_later(child, f"{child.program.name} could not be started ({error.strerror})")
        else:
            self.liveness.begin(child)

    def _reap(self, child: Child) -> bool:
        """Say whether the child's process has ended since the last call. Set its next start then."""
        if child.process is None:
            return False
        code = child.process.poll()
        if code is None:
            return False
        child.end_group()
        child.close()
        settled_s = HUNG_SETTLED_AFTER_S if child.hung else SETTLED_AFTER_S
        if self._clock() - child.started_at >= settled_s:
            child.delay_s = FIRST_DELAY_S
        child.process, child.last_exit = None, code
        self._start_later(child, f"{child.program.name} ended ({exit_words(code)})")
        return True

    def _start_later(self, child: Child, why: str) -> None:
        child.start_again_at = self._clock() + child.delay_s
        child.restarts += 1
        self._notify(f"{why}; starting it again in {child.delay_s:g} s")
        child.delay_s = min(LONGEST_DELAY_S, child.delay_s * 2)

    def _end_hanging(self) -> None:
        """Kill what hangs. SIGKILL, because a stopped process gets nothing else; never an agent's group, where shims live."""
        hanging, pool = self.liveness.look(self.children)
        for child in hanging:
            if not child.hung:
                child.hung = True
                child.hangs += 1
                self._notify(f"{child.program.name} gave no sign of life for {self.liveness.limit_s:g} s; killing it")
            child.signal(signal.SIGKILL)
        for child, pid in pool:
            self._notify(f"process {pid} of {child.program.name} gave no sign of life; killing it")
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it ended by itself

    def _await_end(self, child: Child, *, deadline: float) -> None:
        if child.process is None:
            return
        try:
            child.process.wait(timeout=max(0.1, deadline - self._clock()))
        except subprocess.TimeoutExpired:
            self._notify(f"{child.program.name} did not stop in {child.program.patience_s:g} s; killing it")
            child.process.kill()
            child.process.wait()
        child.end_group()

    def _rotate_logs(self) -> None:
        """Copy a log above the limit to `.1` and empty it. Children append, so they go on at its start."""
        if self._clock() - self._logs_checked_at < LOG_CHECK_PERIOD_S:
            return
        self._logs_checked_at = self._clock()
        for log in self.layout.logs.glob("*.log"):
            try:
                self._rotate(log)
            except OSError as error:
                self._notify(f"{log} has grown large and cannot be moved away ({error.strerror})")

    def _rotate(self, log: Path) -> None:
        """Move one log away. When there is no room for the copy, empty it all the same: the log may be what fills the disk."""
        if log.stat().st_size <= LOG_LIMIT_BYTES:
            return
        old = log.with_suffix(".log.1")
        try:
            shutil.copy2(log, old)
        except OSError as error:
            old.unlink(missing_ok=True)
            self._notify(f"{log} was emptied without a copy ({error.strerror})")
        os.truncate(log, 0)
