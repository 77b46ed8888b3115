"""Ends what computes without an end: a loop in the scheduler that a fault of ours never leaves would keep its process for good.

A thread beside watches how much processor time its caller has used. Only that of the caller: a busy or suspended machine
is no fault of it.
"""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Seconds after which it is raised once more, for something may have caught it and gone on."""
LEAST_WAIT_S = 0.01
STEPS = 10


class Endless(RuntimeError):
    """A computation did not end within many times its usual time."""


def within(limit_s: float, work: Callable[[], Found]) -> Found:
    """Return the result of `work`; raise Endless once it has used `limit_s` of this thread's processor time.

    It is raised between two steps of Python. A call of a library that does not come back is not ended by it: those of the
    solver have limits of their own, and Celery's ends the task (CELERY_TASK_TIME_LIMIT). Nothing is raised later.
    """
    watch = _Watch(limit_s)
    try:
        with watch.inside:  # a lock's own way in and out is one step, even under an exception
            return work()
    finally:
        watch.end()


class _Watch:
    """A thread that raises Endless in the one that made it, while the lock `inside` is held."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s, self._caller = limit_s, threading.get_ident()
        self._used, self._over = time.pthread_getcpuclockid(self._caller), threading.Event()
        self.inside, self._until_s = threading.Lock(), time.clock_gettime(self._used) + limit_s
        self._thread = threading.Thread(target=self._watch, name="endless", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Watch no more. An exception that has not come yet comes here: the computation had ended before.

        To take it back (the same call with no error) would leave CPython looking for one at each step for ever: the process gets
        slower, and one that is profiled never goes on.
        """
        try:
            self._over.set()
            self._thread.join()
            for _ in range(STEPS):
                pass
        except Endless:
            self._over.set()

    def _watch(self) -> None:
        while (left_s := self._until_s - time.clock_gettime(self._used)) > 0:
            if self._over.wait(max(left_s, LEAST_WAIT_S)):
                return
        log.error("what may take moments has computed for %.0f s of processor time: it is ended", self._limit_s)
        while self.inside.locked():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._caller), ctypes.py_object(Endless))
            self._over.wait(AGAIN_S)
