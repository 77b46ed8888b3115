"""The messages of `up`: one line for each step, with the seconds since the start, to the terminal and logs/supervisor.log.

A process of the first start prints JSON lines for `up`; `portal.launch.preparation` reads them.
"""

import contextlib
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path


class Notices:
    """Writes lines to terminal and log. Secrets go to the terminal only. Without a terminal, lines go to the log only."""

    def __init__(self, log: Path) -> None:
        self._began = time.monotonic()
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._terminal = True

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def step(self, text: str) -> None:
        """Say in one line that a step is done or that something happened, with the time since `up` began."""
        self._record(text)
        self._show(f"[{self.elapsed_s:6.1f} s] {text}")

    def say(self, text: str) -> None:
        """Say something to the person who starts Berth. It never goes into the log, so it may hold a password."""
        self._show(text)

    def detach(self) -> None:
        """Leave the terminal: close our descriptors of it, so that `up --detach` can return."""
        self._terminal = False
        sys.stdout.flush()
        sys.stderr.flush()
        with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - os.devnull is no path of ours
            for descriptor in (0, 1, 2):
                os.dup2(nothing.fileno(), descriptor)

    def _record(self, text: str) -> None:
        """Write the line into the log. On a full disk it is lost; the terminal still shows it."""
        with contextlib.suppress(OSError):
            os.write(self._log, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z {text}\n".encode())

    def _show(self, text: str) -> None:
        if not self._terminal:
            return
        try:
            print(text, flush=True)  # noqa: T201 - this is the command's output
        except (BrokenPipeError, OSError):
            self._terminal = False
            self._record("the terminal was closed; Berth goes on without it")


def emit(**said: str) -> None:
    print(json.dumps(said), flush=True)  # noqa: T201 - read by portal.launch.preparation


def step(text: str) -> None:
    emit(step=text)


def farewell(text: str) -> None:
    """Send a line to show when all is up. It may hold a password, so it never goes into a log."""
    emit(farewell=text)
