"""One process that the supervisor watches: its command, and its state."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portal.foundation.alive import VARIABLE
from portal.foundation.layout import SOURCE, Layout, unwritable
from portal.launch.processes.identity import identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOOK_S = 0.02
UNKNOWN_CODE = 1


class Born:
    """A child that another process began and left to us, with the part of `subprocess.Popen` that is used here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                if Path(f"/proc/{self.pid}").exists():  # it lives and is no child of ours: nothing may begin beside it
                    raise
                self.returncode = UNKNOWN_CODE  # somebody else has waited for it, and has its exit code
            else:
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and timeout is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(LOOK_S)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:  # until it is waited for, no other process can have its pid
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


FIRST_DELAY_S = 0.5


@dataclass(frozen=True)
class Program:
    """What to run. `role`: broker, portal, worker, beat or agent. With `spares_group` its descendants live on after it.

    A program shows in one of two ways that it does not hang: it writes `signs` (`portal.foundation.alive`), or `ask` returns
    without an exception. A program with neither never counts as hanging. `needs` names another program: while that one does not
    answer, this one need not show anything. `database`: SQLite's file, without which it is not started.
    """

    name: str
    role: str
    argv: list[str]
    environment: dict[str, str]
    spares_group: bool = False
    patience_s: float = 8.0
    signs: bool = False
    ask: Callable[[], None] | None = field(default=None, compare=False)
    needs: str | None = None
    database: Path | None = None


@dataclass
class Child:
    """One program and its present process. Times are monotonic seconds, but for `since`: by the clock on the wall.

    `signs`: by pid, when a process last gave a sign. `excused_at`: silence before this moment does not count.
    `refused`: why it may not be started now.
    """

    program: Program
    process: subprocess.Popen[bytes] | Born | None = None
    started_at: float = 0.0
    since: float = 0.0
    start_again_at: float = 0.0
    delay_s: float = FIRST_DELAY_S
    restarts: int = 0
    hangs: int = 0
    hung: bool = False
    last_exit: int | None = None
    reader: int | None = None
    signs: dict[int, float] = field(default_factory=dict)
    excused_at: float = 0.0
    refused: str | None = None

    def spawn(self, layout: Layout) -> None:
        """Start its process, with its output in logs/NAME.log. Raises OSError."""
        with self.opened(layout) as (output, writer):
            passed = {VARIABLE: str(writer)} if self.program.signs else {}
            self.process = subprocess.Popen(  # noqa: S603 - our own argv, no shell
                self.program.argv,
                cwd=SOURCE,
                env=self.program.environment | passed,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[writer] if self.program.signs else [],
            )

    @contextmanager
    def opened(self, layout: Layout) -> Iterator[tuple[int, int]]:
        """Open its log, and a new pipe for its signs: the descriptors that its process is to inherit. Raises OSError."""
        self.close()
        self.since = time.time()
        reader, writer = os.pipe()
        self.reader = reader
        try:
            # The setting belongs to the pipe, so it holds in the child too: a child never waits for a slow supervisor.
            for descriptor in (reader, writer):
                os.set_blocking(descriptor, False)
            output = _log_open(layout, self.program.name)
            try:
                yield output, writer
            finally:
                os.close(output)
        finally:
            os.close(writer)

    def refuse(self) -> bool:
        """Look whether its database's files cannot be written; return whether `refused` has changed."""
        before = self.refused
        self.refused = unwritable(self.program.database) if self.program.database else None
        return self.refused != before

    def read_signs(self, now: float) -> None:
        """Note the signs that came since the last call."""
        if self.reader is None:
            return
        try:
            data = os.read(self.reader, 65536)
        except BlockingIOError:
            return
        for line in data.split(b"\n"):
            if line.isdigit():
                self.signs[int(line)] = now

    def close(self) -> None:
        """Forget the signs of a process that has ended."""
        if self.reader is not None:
            os.close(self.reader)
        self.reader = None
        self.signs = {}

    def end_group(self) -> None:
        """Kill what is left of the group of a child that has ended."""
        if self.process is None or self.program.spares_group:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # nothing was left

    def signal(self, number: signal.Signals) -> None:
        """Send it only to the child. Celery and uvicorn end their own processes; `end_group` kills those that are left."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def facts(self) -> dict[str, Any]:
        """Return its part of `run/state.json` and of `status`."""
        identity = identity_of(self.process.pid) if self.process else None
        return {
            "role": self.program.role,
            "pid": identity.pid if identity else None,
            "started": identity.started if identity else None,
            "since": self.since,
            "restarts": self.restarts,
            "hangs": self.hangs,
            "last_exit": self.last_exit,
        }


def _log_open(layout: Layout, name: str) -> int:
    """Open the log. When the disk is too full for a new file, open /dev/null: a service without a log is better than none."""
    try:
        return os.open(layout.logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def exit_words(code: int) -> str:
    """Return for example `exit code 1`, or `signal SIGKILL` for a process that was killed."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
