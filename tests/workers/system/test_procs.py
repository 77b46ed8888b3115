"""What names a process, when its number names something else by now, or nothing."""

import os
import signal
import subprocess
import threading

import pytest

from workers.system import procs
from workers.system.procs import Identity, Tree, boot_id


@pytest.fixture
def thread():
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield thread
    over.set()
    thread.join()


def test_a_number_that_is_a_threads_now_is_no_process(thread):
    """Numbers are used again, and for threads too. The kernel says EINVAL then, since 2025 ENOENT."""
    gone = Identity.of(thread.native_id)
    assert gone.open_pidfd() is None
    assert gone.signal(signal.SIGUSR1) is False


def test_the_number_of_a_part_that_never_started_is_no_process():
    assert Identity(0, 0, "").signal(signal.SIGUSR1) is False
    assert Identity(0, 0, boot_id()).open_pidfd() is None


@pytest.fixture
def nested():
    """A shell that waits for one that waits for two; its process."""
    with subprocess.Popen(
        ["sh", "-c", "sh -c 'sleep 60 & sleep 60 & echo up; wait' & wait"], stdout=subprocess.PIPE
    ) as shell:
        shell.stdout.readline()
        yield shell
        for process in Tree(shell.pid).scan(full=True):
            Identity.of(process.pid).signal(signal.SIGKILL)
        shell.kill()


@pytest.mark.parametrize("backwards", [False, True])
def test_each_process_of_a_tree_comes_after_its_parent(nested, monkeypatch, backwards):
    """Also where numbers begin anew, and a child's is below its parent's."""
    pids = procs.all_pids()
    monkeypatch.setattr(procs, "all_pids", lambda: sorted(pids, reverse=backwards))
    found = [process for process in Tree(os.getpid()).scan(full=True) if process.session == os.getsid(nested.pid)]
    order = [process.pid for process in found]
    assert nested.pid in order
    assert len(order) >= 4
    assert [p.pid for p in found if p.ppid in order and order.index(p.ppid) > order.index(p.pid)] == []
