"""What comes to pages that stand open: an operator's line for all, a question to one job's owner, and the overview's cells."""

import re

import pytest

from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import MARK, Watch, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("pages")]
BANNER = "document.querySelector('.b-banner')"
UNUSED = """
import time
from datetime import timedelta
from django.utils import timezone
from portal.cluster.models import Node
from portal.work.jobs.models import Attempt
Attempt.objects.filter(job_id={number}).update(created_at=timezone.now() - timedelta(hours=2))
for node in Node.objects.filter(allocations__attempt__job_id={number}):
    long_ago = dict.fromkeys(node.live["gpus"], time.time() - 7000)
    Node.objects.filter(pk=node.pk).update(live=node.live | {{"unused": long_ago}})
"""


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture
def page_of(readers_shared, berth):
    """A function: a page of this person, marked once it is open."""
    watch, pages = Watch(berth.url, expected=["htmx:sendAbort", "htmx:afterRequest"]), []

    def start(name, path):
        page = readers_shared.page(name, watch)
        pages.append(page)
        page.goto(f"{berth.url}{path}")
        page.evaluate(MARK)
        return page

    yield start
    for page in pages:
        page.close()
    watch.check()


def announce(page, berth, words):
    page.goto(f"{berth.url}/admin/")
    page.click("a.b-button:has-text('Announce')")
    page.fill("[name=text]", words)
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(re.compile(r"/announcement/$"))


def test_a_line_for_all_comes_without_a_reload_and_stays_away_once_put_away(page_of, berth):
    operator, reader = page_of("operator", "/admin/"), page_of("vera", "/jobs/")
    assert not reader.evaluate(BANNER)
    announce(operator, berth, "Down on Friday at 18:00")
    until(reader, f"{BANNER}?.innerText.includes('Down on Friday at 18:00')")
    assert reader.evaluate("window.__not_reloaded") is True
    reader.click(".b-banner [aria-label=Dismiss]")
    assert not reader.evaluate(BANNER)
    reader.reload()
    assert not reader.evaluate(BANNER), "this browser has put it away"
    assert "Down on Friday" in page_of("viktor", "/jobs/").inner_text(".b-banner"), "another has not"
    reader.evaluate(MARK)
    announce(operator, berth, "Up again")
    until(reader, f"{BANNER}?.innerText.includes('Up again')")

    with operator.expect_navigation():
        operator.click("#result_list a:has-text('Up again')")
    operator.click("summary:has-text('Do')")
    operator.click(".b-pop-list a:has-text('End')")
    operator.get_by_role("button", name="End", exact=True).click()
    until(reader, f"!{BANNER}")
    assert reader.evaluate("window.__not_reloaded") is True
    reader.reload()
    assert not reader.evaluate(BANNER)
    reader.context.clear_cookies(name="berth-dismissed")


def test_a_cell_of_the_overview_fills_when_a_job_starts_and_empties_when_it_ends(page_of, berth):
    page, tenant = page_of("operator", "/"), Tenant(berth)
    until(page, "Berth.board() && document.querySelector('.b-noderow .b-gpu')")
    held = "Number(document.querySelector('[data-board-count=held]').innerText)"
    before = page.evaluate(held)
    number = tenant.submit("exec sleep 600", name="fills two", gpus=2, gpu_types=["RTX 3090"])
    cells = "[...document.querySelectorAll('.b-held-by')].find(group => group.innerText.includes('fills two'))?.querySelectorAll('.b-u1').length"
    until(page, f"{cells} === 2")
    until(page, f"{held} === {before + 2}")
    tenant.act(number, "cancel")
    until(page, f"{cells} === undefined && {held} === {before}")
    assert page.evaluate("window.__not_reloaded") is True


def test_an_operator_asks_the_owner_of_idle_gpus_and_the_question_comes_to_the_jobs_page(page_of, berth):
    tenant = Tenant(berth)
    number = tenant.submit("exec sleep 600", name="forgotten", gpus=1)
    tenant.wait_state(number, "RUNNING")
    owner, operator = page_of("vera", f"/jobs/{number}/"), page_of("operator", "/")
    ask = f"[data-ask='{number}']"

    def offered():
        """Say in the place of two hours that its GPU has not computed since it began; its node measures on from there."""
        berth.command("manage", "shell", "-c", UNUSED.format(number=number))
        operator.reload()
        return operator.locator(ask).count()

    berth.wait(offered, limit_s=90, what="the job among those on which nobody computes")
    operator.click(ask)
    assert operator.input_value("#ask-text").startswith("forgotten has not computed on its 1 ")
    operator.fill("#ask-text", "May it end?")
    operator.get_by_role("button", name="Send").click()
    operator.wait_for_selector(".b-message")
    until(owner, "document.querySelector('#events')?.innerText.includes('May it end?')")
    assert owner.evaluate("window.__not_reloaded") is True
    tenant.act(number, "cancel")
