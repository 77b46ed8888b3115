"""Processor time of each test file, for the end of `./berth test`: that of all processes it started included."""

import os
import resource
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from portal.launch.processes.together import become_subreaper

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
COSTLIEST = 10
OUTPUT = "costs"
_STATE, _OWN_AND_WAITED = 0, slice(11, 15)
"""Fields of /proc/PID/stat after the program's name: Z for a zombie; user and system time, its own and of the children it waited for."""


def _stat(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            found += (task / "children").read_text().split()
    return found


def spent_s():
    """Return the processor seconds of this process and all below it, those that ended included."""
    spent = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    below = _children(os.getpid())
    while below:
        pid = below.pop()
        with suppress(OSError):  # it has just ended and was waited for
            stat = _stat(pid)
            spent += sum(map(int, stat[_OWN_AND_WAITED])) / TICKS_PER_S
            below += _children(pid) if stat[_STATE] != "Z" else []
    return spent


class Costs:
    """A plug-in that counts {file: seconds}. Processes whose parents end become ours, so that they count."""

    def __init__(self):
        self.by_file, self.before_s = Counter(), 0.0

    @pytest.hookimpl
    def pytest_collection_finish(self):
        become_subreaper()
        self.before_s = spent_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        result = yield
        if nextitem is None or nextitem.path != item.path:  # the fixtures that the file's tests share have ended too
            now_s = spent_s()
            self.by_file[str(item.path.relative_to(item.config.rootpath))] += now_s - self.before_s
            self.before_s = now_s
        return result

    @pytest.hookimpl
    def pytest_sessionfinish(self, session):
        getattr(session.config, "workeroutput", {})[OUTPUT] = dict(self.by_file)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self.by_file.update(getattr(node, "workeroutput", {}).get(OUTPUT, {}))

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter, config):
        if len(self.by_file) > COSTLIEST:
            terminalreporter.write_line(f"processor time of the tests: {self.by_file.total():.0f} s, most of it in")
            for file, spent in self.by_file.most_common(None if config.option.verbose > 0 else COSTLIEST):
                terminalreporter.write_line(f"{spent:7.1f} s  {file}")
