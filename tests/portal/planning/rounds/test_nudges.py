"""How long a planning may take, and how nudges coalesce: at most one planning each quarter of a second."""

from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone

from portal.planning.rounds.models import Planning, PlanningLease, Round
from portal.planning.rounds.planning import run as planning
from portal.planning.rounds.planning.beginning import LEAST_SHARE, limit_s, thorough_due
from portal.planning.rounds.planning.lease import PAUSE_S
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from tests.portal import given


@pytest.fixture
def limits(monkeypatch):
    """The time limit that each planning gave the scheduler."""
    found, original = [], planning.plan

    def plan(state, now_s, parameters, *arguments, **keywords):
        found.append(parameters.limit_s)
        return original(state, now_s, parameters, *arguments, **keywords)

    monkeypatch.setattr(planning, "plan", plan)
    return found


def nudge():
    return planning_run(nudged_at=timezone.now())


class TestLimit:
    """It is counted from the planning's beginning: loading is in it, applying allowed for."""

    def given(self, **told):
        Planning.objects.filter(pk=planning_run().pk).update(**told)
        return scheduler_parameters(knobs_current())  # half a tick of 30 s

    def test_loading_and_the_last_applying_are_taken_off(self, cluster):
        assert limit_s(self.given(apply_s=2.0), whole=True, load_s=3.0) == 15.0 - 3.0 - 2.0

    def test_a_first_applying_of_a_long_queue_says_little_of_the_next(self, cluster):
        assert limit_s(self.given(apply_s=60.0), whole=True, load_s=1.0) == 15.0 - 1.0 - 7.5

    def test_something_is_left_whatever_loading_takes(self, cluster):
        assert limit_s(self.given(apply_s=0.0), whole=True, load_s=40.0) == round(15.0 * LEAST_SHARE, 2)

    def test_it_is_what_the_scheduler_gets(self, cluster, limits):
        planning_run()
        assert 10.0 < limits[0] < 15.0

    def test_a_nudged_planning_that_fills_has_a_second_in_all(self, cluster, limits):
        planning_run()
        made = nudge()
        assert 0.2 < limits[1] < 1.0
        assert not made.replan

    def test_details_take_a_tenth_of_it_at_most(self, cluster, monkeypatch):
        told, original = [], planning.explanations_make
        monkeypatch.setattr(
            planning, "explanations_make", lambda **given: told.append(given["budget_s"]) or original(**given)
        )
        planning_run()
        nudge()
        assert told[0] == 0.02 * 30
        assert told[1] <= 0.1

    def test_a_nudged_replan_has_the_whole_limit(self, cluster, limits):
        planning_run()
        Round.objects.update(started_at=timezone.now() - timedelta(seconds=361))
        assert nudge().replan
        assert limits[1] > 10.0

    def test_nudges_in_a_row_do_not_put_off_the_thorough_one(self, cluster, limits):
        planning_run()
        PlanningLease.objects.update(thorough_at=timezone.now() - timedelta(seconds=31))
        nudge()
        nudge()
        assert [limit > 1.0 for limit in limits] == [True, True, False]

    def test_a_limit_below_a_second_stands(self, cluster, limits):
        settings_update(actor=None, time_limit_s=0.5)
        planning_run()
        nudge()
        assert max(limits) <= 0.5

    def test_thorough_after_a_tick(self):
        now = timezone.now()
        assert thorough_due(None, now=now, tick_s=5)
        assert thorough_due(now - timedelta(seconds=5), now=now, tick_s=5)
        assert not thorough_due(now - timedelta(seconds=4), now=now, tick_s=5)


class TestPause:
    def begun(self):
        moments = list(Planning.objects.order_by("number").values_list("started_at", flat=True))
        return [(b - a).total_seconds() for a, b in pairwise(moments)]

    def test_a_nudge_waits_a_quarter_of_a_second_after_the_last_beginning(self, cluster):
        nudge()
        nudge()
        nudge()
        assert min(self.begun()) >= PAUSE_S

    def test_the_tick_and_a_nudge_long_after_wait_for_nothing(self, cluster, monkeypatch):
        slept = []
        monkeypatch.setattr("portal.planning.rounds.planning.lease.time.sleep", slept.append)
        planning_run()
        planning_run()
        PlanningLease.objects.update(snapshot_at=timezone.now() - timedelta(seconds=1))
        nudge()
        assert slept == []

    def test_word_left_while_one_plans_is_heeded_after_the_pause(self, cluster, monkeypatch):
        original, words = planning.plan, [1]

        def plan(*arguments, **keywords):
            if words:
                words.pop()
                PlanningLease.objects.update(again=True)
            return original(*arguments, **keywords)

        monkeypatch.setattr(planning, "plan", plan)
        planning_run()
        assert len(self.begun()) == 1
        assert self.begun()[0] >= PAUSE_S

    def test_word_left_in_the_pause_needs_no_planning_of_its_own(self, cluster, monkeypatch):
        """The snapshot is taken after it."""
        planning_run()
        monkeypatch.setattr(
            "portal.planning.rounds.planning.lease.time.sleep", lambda _: PlanningLease.objects.update(again=True)
        )
        nudge()
        assert Planning.objects.count() == 2
        assert not PlanningLease.objects.get().again

    def test_many_nudges_at_once_are_one_planning(self, shared_cluster):
        planning_run()
        given.race(*[nudge] * 6)
        assert Planning.objects.count() <= 3, "one for the first, one for those that came while it planned"
        assert min(self.begun()) >= PAUSE_S
