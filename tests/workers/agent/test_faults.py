"""A mistake of the agent's own: what it costs at most is one job, or one kind of news, never a node."""

import asyncio
import os
import re
import time
from unittest import mock

import pytest

from tests.remains import processes_of
from tests.workers.conftest import ROOT
from workers.parts.journal import Journal
from workers.parts.part import Part
from workers.parts.parts import Parts
from workers.parts.problems import Problems
from workers.system.filework import FileWork

PART_FAILS = """
from workers.engines.process import ProcessEngine
life = ProcessEngine.life
def failing(engine, directory):
    if directory.name == "1-1-0":
        raise KeyError("a mistake")
    return life(engine, directory)
ProcessEngine.life = failing
"""
STEPS_FAIL = """
from workers.agent.agent import Agent
from workers.agent.measuring import Measuring
from workers.parts.shipping import Shipper
async def failing(*_):
    raise KeyError("a mistake")
sample, turns = Measuring._sample, []
async def failing_twice(measuring, *rest):
    turns.append(1)
    await (failing if len(turns) <= 2 else sample)(measuring, *rest)
Shipper.ship_all, Measuring._sample = failing, failing_twice
"""


@pytest.fixture
def spoilt(tmp_path):
    """Return the environment of an agent with a mistake in it."""

    def make(code):
        tmp_path.joinpath("sitecustomize.py").write_text(code)
        return {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}

    return make


def told(portal, subject):
    return next((each["detail"] for each in portal.problems if each["subject"] == subject), None)


def pids_of(node, key):
    return {pid for pid, _ in processes_of(node.part(key))}


def test_a_part_at_which_agent_after_agent_fails_is_given_up_and_the_others_run_on(portal, node, spoilt):
    bad, good = (portal.want(attempt=each, job=each, command="echo on; sleep 600") for each in (1, 2))
    node.start()
    for each in (bad, good):
        portal.wait_for(lambda each=each: portal.logs.get((*each, "stdout")))
    before = pids_of(node, good)
    node.kill()
    for _ in range(3):
        assert node.start(**spoilt(PART_FAILS)).process.wait(60) == 1
        assert pids_of(node, bad)
    node.start(**spoilt(PART_FAILS))
    assert portal.wait_report(bad, "ended")["reason"] == "lost"
    said = portal.wait_for(lambda: told(portal, "part 1-1-0"))
    assert re.fullmatch(
        "Part 1-1-0 is lost: its node's agent failed at it 3 times within an hour. Its files are kept in .*", said
    )
    assert pids_of(node, bad) == set()
    assert pids_of(node, good) == before
    portal.stop(good)
    portal.wait_report(good, "ended")


def test_steps_that_fail_are_told_and_jobs_run_on(portal, node, spoilt):
    node.start(**spoilt(STEPS_FAIL))
    for what in ("logs", "measuring"):
        said = portal.wait_for(lambda what=what: told(portal, f"agent: {what}"))
        assert said == "The agent failed at this and tries again, while jobs run on: KeyError: 'a mistake'"
    assert portal.wait_report(portal.want(command="true"), "ended")["exit_code"] == 0
    assert "Traceback" in node.log.read_text()
    portal.wait_for(lambda: told(portal, "agent: measuring") is None)  # the next turn was well
    assert told(portal, "agent: logs")


def test_a_part_that_cannot_even_be_given_up_ends_no_agent(tmp_path):
    """Whether it still runs is not known: it is neither reported as lost nor begun anew, and its files stay."""
    journal, problems = Journal(tmp_path), Problems()
    journal.create(part := Part(attempt="1", epoch=1, rank=0, job=1, boot_id="b", faults=[time.time()] * 3))
    engine = mock.MagicMock()
    engine.abandon.side_effect = KeyError("a mistake")

    async def begin():
        tools = mock.MagicMock(journal=journal, engine=engine, problems=problems, files=FileWork())
        await Parts(tools, tenant_file=tmp_path / "tenant.json", trust_tenants=True).set_aside_broken()

    asyncio.run(begin())
    assert (journal.parts, list(journal.broken), part.reports) == ({}, ["1-1-0"], [])
    assert "is left alone" in problems.current()[0]["detail"]
    assert journal.sweep() == []
    assert journal.directory(part).exists()
