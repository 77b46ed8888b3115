"""One process that the supervisor looks after: what to run, and how it fares."""

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from portal.alive import VARIABLE
from portal.launch.processes.identity import identity_of
from portal.layout import SOURCE, Layout

FIRST_DELAY_S = 0.5


@dataclass(frozen=True)
class Program:
    """What to run: `role` is broker, portal, worker, beat or agent; `spares_group` keeps its descendants alive.

    How it shows that it does not hang: `signs` it writes (`portal.alive`), or an answer to `ask`, which raises an
    exception when none comes. A program with neither is never taken for hanging. `needs` names another program: while
    that one does not answer, nothing is expected of this one.
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


@dataclass
class Child:
    """One program and its present process; times are monotonic seconds.

    `signs`: when each process of it last signed, by pid. `excused_at`: silence before this moment means nothing.
    """

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_again_at: float = 0.0
    delay_s: float = FIRST_DELAY_S
    restarts: int = 0
    hangs: int = 0
    hung: bool = False
    last_exit: int | None = None
    reader: int | None = None
    signs: dict[int, float] = field(default_factory=dict)
    excused_at: float = 0.0

    def spawn(self, layout: Layout) -> None:
        """Start its process, with its output in logs/NAME.log. Raises OSError."""
        self.close()
        reader, writer = os.pipe()
        self.reader = reader
        try:
            # Of the open pipe, not of one descriptor: a child never waits for a supervisor that does not read.
            for descriptor in (reader, writer):
                os.set_blocking(descriptor, False)
            passed = {VARIABLE: str(writer)} if self.program.signs else {}
            output = _log_open(layout, self.program.name)
            try:
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
            finally:
                os.close(output)
        finally:
            os.close(writer)

    def read_signs(self, now: float) -> None:
        """Take note of the signs that have come since the last look."""
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
        """To the child alone: Celery's main process and uvicorn end their own; `end_group` sweeps up after them."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def facts(self) -> dict[str, Any]:
        """What `run/state.json` and `status` tell of it."""
        identity = identity_of(self.process.pid) if self.process else None
        return {
            "role": self.program.role,
            "pid": identity.pid if identity else None,
            "started": identity.started if identity else None,
            "restarts": self.restarts,
            "hangs": self.hangs,
            "last_exit": self.last_exit,
        }


def _log_open(layout: Layout, name: str) -> int:
    """The log's descriptor; /dev/null where a full disk has no room for a new file: a service without a log is better
    than none.
    """
    try:
        return os.open(layout.logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def exit_words(code: int) -> str:
    """`exit code 1`, or `signal SIGKILL` for a process that was killed."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
