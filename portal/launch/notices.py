"""What `up` tells: a line a step with the seconds since it began, on the terminal and in logs/supervisor.log."""

import contextlib
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path


class Notices:
    """Secrets go to the terminal only. Without a terminal (`--detach`, a closed window) lines go to the log alone."""

    def __init__(self, log: Path) -> None:
        self._began = time.monotonic()
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._terminal = True

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def step(self, text: str) -> None:
        """A step done, or something that happened: one line, with the time since `up` began."""
        self._record(text)
        self._show(f"[{self.elapsed_s:6.1f} s] {text}")

    def say(self, text: str) -> None:
        """Lines for the person who starts Berth, as they are; never in the log, so they may hold a password."""
        self._show(text)

    def detach(self) -> None:
        """Leave the terminal: `up --detach` returns, and nothing of ours keeps its descriptors open."""
        self._terminal = False
        sys.stdout.flush()
        sys.stderr.flush()
        with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - os.devnull is no path of ours
            for descriptor in (0, 1, 2):
                os.dup2(nothing.fileno(), descriptor)

    def _record(self, text: str) -> None:
        """A full disk costs the line, never the supervisor; the terminal, where there is one, still shows it."""
        with contextlib.suppress(OSError):
            os.write(self._log, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z {text}\n".encode())

    def _show(self, text: str) -> None:
        if not self._terminal:
            return
        try:
            print(text, flush=True)  # noqa: T201 - this is the command's output
        except (BrokenPipeError, OSError):
            self._terminal = False
            self._record("the terminal is gone; going on without it")
