"""What names a process, when its number names something else by now, or nothing."""

import signal
import threading

import pytest

from workers.system.procs import Identity, boot_id


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
