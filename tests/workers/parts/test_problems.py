"""A node's problems are those of now: one that is over is told no more, whatever happened to the node's clock."""

import asyncio

import pytest

from tests.workers.telemetry.test_telemetry import second
from workers.agent import measuring
from workers.agent.measuring import Measuring
from workers.agent.sources import Sources
from workers.parts import problems as module
from workers.parts.problems import KEEP_S, Problems
from workers.portal_client import PortalRefusedError
from workers.system.filework import FileWork
from workers.telemetry.sampler import NoGpus


class Times:
    def __init__(self):
        self.wall = self.steady = 1000.0

    def time(self):
        return self.wall

    def monotonic(self):
        return self.steady


def subjects(problems):
    return [each["subject"] for each in problems.current()]


@pytest.mark.parametrize("set_s", [0, 365 * KEEP_S, -365 * KEEP_S])
def test_a_problem_is_kept_for_a_day_wherever_the_clock_stood(monkeypatch, set_s):
    monkeypatch.setattr(module, "time", times := Times())
    problems = Problems()
    times.wall += set_s
    problems.note("one", "It was so.")
    times.wall -= set_s
    times.steady += KEEP_S - 1
    assert subjects(problems) == ["one"]
    times.steady += 2
    assert subjects(problems) == []


class Portal:
    """Takes figures, or refuses them."""

    refuses = None

    async def telemetry(self, _body):
        if self.refuses:
            raise PortalRefusedError(*self.refuses)


@pytest.mark.parametrize(("told_s", "left"), [(0.0, []), (60.0, ["telemetry"])])
def test_refused_figures_are_no_problem_any_more_when_they_are_taken_again(monkeypatch, told_s, left):
    """But some time later: who looks shall see that some are missing."""
    portal, problems = Portal(), Problems()
    figures = Measuring(sources=Sources(NoGpus("")), files=FileWork())
    figures.on_refused = lambda why: problems.note("telemetry", why) if why else problems.clear("telemetry")

    def send(at):
        figures._window.add(second(at, 0.0))
        asyncio.run(figures.send(portal, boot_id="b"))
        return subjects(problems)

    assert send(1.0) == []
    portal.refuses = (400, "clock_ahead", "The samples are 86400 s ahead.", None)
    assert send(2.0) == ["telemetry"]
    portal.refuses = None
    monkeypatch.setattr(measuring, "REFUSED_TOLD_S", told_s)
    assert send(3.0) == left
