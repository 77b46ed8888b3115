"""Tasks beside each other: their answers in order, their progress, and how they are stopped."""

import os
from functools import partial

import pytest

from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.run.parallel import Task, run_tasks


def square(number, tell):
    tell(0.5)
    return number**2, os.getpid()


def fail(tell):
    raise SimulationError("trace", "is bad")


class TooProud(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def fail_unportably(tell):
    raise TooProud("it was me", 2)


def until_stopped(tell):
    for n in range(10**9):
        tell(n / 10**9)


@pytest.mark.impure  # two processes
def test_answers_come_in_the_order_of_the_tasks_from_processes_of_their_own():
    seen = []
    answers = run_tasks(
        [Task(str(n), partial(square, n)) for n in (3, 2)], processes=2, watch=lambda f: seen.append([*f])
    )
    assert [answer for answer, _ in answers] == [9, 4]
    assert os.getpid() not in {pid for _, pid in answers}
    assert seen[-1] == [1.0, 1.0]


def test_one_process_is_this_one():
    assert run_tasks([Task("a", partial(square, 3)), Task("b", partial(square, 2))]) == [
        (9, os.getpid()),
        (4, os.getpid()),
    ]


@pytest.mark.impure
def test_what_a_task_raises_is_raised_here_and_ends_the_others():
    with pytest.raises(SimulationError, match="trace: is bad"):
        run_tasks([Task("a", until_stopped), Task("b", fail)], processes=2)


@pytest.mark.impure
def test_an_error_that_cannot_cross_is_told_in_full():
    with pytest.raises(RuntimeError, match="TooProud: it was me"):
        run_tasks([Task("a", fail_unportably), Task("b", partial(square, 2))], processes=2)


@pytest.mark.impure
@pytest.mark.parametrize("tasks", [[Task("a", until_stopped)], [Task("a", until_stopped), Task("b", until_stopped)]])
def test_whoever_watches_may_stop_everything(tasks):
    def watch(fractions):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, processes=2, watch=watch)


def test_no_process_at_all_is_refused_naming_the_field():
    with pytest.raises(SimulationError, match="processes: at least one"):
        run_tasks([], processes=0)
