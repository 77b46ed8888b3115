"""`./berth node` keeps its agent running: one that hangs is killed and started again, and Ctrl-C ends even a stopped one."""

import os
import signal
import subprocess
import sys
import time

import pytest

from portal.foundation.layout import SOURCE
from portal.launch.processes import identity
from tests.portal.launch.test_supervisor import until

pytestmark = pytest.mark.system  # processes of their own, waited for

AGENT = """
import asyncio, os, sys
from pathlib import Path
from workers.agent import alive
pipe = alive.descriptor_take()
assert alive.VARIABLE not in os.environ
with Path(sys.argv[1]).open("a") as file: file.write(f"{os.getpid()}\\n")
asyncio.run(alive.sign_for_ever(pipe))
"""
KEEPER = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("berth_script", sys.argv[1])
berth = importlib.util.module_from_spec(importlib.util.spec_from_loader("berth_script", loader))
loader.exec_module(berth)
berth.STOP_PATIENCE_S = 2
sys.exit(berth.keep_running([sys.executable, "-c", sys.argv[2], sys.argv[3]], 5.0))
"""


@pytest.fixture
def kept(tmp_path):
    """(the keeper's process, a function that gives the pids of the agents it has started)."""
    note = tmp_path / "pids"
    keeper = subprocess.Popen(
        [sys.executable, "-c", KEEPER, SOURCE / "berth", AGENT, note], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    pids = lambda: [int(line) for line in note.read_text().split()] if note.exists() else []  # noqa: E731
    until(pids, limit_s=30)
    yield keeper, pids
    keeper.kill()
    for pid in pids():
        if identity.identity_of(pid):
            os.kill(pid, signal.SIGKILL)


def test_an_agent_that_hangs_is_killed_and_started_again(kept):
    keeper, pids = kept
    time.sleep(1)
    first = pids()[0]
    os.kill(first, signal.SIGSTOP)
    until(lambda: len(pids()) == 2, limit_s=60)
    assert identity.identity_of(first) is None
    assert "gave no sign of life for 5 s" in keeper.stdout.readline()
    assert "starting it again" in keeper.stdout.readline()


def test_one_that_lives_is_left_alone(kept):
    _, pids = kept
    time.sleep(8)
    assert len(pids()) == 1


def test_ctrl_c_ends_one_that_hangs(kept):
    keeper, pids = kept
    os.kill(pids()[0], signal.SIGSTOP)
    keeper.send_signal(signal.SIGINT)
    assert keeper.wait(timeout=30) == 0
    assert identity.identity_of(pids()[0]) is None
    assert len(pids()) == 1


def test_what_an_agent_starts_does_not_get_the_pipe():
    """A job that signed for its agent would hide that this one hangs."""
    reader, writer = os.pipe()
    look = f"import os, stat\ntry: print(stat.S_ISFIFO(os.fstat({writer}).st_mode), end='')\nexcept OSError: print('none', end='')"
    code = f"import os, sys\nfrom workers.agent import alive\nalive.descriptor_take()\nos.execv(sys.executable, ['python', '-c', {look!r}])"
    environment = os.environ | {"BERTH_ALIVE_DESCRIPTOR": str(writer), "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, pass_fds=[writer], capture_output=True, text=True, check=True
    )
    os.close(reader)
    os.close(writer)
    assert done.stdout == "none"
