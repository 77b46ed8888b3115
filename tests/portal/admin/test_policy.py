"""The policy settings' page: every knob with its documentation; a change is audited, a bad value changes nothing."""

import pytest
from django.urls import reverse
from django.utils.html import escape

from portal.people.tenants import services as tenants
from portal.people.tenants.models import AuditEvent
from portal.planning.rounds.admin_knobs import value_shown
from portal.planning.rounds.models import OperatorSetting
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import KNOBS, knobs_current, scheduler_parameters
from portal.planning.rounds.settings.plain import FRONT, SUBJECTS
from scheduler.parameters import Parameters

URL = reverse("admin:rounds_operatorsetting_changelist")


def form(**changes):
    return {name: value_shown(value) for name, value in knobs_current().items()} | {"reason": "a test"} | changes


def test_each_knob_is_there_with_its_meaning(console):
    page = console.get(URL).content.decode()
    for knob in KNOBS:
        assert f'name="{knob.name}"' in page
        assert knob.meaning.split(";")[0].split("'")[0].split("=")[0] in page
        assert escape(knob.turn_when) in page


def test_saving_what_is_shown_changes_nothing(console):
    assert console.post(URL, form()).status_code == 302
    assert not AuditEvent.objects.filter(action="setting.change").exists()


def test_changes_are_in_force_and_in_the_trail(console, operator):
    console.post(URL, form(tick_s="5", reserve_lr="0.02", policy="fifo"))
    assert (knobs_current()["tick_s"], knobs_current()["reserve_lr"], knobs_current()["policy"]) == (5.0, 0.02, "fifo")
    events = AuditEvent.objects.filter(action="setting.change")
    assert {event.target for event in events} == {"setting:tick_s", "setting:reserve_lr", "setting:policy"}
    assert {event.actor for event in events} == {operator}
    assert "by olga" in console.get(URL).content.decode()
    console.post(URL, form(reserve_lr=""))
    assert knobs_current()["reserve_lr"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tick_s", "0"),
        ("tick_s", "nan"),
        ("tick_s", ""),
        ("lambda", "x"),
        ("r_num", "2.5"),
        ("policy", "luck"),
        ("reserve_lr", "-1"),
    ],
)
def test_a_bad_value_names_its_field_and_changes_nothing(name, value, console):
    page = console.post(URL, form(raqlr_hours="3") | {name: value})
    assert page.status_code == 400
    assert list(page.context["form"].errors) == [name]
    assert knobs_current()["raqlr_hours"] == 6
    assert not AuditEvent.objects.filter(action="setting.change").exists()


def test_what_is_not_sent_stays_as_another_operator_set_it(console, operator):
    settings_update(actor=operator, tick_s=5, raqlr_hours=3)
    console.post(URL, {"tick_s": "30", "reason": "quieter"})
    assert (knobs_current()["tick_s"], knobs_current()["raqlr_hours"]) == (30, 3)


def test_a_change_asks_for_a_reason_which_stands_in_changes(console):
    page = console.post(URL, {"sigma": "1.3", "reason": " "})
    assert page.status_code == 400
    assert list(page.context["form"].errors) == ["reason"]
    assert knobs_current()["sigma"] == 1.4
    assert 'value="1.3"' in page.content.decode(), "the typed value is still there"
    console.post(URL, {"sigma": "1.3", "reason": "<b>less spread</b>"})
    assert AuditEvent.objects.get(action="setting.change").detail == {
        "from": 1.4,
        "to": 1.3,
        "reason": "<b>less spread</b>",
    }
    trail = console.get(reverse("admin:tenants_auditevent_changelist")).content.decode()
    assert "less spread" in trail
    assert "<b>less" not in trail + console.get(reverse("admin:index")).content.decode()


def test_ten_stand_in_front_with_plain_names_and_the_others_by_subject(console):
    page = console.get(URL)
    assert len(page.context["front"]) == 10
    assert {row["knob"].name for row in page.context["front"]} == set(FRONT)
    folded = [row["knob"].name for subject in page.context["subjects"] for row in subject["rows"]]
    assert sorted([*folded, *FRONT]) == sorted(knob.name for knob in KNOBS)
    assert len(page.context["subjects"]) == len(set(SUBJECTS.values()))
    assert {knob.group for knob in KNOBS} == set(SUBJECTS), "each group has its row"


def test_try_on_last_week_fills_the_laboratory_s_form_in(console, member, operator):
    tenants.membership_add(user=operator, tenant=member.tenants.get(), actor=operator)
    settings_update(actor=operator, policy="hops", sigma=1.7)
    row = next(each for each in console.get(URL).context["front"] if each["knob"].name == "sigma")
    form = console.get(row["try_url"]).context
    assert (form["typed"]["source"], form["typed"]["days"], form["typed"]["cluster"]) == ("history", "7", "here")
    assert next(each["value"] for each in form["knobs"] if each["label"] == "sigma") == "1.7"
    assert [each["name"] for each in form["policies"] if each["checked"]] == ["hops"]


def test_a_stored_value_of_a_knob_that_is_no_more_changes_nothing(console):
    OperatorSetting.objects.create(name="reserve_jobs", value=4)
    assert scheduler_parameters(knobs_current()) == Parameters()
    assert console.get(URL).status_code == 200


def test_nobody_else_may(console, member):
    console.force_login(member)
    assert console.post(URL, form(tick_s="5")).status_code == 302
    assert knobs_current()["tick_s"] == 30
