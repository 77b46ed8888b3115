"""A planner that fails over one waiting job, or never ends, plans the others, and says of that one what is wrong."""

import pytest

from portal.foundation.errors import BerthError
from portal.planning.rounds.asking import changes, dryrun, forecasting
from portal.planning.rounds.asking.changes import changes_work
from portal.planning.rounds.asking.dryrun import dry_run
from portal.planning.rounds.asking.forecasting import forecasts_refresh
from portal.planning.rounds.endless import Endless, within
from portal.planning.rounds.models import Explanation, Planning
from portal.planning.rounds.planning import model_jobs, without_failing_jobs
from portal.planning.rounds.planning import run as planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read.explained import explanation
from portal.planning.rounds.read.needs import start_need
from portal.planning.rounds.record import explanations
from portal.work.jobs.description import description_parse
from portal.work.jobs.models import Job
from scheduler.placement.work import NOTHING
from scheduler.planning import plan as plan_module
from scheduler.planning.plan import plan_on
from tests.portal import given

QUICK_S = 0.3
"""Processor time that these small plannings never take."""


@pytest.fixture
def cluster(cluster, monkeypatch):
    """With room for all, in a process that knows of no such job."""
    monkeypatch.setattr(without_failing_jobs, "_until_s", {})
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


def test_who_asks_another_process_gets_an_answer(cluster, planner, monkeypatch):
    """It has not set the job aside itself; the last planning's word is in the database."""
    cluster.running()
    bad, good = cluster.submit(name="bad", model="poison"), cluster.submit(gpus=12)
    planner(poisoned)
    own = plan_module.plan_on
    assert planning_run().placed == 0
    without_failing_jobs._until_s.clear()
    monkeypatch.setattr(
        plan_module, "plan_on", lambda memory, state, *rest, **more: failing_or(own, memory, state, rest, more)
    )
    forecasts_refresh()
    assert changes_work(good)
    with pytest.raises(BerthError, match="could not plan it"):
        changes_work(bad)
    asked = description_parse({"command": "true", "gpus": 1})
    assert dry_run(description=asked, tenant=cluster.tenant, user=cluster.owner)["placeable"]


def failing_or(own, memory, state, rest, more):
    if poisoned(memory, state):
        raise ZeroDivisionError("a mistake")
    return own(memory, state, *rest, **more)


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 3])
def test_one_over_which_it_never_ends_is_found_too(cluster, planner, monkeypatch, caplog, place):
    """It would keep worker after worker, each for half an hour, and nothing would start."""
    monkeypatch.setattr(planning, "within", lambda _, work: within(QUICK_S, work))
    for number in range(4):
        cluster.submit(**({"name": "bad", "model": "poison"} if number == place else {"name": "good"}))
    planner(endless)
    record = planning_run()
    assert (record.status, record.error, record.placed) == ("applied", "", 3)
    assert (states("bad"), states("good")) == ({"PENDING"}, {"STARTING"})
    bad = Job.objects.get(name="bad")
    assert (
        f"the planner fails over job {bad.pk}: it is set aside for {without_failing_jobs.ENDLESS_ASIDE_S:.0f} s"
        in caplog.text
    )


def endless(memory, state):
    """Begin no plan of such a job, and give no sign of life."""
    while poisoned(memory, state):
        pass


def test_a_question_over_which_it_never_ends_is_ended_and_the_next_is_answered(cluster, monkeypatch):
    cluster.running()
    job = cluster.submit(gpus=12)
    asked = description_parse({"command": "true", "gpus": 1})
    with monkeypatch.context() as quick:
        for room, called in ((changes, "what_would_start"), (forecasting, "forecast"), (dryrun, "plan")):
            quick.setattr(room, "within", lambda _, work: within(QUICK_S, work))
            quick.setattr(room, called, spin)
        with pytest.raises(Endless):
            changes_work(job)
        with pytest.raises(Endless):
            dry_run(description=asked, tenant=cluster.tenant, user=cluster.owner)
        with pytest.raises(Endless):
            forecasts_refresh()
    assert changes_work(job)
    assert dry_run(description=asked, tenant=cluster.tenant, user=cluster.owner)["placeable"]
    assert forecasts_refresh() is None, "it rests, so that it takes no worker's time minute after minute"


