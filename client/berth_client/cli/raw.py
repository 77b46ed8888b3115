"""The user's own terminal in raw mode: it notices changes of its size, and is always restored."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
import tty
from typing import TYPE_CHECKING, Any, NoReturn, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class RawTerminal:
    """`changed` can be read when the size has changed. SIGTERM and SIGHUP end the program, with the terminal put back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._saved = termios.tcgetattr(self._descriptor)
        self.changed, self._changes = os.pipe()
        for end in (self.changed, self._changes):
            os.set_blocking(end, False)
        handlers: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {
            signal.SIGWINCH: self._change,
            signal.SIGCONT: self._again,
            signal.SIGTERM: _leave,
            signal.SIGHUP: _leave,
        }
        self._before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self._wake = signal.set_wakeup_fd(self._changes, warn_on_full_buffer=False)
        self._set()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(termios.error):  # it is gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._saved)
        signal.set_wakeup_fd(self._wake)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for end in (self.changed, self._changes):
            os.close(end)

    def size(self) -> os.terminal_size | None:
        """Return the size after a change; None when it cannot be had."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.changed, 64):
                pass
        try:
            return os.get_terminal_size(self._descriptor)
        except OSError:
            return None

    def _set(self) -> None:
        tty.setraw(self._descriptor, termios.TCSADRAIN)

    def _change(self, *_: object) -> None:
        """The wake-up pipe tells of it."""

    def _again(self, *_: object) -> None:
        """After it was stopped: the shell that stopped it has set the terminal its own way."""
        with contextlib.suppress(termios.error):
            self._set()


def _leave(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)
