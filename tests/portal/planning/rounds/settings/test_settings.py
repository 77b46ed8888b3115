"""The operator's knobs: one bad value changes none, each change is in the trail, beat follows the tick."""

from datetime import timedelta

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from portal.foundation.errors import BerthError
from portal.foundation.events.models import OutboxMessage
from portal.people.tenants.models import AuditEvent
from portal.planning.rounds.models import OperatorSetting, Round
from portal.planning.rounds.planning import run as planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.rounds.settings.schedule import FIXED_S, schedule_make
from portal.work.jobs.models import Job
from scheduler.parameters import PARAMETERS
from tests.portal import given


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"tick_s": 7, "r_num": 1}, "r_num"),
        ({"tick_s": 7, "replan_s": "soon"}, "replan_s"),
        ({"tick_s": 7, "no_such_knob": 1}, "no_such_knob"),
        ({"tick_s": 7, "policy": "astrology"}, "policy"),
        ({"tick_s": 7, "replan_s": float("nan")}, "replan_s"),
        ({"tick_s": 7, "r_num": True}, "r_num"),
    ],
)
def test_one_bad_value_changes_none(db, values, field):
    before = knobs_current()
    with pytest.raises(BerthError) as error:
        settings_update(actor=None, **values)
    assert error.value.field == field
    assert knobs_current() == before
    assert not OperatorSetting.objects.exists()
    assert not AuditEvent.objects.exists()
    assert not OutboxMessage.objects.exists()


def test_a_change_is_in_force_in_the_trail_and_on_beats_schedule(db):
    operator = given.operator()
    old = knobs_current()["tick_s"]
    settings_update(actor=operator, tick_s=17, policy="fifo")
    assert (knobs_current()["tick_s"], knobs_current()["policy"]) == (17, "fifo")
    trail = {event.target: event for event in AuditEvent.objects.filter(action="setting.change")}
    assert trail["setting:tick_s"].detail == {"from": old, "to": 17}
    assert trail["setting:tick_s"].actor == operator
    assert OutboxMessage.objects.filter(topic="plan").exists()
    assert PeriodicTask.objects.get(name="rounds.plan").interval.every == 17


def test_the_same_value_again_is_no_change(db):
    settings_update(actor=None, tick_s=17)
    settings_update(actor=None, tick_s=17)
    assert AuditEvent.objects.filter(action="setting.change").count() == 1


def test_the_schedule_is_made_once_and_again(db):
    schedule_make()
    schedule_make()
    tasks = dict(PeriodicTask.objects.values_list("name", "interval__every"))
    assert {name: every for name, every in tasks.items() if name in FIXED_S} == FIXED_S
    assert tasks["rounds.plan"] == round(knobs_current()["tick_s"])


def test_the_arrays_history_reaches_as_far_back_as_the_operator_says(cluster):
    job = cluster.submit(gpus=[4])
    ended = timezone.now() - timedelta(days=10)
    Job.objects.filter(pk=job.pk).update(submitted_at=ended, ended_at=ended, state="COMPLETED", waiting_since=None)
    planning_run()
    assert Round.objects.get().array_history["large_gpus_peak"] is None
    settings_update(actor=None, array_history_days=14)
    Round.objects.update(started_at=ended)
    Job.objects.filter(pk=job.pk).update(submitted_at=ended - timedelta(hours=1))
    planning_run()
    assert Round.objects.order_by("-number").first().array_history["large_gpus_peak"] == 4


def another(knob):
    """A value within the knob's range that is not its default."""
    if knob.choices:
        return next(word for word in knob.choices if word != knob.default)
    low, high = knob.bounds
    if knob.default is None:
        return type(low)(max(low, min(high, 0.5)))
    value = min(high, knob.default * 2 or 1) if knob.default < high else low
    return type(knob.default)(value) if value != knob.default else low


KNOBS_TICK_S = next(knob.default for knob in PARAMETERS if knob.name == "tick_s")


@pytest.mark.parametrize("knob", PARAMETERS, ids=lambda knob: knob.name)
def test_a_scheduler_knob_is_in_force_in_the_next_planning_and_in_the_trail(cluster, monkeypatch, knob):
    asked, original = [], planning.plan

    def plan(state, now_s, parameters, *rest, **more):
        asked.append(parameters)
        return original(state, now_s, parameters, *rest, **more)

    monkeypatch.setattr(planning, "plan", plan)
    value = another(knob)
    planning.planning_run()
    settings_update(actor=given.operator(), **{knob.name: value})
    made = planning.planning_run()
    field = "lambda_" if knob.name == "lambda" else knob.name
    given_to_it = [getattr(each, field) for each in asked]
    if field == "time_limit_s":  # counted from the planning's beginning: what loading left of it
        assert 0 < given_to_it[1] <= value < given_to_it[0] <= KNOBS_TICK_S / 2
    else:
        assert given_to_it == [knob.default, value]
    assert made.parameters[knob.name] == value
    (trail,) = AuditEvent.objects.filter(action="setting.change")
    assert (trail.target, trail.detail) == (f"setting:{knob.name}", {"from": knob.default, "to": value})