def spin(*_, **__):
    while True:
        pass


def test_it_is_tried_again_later(cluster, planner, monkeypatch):
    job = cluster.submit(model="poison")
    planner(poisoned)
    assert planning_run().placed == 0
    monkeypatch.setattr(planning, "plan_on", plan_on)  # mended
    for until_s, placed in ((None, 0), (0.0, 1)):
        if until_s is not None:
            without_failing_jobs._until_s[job.pk] = until_s
        assert planning_run().placed == placed


def test_several_are_found_one_after_the_other(cluster, planner):
    for _ in range(3):
        cluster.submit(name="bad", model="poison")
        cluster.submit(name="good")
    planner(poisoned)
    assert planning_run().placed == 3
    assert (states("bad"), states("good")) == ({"PENDING"}, {"STARTING"})


def test_of_more_than_are_looked_for_those_before_them_are_placed_and_the_others_follow(cluster, planner):
    cluster.submit(name="first")
    for _ in range(without_failing_jobs.MOST + 1):
        cluster.submit(name="bad", model="poison")
    cluster.submit(name="last")
    planner(poisoned)
    assert [planning_run().placed, states("last")] == [1, {"PENDING"}]
    told = explanation(Job.objects.get(name="last"))["sentence"]
    assert "the planner fails over a job like it" in told
    assert [planning_run().placed, states("last")] == [1, {"STARTING"}]
    assert set(Planning.objects.values_list("status", flat=True)) == {"applied"}


def test_what_was_remembered_is_forgotten_and_nobody_is_set_aside(cluster, planner):
    cluster.submit()
    planning_run()
    cluster.submit()
    calls = planner(lambda memory, state: memory is not NOTHING)
    assert planning_run().placed == 1
    assert (len(calls), without_failing_jobs._until_s) == (2, {})


def test_where_no_job_is_the_reason_the_planning_fails_as_it_did(cluster, planner):
    for _ in range(3):
        cluster.submit()
    calls = planner(lambda *_: True)
    with pytest.raises(ZeroDivisionError):
        planning_run()
    assert (Planning.objects.get().status, without_failing_jobs._until_s) == ("failed", {})
    assert len(calls) == 3


def test_a_search_without_time_places_those_that_are_known_to_be_well(cluster, planner, monkeypatch):
    """The first half of 8, after one look at it; nobody is blamed."""
    times = iter([0.0, 0.0, 1e9, 1e9])
    for number in range(8):
        cluster.submit(model="poison" if number == 5 else "", name="well" if number < 4 else "late")
    planner(poisoned)
    own = planning.plan_without_failing_jobs
    monkeypatch.setattr(
        planning, "plan_without_failing_jobs", lambda state, plan, _clock: own(state, plan, lambda: next(times))
    )
    assert planning_run().placed == 4
    assert (states("well"), states("late"), without_failing_jobs._until_s) == ({"STARTING"}, {"PENDING"}, {})


def failing_over(monkeypatch, module, name, is_bad):
    """Let a function of a module fail where its first argument is bad."""
    own = getattr(module, name)

    def function(first, *rest, **more):
        if is_bad(first):
            raise KeyError("a mistake")
        return own(first, *rest, **more)

    monkeypatch.setattr(module, name, function)


def test_one_that_cannot_be_read_for_it_keeps_no_other_from_starting(cluster, monkeypatch, caplog):
    bad, good = cluster.submit(model="poison"), cluster.submit()
    failing_over(monkeypatch, model_jobs, "to_model_job", lambda row: row.model == "poison")
    assert planning_run().placed == 1
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.state, bad.reason, good.state) == ("PENDING", "invalid", "STARTING")
    assert "the planner fails over it" in explanation(bad)["sentence"]
    assert f"job {bad.pk} cannot be described" in caplog.text


def test_one_of_which_no_details_can_be_told_has_none_and_starts_as_the_others(cluster, monkeypatch, caplog):
    bad, _ = cluster.submit(), cluster.submit()
    failing_over(monkeypatch, explanations, "_told", lambda decision: decision.job == bad.pk)
    assert planning_run().placed == 2
    assert f"the details of job {bad.pk} could not be told" in caplog.text
    assert Explanation.objects.filter(job=bad).count() == 0 < Explanation.objects.count()
