"""The end of a run: no process that a test started outlives it, however the run ended."""

import contextlib
import os
import signal
import time

import psutil
import pytest

from portal.launch.processes.together import become_subreaper

ENDING_S, PATIENCE_S = 1.0, 5.0
STOPPING = (signal.SIGTERM, signal.SIGHUP)


class Ending:
    """A plug-in for the process that a person started, not for those that it hands tests out to."""

    @pytest.hookimpl
    def pytest_sessionstart(self):
        become_subreaper()
        for number in STOPPING:
            signal.signal(number, _stop)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self):
        for number in (signal.SIGINT, *STOPPING):
            signal.signal(number, signal.SIG_IGN)
        for words in end_all():
            print(f"still ran after the tests, and was ended: {words}")


def _stop(number, _frame):
    raise KeyboardInterrupt(signal.Signals(number).name)


def living():
    """Return our descendants that run. Collect those that have ended."""
    found = []
    for process in psutil.Process().children(recursive=True):
        # A process whose first thread has ended looks like one that is over, and cannot be collected yet.
        with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif process.ppid() == os.getpid():
                process.wait(timeout=0)
    return found


def end_all():
    """End every descendant, by SIGTERM and then by SIGKILL; return the command lines and folders of those that did not end by themselves."""
    psutil.wait_procs(living(), timeout=ENDING_S)
    words = {}
    deadline = time.monotonic() + PATIENCE_S
    while found := living():
        late = time.monotonic() > deadline
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                first = process.pid not in words
                words.setdefault(process.pid, f"{process.pid} {' '.join(process.cmdline())[:100]} in {process.cwd()}")
                if late:
                    process.kill()
                elif first:
                    process.terminate()
        psutil.wait_procs(found, timeout=0.2)
    return list(words.values())
