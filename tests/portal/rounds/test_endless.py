"""What computes without an end is ended by its own processor time, in whatever thread, and nothing else is."""

import threading
import time

import pytest

from portal.rounds import endless
from portal.rounds.endless import Endless, EndsAfter

SHORT_S = 0.05


def spin(until_s=float("inf")):
    while time.thread_time() < until_s:
        pass


def test_a_loop_without_end_is_ended():
    with pytest.raises(Endless), EndsAfter(SHORT_S):
        spin()


def test_so_it_is_in_another_thread_and_only_there():
    ended = []

    def run():
        try:
            with EndsAfter(SHORT_S):
                spin()
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
    with pytest.raises(Endless), EndsAfter(SHORT_S):
        while True:
            try:
                spin()
            except Exception as error:  # as careless code has it
                caught.append(error)
                if len(caught) == 3:
                    raise
    assert len(caught) == 3


def test_waiting_is_no_computing():
    with EndsAfter(SHORT_S):
        time.sleep(4 * SHORT_S)


def test_an_error_of_what_it_watches_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError), EndsAfter(SHORT_S):
        raise ZeroDivisionError


def test_what_ends_just_at_the_limit_is_ended_or_not_and_nothing_comes_later():
    for _ in range(60):
        try:
            with EndsAfter(0.003):
                spin(time.thread_time() + 0.003)
        except Endless:
            pass
        spin(time.thread_time() + 0.001)  # where a late one would be raised


def test_nothing_is_left_of_it():
    before = threading.active_count()
    for _ in range(20):
        with EndsAfter(60.0):
            pass
    assert threading.active_count() == before
