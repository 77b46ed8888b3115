"""Loops of calls cost no system calls at any depth, inside `roomy` and on the threads of requests."""

import resource
from concurrent.futures import ThreadPoolExecutor

import pytest

from portal.foundation.deep_calls import RoomyThread, roomy

CALLS = 200
DEEPEST = 300


def called(*_):
    """The function that a loop calls; its frame has the usual size."""
    return [each for each in _]  # noqa: C416 - a call of its own in Python 3.11


def most_faults():
    """The most page faults that a loop of calls had, wherever it stood: deeper and deeper, down to `DEEPEST`."""

    def at(depth):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for _ in range(CALLS):
            called(1, 2)
        found = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
        return max(found, at(depth + 1)) if depth < DEEPEST else found

    at(0)  # the pages that stay
    return at(0)


def test_a_loop_at_the_end_of_a_piece_asks_for_memory_at_each_call():
    """The fault that this module prevents. The test fails when a Python no longer has it."""
    with ThreadPoolExecutor(1) as thread:  # the tests' own has room
        assert thread.submit(most_faults).result() >= CALLS


def test_with_room_none_does():
    assert roomy(most_faults) < CALLS / 4


def test_a_requests_thread_has_room():
    thread = RoomyThread("request")
    assert thread.submit(most_faults).result() < CALLS / 4
    thread.shutdown()


def test_it_passes_on_what_it_is_given_and_what_is_raised():
    assert roomy(dict, [("a", 1)], b=2) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match="no number"):
        roomy(int, "no number")
