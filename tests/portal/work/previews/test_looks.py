"""Looks at tenants' files that hold others up: a far store that hangs, many readers at once, a portal that is killed."""

import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from portal.foundation.layout import SOURCE
from portal.work.previews import asking
from portal.work.previews.asking import Busy, Given, asked


def far(fetch):
    return lambda: [Given("x.csv", 8, os.memfd_create("x"), fetch)]


@pytest.fixture
def hanging(monkeypatch):
    """A far store that answers to nobody until the test is over."""
    over = threading.Event()
    monkeypatch.setattr(asking, "LIMIT_S", 0.3)
    monkeypatch.setattr(asking, "PATIENCE_S", 0.1)
    yield lambda _start, _length: over.wait(60) and b""
    over.set()


def test_a_store_that_hangs_holds_no_place_beyond_the_limit(hanging):
    for n in range(2 * asking.AT_ONCE):
        with pytest.raises(Busy, match="The store of artefacts answers too slowly"):
            asked(f"far {n}", "preview", far(hanging))
    places = [asking._slots.acquire(blocking=False) for _ in range(asking.AT_ONCE)]
    for _ in filter(None, places):
        asking._slots.release()
    assert all(places), "each place is free again"
    waiting = sum(each.name == "far-piece" for each in threading.enumerate())
    assert waiting <= asking.FAR_AT_ONCE, "those that hang are bounded"


def test_a_store_that_fails_says_so():
    def fetch(_start, _length):
        raise LookupError("away")

    with pytest.raises(LookupError, match="away"):
        asked("fails", "preview", far(fetch))


def test_more_than_a_few_wait_for_nothing(monkeypatch):
    go = threading.Event()
    monkeypatch.setattr(asking, "MOST_WAITING", 3)
    monkeypatch.setattr(asking, "PATIENCE_S", 30)
    monkeypatch.setattr(asking, "_run", lambda what, files: go.wait(30) and {"a": 1})
    got = []

    def ask(key):
        got.append(asked(key, key, list))

    threads = [threading.Thread(target=ask, args=(str(n),)) for n in (*range(asking.AT_ONCE), 0, 0, 99)]
    for each in threads:
        each.start()
    while asking._waiting < 3 or len(asking._running) < asking.AT_ONCE + 1:
        time.sleep(0.01)
    for key in ("0", "another"):
        with pytest.raises(Busy, match="Try again"):
            asked(key, key, list)
    go.set()
    for each in threads:
        each.join()
    assert got == [{"a": 1}] * len(threads)
    assert (asking._waiting, asking._running) == (0, {})


KILLED = """
import os, sys
from portal.work.previews import asking
from portal.work.previews.asking import Given, asked
def fetch(start, length):
    print(open(f"/proc/self/task/{os.getpid()}/children").read() or "-", flush=True)
    import time
    time.sleep(60)
asking.LIMIT_S = 60
asked("x", "preview", lambda: [Given("x.csv", 8, os.memfd_create("x"), fetch)])
"""


@pytest.mark.parametrize("state", ["waiting", "stopped"])
def test_a_reader_ends_with_a_portal_that_is_killed(state):
    portal = subprocess.Popen([sys.executable, "-c", KILLED], cwd=SOURCE, stdout=subprocess.PIPE, text=True)
    child = int(portal.stdout.readline())
    if state == "stopped":
        os.kill(child, signal.SIGSTOP)
    held = os.pidfd_open(child)
    portal.kill()
    portal.communicate()
    poll = select.poll()
    poll.register(held, select.POLLIN)
    gone = poll.poll(20_000)
    if not gone:
        signal.pidfd_send_signal(held, signal.SIGKILL)
    os.close(held)
    assert gone
