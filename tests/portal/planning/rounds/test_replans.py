"""Section 7: one re-plan a round, made good when it was overtaken; all other plannings fill what is idle."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.planning.rounds.models import Planning, PlanningLease, Round
from portal.planning.rounds.planning import run as planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update


def kinds():
    return list(Planning.objects.order_by("number").values_list("replan", flat=True))


@pytest.fixture
def asked(monkeypatch):
    """Each planning's question to the scheduler: re-plan or not."""
    found, original = [], planning.plan

    def plan(*arguments, replan, **keywords):
        found.append(replan)
        return original(*arguments, replan=replan, **keywords)

    monkeypatch.setattr(planning, "plan", plan)
    return found


def test_the_first_planning_of_a_round_is_the_replan(cluster, asked):
    for _ in range(3):
        planning_run()
    assert asked == kinds() == [True, False, False]
    Round.objects.update(started_at=timezone.now() - timedelta(seconds=361))
    planning_run()
    planning_run()
    assert asked == kinds() == [True, False, False, True, False]
    assert [each.plannings.count() for each in Round.objects.order_by("number")] == [3, 2]


def test_a_round_that_is_over_early_is_followed_by_the_next_at_once(cluster, monkeypatch):
    """The state after a planning may call for a re-plan before `replan_s` is over (docs/decisions/0015)."""
    planning_run()
    original, over = planning.plan, [True]

    def plan(*arguments, **keywords):
        made = original(*arguments, **keywords)
        return replace(made, replan_early=bool(over) and not keywords["replan"] and over.pop())

    monkeypatch.setattr(planning, "plan", plan)
    planning_run()
    assert kinds() == [True, False, True]
    assert [each.plannings.count() for each in Round.objects.order_by("number")] == [2, 1]
    planning_run()
    assert kinds() == [True, False, True, False]


def test_a_planning_is_told_when_the_last_re_plan_was(cluster, monkeypatch):
    original, told = planning.plan, []

    def plan(state, *arguments, **keywords):
        told.append(state.replanned_s)
        return original(state, *arguments, **keywords)

    monkeypatch.setattr(planning, "plan", plan)
    first = planning_run()
    planning_run()
    assert told == [None, first.started_at.timestamp()]


def test_the_period_is_the_operators_from_the_next_planning_on(cluster):
    planning_run()
    Round.objects.update(started_at=timezone.now() - timedelta(seconds=100))
    planning_run()
    settings_update(actor=None, replan_s=90)
    planning_run()
    assert kinds() == [True, False, True]


def test_one_that_was_overtaken_is_made_good(cluster, monkeypatch):
    original = planning.plan

    def slow(*arguments, **keywords):
        made = original(*arguments, **keywords)
        PlanningLease.objects.update(until=timezone.now() - timedelta(seconds=1), holder="the next one")
        return made

    with monkeypatch.context() as patched:
        patched.setattr(planning, "plan", slow)
        assert planning_run().status == Planning.Status.SUPERSEDED
    PlanningLease.objects.update(until=None, holder="")
    planning_run()
    planning_run()
    assert kinds() == [True, True, False]


def test_one_that_failed_leaves_the_rest_of_the_round_to_fill(cluster, monkeypatch):
    """A fault in re-planning must not keep waiting jobs from starting until it is mended."""
    original = planning.plan

    def faulty(*arguments, replan, **keywords):
        if replan:
            raise RuntimeError("a fault in re-planning")
        return original(*arguments, replan=replan, **keywords)

    monkeypatch.setattr(planning, "plan", faulty)
    cluster.submit()
    with pytest.raises(RuntimeError):
        planning_run()
    assert planning_run().placed == 1
    assert kinds() == [True, False]
