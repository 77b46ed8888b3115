"""An operator's road with a knob: tried on last week's jobs, refused, set with a reason, and its effect a week later."""

import re

import pytest

from tests.berths import manage
from tests.system.helpers.client import rows
from tests.system.helpers.watching import Watch, browser_started, sign_in, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow]

KNOBS = "/admin/rounds/operatorsetting/"
WEEK_AGO = "timezone.now() - timedelta(days=8)"
HISTORY = f"""
from datetime import timedelta
from django.utils import timezone
from portal.people.tenants.models import User
from portal.work.jobs.models import Attempt, Job
owner = User.objects.get(username="vera")
changed = {WEEK_AGO}
for place in range(120):
    before = place < 60
    at = changed + timedelta(hours=2 * place - 120 if before else 2 + 2 * (place - 60))
    wait = (1000 if before else 300) + place % 7
    job = Job.objects.create(
        tenant=owner.tenants.first(), owner=owner, name="past", gpus=[1], state="COMPLETED", waited_s=wait, ran_s=600, epoch=1,
        submitted_at=at - timedelta(seconds=wait + 600), started_at=at - timedelta(seconds=600), ended_at=at, age_s=600,
    )
    Attempt.objects.create(
        job=job, epoch=1, gpus=1, cores=4, rendezvous_port=1, state="COMPLETED", exit_code=0,
        created_at=job.started_at, started_at=job.started_at, ended_at=at,
    )
"""
LATER = f"""
from datetime import timedelta
from django.utils import timezone
from portal.planning.rounds.models import OperatorSetting
OperatorSetting.objects.filter(name="sigma").update(updated_at={WEEK_AGO})
"""


@pytest.fixture(scope="module")
def berth(berth_up):
    berth = berth_up()
    manage(berth.layout, "shell", "-c", HISTORY)
    return berth


@pytest.fixture(scope="module")
def browser():
    with browser_started() as browser:
        yield browser


@pytest.fixture
def page(berth, browser):
    watch = Watch(berth.url, expected=["status of 400"])  # a refusal
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    watch.on(page)
    sign_in(page, berth.url, berth.operator["username"], berth.operator["password"])
    page.wait_for_url(f"{berth.url}/")
    yield page
    page.context.close()
    watch.check()


def test_a_knob_is_tried_on_last_week_then_set_with_a_reason_and_its_effect_is_shown(berth, page):
    page.goto(berth.url + KNOBS)
    bar = page.locator("[data-knobs-bar]")
    assert not bar.is_visible()
    page.fill("[name=sigma]", "1.3")
    assert "1 change: Spread over nodes, 1.4 to 1.3 times" in bar.inner_text()
    assert "was 1.4" in page.locator("[data-knob=sigma]").inner_text()
    bar.get_by_text("Try on last week").click()

    page.wait_for_url("**/laboratory/new?**")
    assert page.input_value("[name=source]") == "history"
    assert page.input_value("[name=days]") == "7"
    assert page.input_value("[name=knob_sigma]") == "1.3"
    assert page.locator("[name=policies]:checked").evaluate_all("all => all.map((each) => each.value)") == ["berth"]
    page.get_by_role("button", name="Simulate").click()
    page.wait_for_url(re.compile(r"/laboratory/\d+/$"))
    told = "select state, knobs from simulations_simulation order by id desc"
    berth.wait(lambda: rows(berth, told)[0][0] == "COMPLETED", limit_s=180, what="last week under the other value")
    assert '"sigma": 1.3' in rows(berth, told)[0][1]

    page.goto(berth.url + KNOBS)
    page.fill("[name=sigma]", "0")
    page.fill("[name=reason]", "no spread")
    page.get_by_role("button", name="Save").click()
    until(page, "document.querySelector('[data-knob=sigma] .b-error')?.textContent.includes('outside 1 to 10')")
    assert rows(berth, "select value from rounds_operatorsetting where name = 'sigma'") == []

    page.fill("[name=sigma]", "1.3")
    page.fill("[name=reason]", "")
    page.get_by_role("button", name="Save").click()
    assert page.evaluate("document.activeElement.name") == "reason", "it asks why"
    page.fill("[name=reason]", "spread jobs ran far below their prediction")
    page.get_by_role("button", name="Save").click()
    until(page, "document.querySelector('.b-messages')?.textContent.includes('Changed: Spread over nodes, 1.4 to 1.3')")
    assert "too early to say" in page.locator("[data-knob=sigma]").inner_text()
    page.goto(f"{berth.url}/admin/tenants/auditevent/")
    assert "spread jobs ran far below their prediction" in page.inner_text("main")

    manage(berth.layout, "shell", "-c", LATER)
    page.goto(berth.url + KNOBS)
    row = page.locator("[data-knob=sigma]")
    assert row.locator(".b-run").first.inner_text().replace("\u00a0", " ") == "waiting \u221270 %"
    page.goto(f"{berth.url}/admin/")
    assert "set Spread over nodes from 1.4 to 1.3: spread jobs ran far below" in page.inner_text("main")


def test_search_opens_what_it_finds_and_a_switch_and_the_default_work(berth, page):
    page.goto(berth.url + KNOBS)
    page.fill("[data-knobs-search]", "no such thing")
    assert page.get_by_text("No knob fits.").is_visible()
    page.fill("[data-knobs-search]", "longest time planning")
    assert page.locator("[data-knob=time_limit_s]").is_visible()
    assert not page.locator("[data-knob=tick_s]").is_visible()
    page.fill("[data-knobs-search]", "")
    assert page.locator("details[open] [data-knob]").count() == 0
    page.check("[data-knobs-differ]")
    assert page.locator("[data-knob=tick_s]").is_visible(), "the demo has its own"
    assert not page.locator("[data-knob=borrowing]").is_visible()
    page.locator("[data-knob=tick_s] [data-default]").click()
    assert page.input_value("[name=tick_s]") == "30"
    page.uncheck("[data-knobs-differ]")
    page.locator("[data-knob=borrowing] .b-switch").click()
    assert "2 changes" in page.locator("[data-knobs-bar]").inner_text()
    assert page.input_value("[name=borrowing]") == "off"
    page.get_by_role("button", name="Undo").click()
    assert page.input_value("[name=borrowing]") == "on"
    assert not page.locator("[data-knobs-bar]").is_visible()


def test_a_range_of_times_is_asked_for_in_the_reader_s_zone(berth, page):
    page.goto(f"{berth.url}/admin/tenants/auditevent/")
    assert page.locator("#result_list tbody tr").count() > 1
    page.locator("summary.b-filter", has_text="At:").click()
    page.fill("[data-for=at__gte]", "2100-01-01T12:00")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**at__gte=2100-01-01T12**")
    assert "Nothing fits" in page.inner_text("main")
