"""A computation without an end is ended by its own processor time, in any thread, and nothing else is."""

import subprocess
import sys
import threading
import time

import pytest

from portal.foundation.layout import SOURCE
from portal.planning.rounds import endless
from portal.planning.rounds.endless import Endless, within

SHORT_S = 0.05


def spin(until_s=float("inf")):
    while time.thread_time() < until_s:
        pass


@pytest.fixture
def often_switched():
    """Let threads take turns at each tenth of a millisecond."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before_s)


def test_a_loop_without_end_is_ended():
    with pytest.raises(Endless):
        within(SHORT_S, spin)


def test_so_it_is_in_another_thread_and_only_there():
    ended = []

    def run():
        try:
            within(SHORT_S, spin)
        except Endless:
            ended.append(threading.current_thread())

    threads = [threading.Thread(target=run) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert set(ended) == {*threads}


def test_one_that_catches_everything_is_ended_all_the_same(monkeypatch):
    monkeypatch.setattr(endless, "AGAIN_S", 0.02)
    caught = []

    def careless():
        while True:
            try:
                spin()
            except Exception as error:
                caught.append(error)
                if len(caught) == 3:
                    raise

    with pytest.raises(Endless):
        within(SHORT_S, careless)
    assert len(caught) == 3


def test_waiting_is_no_computing():
    assert within(SHORT_S, lambda: time.sleep(4 * SHORT_S) or 7) == 7


def test_an_error_of_what_it_watches_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        within(SHORT_S, lambda: 1 // 0)


def test_what_ends_just_at_the_limit_is_ended_or_not_and_nothing_comes_later(monkeypatch, often_switched):
    monkeypatch.setattr(endless, "LEAST_WAIT_S", 0.0002)
    monkeypatch.setattr(endless, "AGAIN_S", 0.0005)
    ended = 0
    for turn in range(200):
        try:
            until_s = time.thread_time() + 0.0017 + 0.0003 * (turn % 6)
            within(0.002, lambda until_s=until_s: spin(until_s))
        except Endless:
            ended += 1
        spin(time.thread_time() + 0.0005)  # where a late one would be raised
    assert 0 < ended < 200


PROFILED = """
import sys, time
from portal.planning.rounds.endless import Endless, within

def called(): pass

def spin(until_s):
    while time.thread_time() < until_s:
        pass

for limit_s, ends_s in ((60.0, 0.0), (0.003, 0.003), (0.003, 1.0)):
    for _ in range(20):
        try:
            within(limit_s, lambda: spin(time.thread_time() + ends_s))
        except Endless:
            pass
sys.setprofile(lambda *_: None)
called()
sys.setprofile(None)
"""


@pytest.mark.impure
def test_the_interpreter_is_as_it_was():
    """Seen: ordered to raise nothing, CPython looked for an exception at each step from then on, and a profiled call never ended."""
    subprocess.run([sys.executable, "-c", PROFILED], cwd=SOURCE, timeout=60, check=True)


def test_nothing_is_left_of_it():
    before = threading.active_count()
    for _ in range(20):
        within(60.0, list)
    assert threading.active_count() == before
