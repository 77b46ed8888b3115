"""The agent's event loop reads no file: whatever a read waits for, contact and leases go on."""

from __future__ import annotations

import os
import shlex
import signal
import sys

import pytest

from tests.remains import processes_of
from tests.workers.conftest import wait_until

pytestmark = pytest.mark.system  # agents and jobs as processes of their own, waited for

WATCH = """
import os, sys, threading, time
room = sys.argv[sys.argv.index("--dir") + 1]
def hook(event, arguments):
    if event != "open" or threading.current_thread() is not threading.main_thread():
        return
    path, _, flags = arguments
    if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(room):
        if flags & os.O_ACCMODE == os.O_RDONLY and not flags & os.O_DIRECTORY:
            os.write(2, f"READ {time.monotonic()} {path}\\n".encode())
sys.addaudithook(hook)
sys.argv[:] = ["agent", *sys.argv[3:]]
from workers.agent.program import main
sys.exit(main())
"""


def test_no_file_is_read_in_the_loop(portal, node, tmp_path):
    launcher = tmp_path / "watched"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(WATCH)} "$@"\n')
    launcher.chmod(0o755)
    node.start("--keep-ended-s", "0", python=str(launcher))
    began = portal.wait_for(lambda: next((at for at, path in portal.calls if path == "sync"), None))
    ended = portal.want(attempt=1, job=1, command="echo out; echo err >&2")
    killed = portal.want(attempt=2, job=2, command="sleep 300")
    stopped = portal.want(attempt=3, job=3, command="sleep 300", lease=True)
    waiting = portal.want(attempt=4, job=4, go=False)
    portal.wait_report(killed, "running")
    portal.wait_report(stopped, "running")
    portal.wait_report(waiting, "prepared")
    os.kill(next(pid for pid, line in processes_of(node.part(killed)) if "shim.py" in line), signal.SIGKILL)
    portal.stop(stopped)
    portal.stop(waiting)
    for key in (ended, killed, stopped, waiting):
        portal.wait_report(key, "ended")
    wait_until(lambda: portal.telemetry)
    reads = [line.split() for line in node.log.read_text().splitlines() if line.startswith("READ ")]
    assert reads, "the watch works: the start itself reads"
    assert [path for _, at, path in reads if float(at) > began] == []
