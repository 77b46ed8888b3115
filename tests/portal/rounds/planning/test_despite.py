"""A planner that fails over one waiting job plans the others, and says of that one what is wrong."""

import pytest

from portal.jobs.models import Job
from portal.rounds.models import Planning
from portal.rounds.planning import despite
from portal.rounds.planning import run as planning
from portal.rounds.planning.run import planning_run
from portal.rounds.read.explained import explanation
from portal.rounds.read.needs import start_need
from scheduler.placement.memory import NOTHING
from scheduler.planning.plan import plan_on
from tests.portal import given


@pytest.fixture
def cluster(cluster, monkeypatch):
    """With room for all, in a process that knows of no such job."""
    monkeypatch.setattr(despite, "_until_s", {})
    given.node_make("n2", gpus=8, cores=256, memory_mib=2**20)
    return cluster


@pytest.fixture
def planner(monkeypatch):
    """A function: let the planner fail where `bad(memory, state)`. It returns the list to which each call is added."""

    def make(bad):
        own, calls = planning.plan_on, []

        def failing(memory, state, *rest, **more):
            calls.append(sum(job.eligible for job in state.jobs))
            if bad(memory, state):
                raise ZeroDivisionError("a mistake")
            return own(memory, state, *rest, **more)

        monkeypatch.setattr(planning, "plan_on", failing)
        return calls

    return make


def poisoned(memory, state):
    return any(job.eligible and job.model_label == "poison" for job in state.jobs)


def states(name):
    return set(Job.objects.filter(name=name).values_list("state", flat=True))


@pytest.mark.parametrize("place", [0, 3, 6])
def test_the_others_are_placed_and_the_one_says_why_not(cluster, planner, place, caplog):
    for number in range(7):
        cluster.submit(**({"name": "bad", "model": "poison"} if number == place else {"name": "good"}))
    calls = planner(poisoned)
    record = planning_run()
    assert (record.status, record.error, record.placed) == ("applied", "", 6)
    assert (states("bad"), states("good")) == ({"PENDING"}, {"STARTING"})
    job = Job.objects.get(name="bad")
    assert job.reason == "invalid"
    told = explanation(job)
    assert "the planner fails over it, which is a fault of Berth" in told["sentence"]
    assert start_need(told["reason"], told["figures"]) == "Berth to be mended"
    assert f"the planner fails over job {job.pk}" in caplog.text
    assert "ZeroDivisionError: a mistake" in caplog.text
    assert len(calls) <= 7, "by halves"
    calls.clear()
    planning_run()
    assert len(calls) == 1, "it is known now"


def test_it_is_tried_again_later(cluster, planner, monkeypatch):
    job = cluster.submit(model="poison")
    planner(poisoned)
    assert planning_run().placed == 0
    monkeypatch.setattr(planning, "plan_on", plan_on)  # mended
    for until_s, placed in ((None, 0), (0.0, 1)):
        if until_s is not None:
            despite._until_s[job.pk] = until_s
        assert planning_run().placed == placed


def test_several_are_found_one_after_the_other(cluster, planner):
    for _ in range(3):
        cluster.submit(name="bad", model="poison")
        cluster.submit(name="good")
    planner(poisoned)
    assert planning_run().placed == 3
    assert (states("bad"), states("good")) == ({"PENDING"}, {"STARTING"})


def test_more_than_are_looked_for_are_found_by_the_plannings_that_follow(cluster, planner):
    for _ in range(despite.MOST + 1):
        cluster.submit(name="bad", model="poison")
    cluster.submit(name="good")
    planner(poisoned)
    with pytest.raises(ZeroDivisionError):
        planning_run()
    assert planning_run().placed == 1
    assert [each.status for each in Planning.objects.order_by("number")] == ["failed", "applied"]


def test_what_was_remembered_is_forgotten_and_nobody_is_set_aside(cluster, planner):
    cluster.submit()
    planning_run()
    cluster.submit()
    calls = planner(lambda memory, state: memory is not NOTHING)
    assert planning_run().placed == 1
    assert (len(calls), despite._until_s) == (2, {})


def test_where_no_job_is_the_reason_the_planning_fails_as_it_did(cluster, planner):
    for _ in range(3):
        cluster.submit()
    calls = planner(lambda *_: True)
    with pytest.raises(ZeroDivisionError):
        planning_run()
    assert (Planning.objects.get().status, despite._until_s) == ("failed", {})
    assert len(calls) == 3


def test_the_search_ends(cluster, planner, monkeypatch):
    monkeypatch.setattr(despite, "SEARCH_S", -1.0)
    for number in range(8):
        cluster.submit(model="poison" if number == 5 else "")
    planner(poisoned)
    with pytest.raises(ZeroDivisionError):
        planning_run()
