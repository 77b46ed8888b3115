"""Ends what computes without an end: a loop in the scheduler that a fault of ours never leaves would keep its process for good.

A thread beside watches how much processor time its caller has used. That of the caller alone: a busy or suspended machine
is no fault of it.
"""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""After so long it is raised once more, for something may have caught it and gone on."""
LEAST_WAIT_S = 0.01


class Endless(RuntimeError):
    """What was computed did not end within many times what it may take."""


class EndsAfter:
    """Raise Endless in the calling thread once it has used `limit_s` of processor time inside of the `with`.

    It is raised between two steps of Python. A call of a library that does not come back is not ended by it: those of the
    solver have limits of their own, and Celery's ends the task (CELERY_TASK_TIME_LIMIT).
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s, self._caller = limit_s, threading.get_ident()
        self._used, self._over = time.pthread_getcpuclockid(self._caller), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ends-after", daemon=True)

    def __enter__(self) -> Self:
        self._until_s = time.clock_gettime(self._used) + self._limit_s
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while True:
            try:
                self._over.set()
                self._thread.join()
                _raise_in(self._caller, None)
            except Endless:  # it came while we were ending; what was computed had ended before
                continue
            return

    def _watch(self) -> None:
        while (left_s := self._until_s - time.clock_gettime(self._used)) > 0:
            if self._over.wait(max(left_s, LEAST_WAIT_S)):
                return
        log.error("what may take moments has computed for %.0f s of processor time: it is ended", self._limit_s)
        while not self._over.is_set():
            _raise_in(self._caller, Endless)
            self._over.wait(AGAIN_S)


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Let a thread raise this at its next step, or, with None, not raise what it was to raise."""
    raised = ctypes.py_object(error) if error is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
