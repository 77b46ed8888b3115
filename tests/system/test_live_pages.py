"""Live updates leave the reader alone: focus, presses, open pop-overs, typed text, selection and scroll outlast them."""

import os
import subprocess
import sys
import time

import pytest

from portal.foundation.layout import SOURCE
from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import Watch, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("pages")]

HELD_SWAPS = 10
TOLD_S = 150
COUNTING = "i=0; while :; do i=$((i+1)); echo line $i of many; sleep 1; done"
COUNT_SWAPS = """(() => { window.__swaps = {};
  document.addEventListener('berth:enhance', (event) => {
    const url = event.detail.root.dataset && event.detail.root.dataset.fragmentUrl;
    if (url) { const part = (event.detail.root.dataset.fragmentName || url.split('/').pop()); window.__swaps[part] = (window.__swaps[part] || 0) + 1; }
  }); })()"""
FOCUS = """(selector) => { const element = document.querySelector(selector); element.focus(); element.__mine = true;
  window.__blurs = 0; element.addEventListener('blur', () => { window.__blurs += 1; }); }"""
TELL = """
import time
from portal.foundation.events.relay import Publisher
publisher = Publisher()
for _ in range({times}):
    publisher.event("job:{number}", {{"topic": "job", "id": {number}}})
    time.sleep(0.5)
"""
STILL = "document.activeElement.__mine === true"


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def readers(readers_shared):
    return readers_shared


@pytest.fixture
def page_of(readers, berth):
    """A function: a page of this person that counts swaps."""
    watch, pages = Watch(berth.url), []

    def start(name):
        page = readers.page(name, watch)
        page.add_init_script(COUNT_SWAPS)
        page.on("dialog", lambda dialog: dialog.accept())
        pages.append(page)
        return page

    yield start
    for page in pages:
        page.close()
    watch.check()


@pytest.fixture
def page(page_of):
    return page_of("viktor")


@pytest.fixture
def tenant(berth):
    return Tenant(berth)


def swaps(page, part):
    return page.evaluate("(part) => window.__swaps[part] || 0", part)


def swapped(page, part, more):
    """Wait until a part was swapped `more` times from now on."""
    seen = swaps(page, part)
    until(page, f"(window.__swaps[{part!r}] || 0) >= {seen + more}")


def hold(page, part, *, busy=lambda: None):
    """Let live updates swap the part `HELD_SWAPS` times; all the while the focus must not move."""
    seen, deadline = swaps(page, part), time.monotonic() + TOLD_S
    while swaps(page, part) < seen + HELD_SWAPS:
        assert time.monotonic() < deadline, f"{swaps(page, part) - seen} swaps"
        busy()
        page.wait_for_timeout(500)
        assert page.evaluate(STILL), page.evaluate("document.activeElement.outerHTML")
    assert page.evaluate("window.__blurs") == 0


@pytest.fixture
def counting(tenant):
    """A job that prints and runs until it is cancelled."""
    number = tenant.submit(COUNTING, name="counting", gpus=1)
    tenant.wait_state(number, "RUNNING")
    yield number
    if tenant.state(number) == "RUNNING":
        tenant.act(number, "cancel")


@pytest.fixture
def told(berth, counting):
    """Berth's relay tells the job's page twice a second that the job changed."""
    code = TELL.format(number=counting, times=2 * TOLD_S)
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    environment |= {"PYTHONPATH": str(SOURCE), "BERTH_DATA_DIR": str(berth.data)}
    argv = [sys.executable, "-P", "-m", "portal.launch", "manage", "shell", "-v", "0", "-c", code]
    teller = subprocess.Popen(argv, env=environment, cwd=berth.data.parent, stdout=subprocess.DEVNULL)
    yield counting
    assert teller.poll() in {None, 0}, "the relay failed"
    teller.kill()
    teller.wait()


def test_focus_on_cancel_is_held_through_live_updates(page, berth, told):
    page.goto(f"{berth.url}/jobs/{told}/")
    page.evaluate(FOCUS, ".b-hide-phone form[action$='/cancel'] button")
    hold(page, "header")


def test_a_press_on_cancel_that_straddles_swaps_is_a_click(page, berth, told):
    """Mouse down before, mouse up after: once within the time for which swaps wait, once long after it."""
    page.goto(f"{berth.url}/jobs/{told}/")
    page.evaluate(
        "window.__clicks = 0; document.addEventListener('click', (e) => { if (e.target.closest(\"form[action$='/cancel']\")) { window.__clicks += 1; e.preventDefault(); } }, true)"
    )
    swapped(page, "header", 1)
    box = page.locator(".b-hide-phone form[action$='/cancel'] button").bounding_box()
    page.mouse.move(box["x"] + 12, box["y"] + box["height"] / 2)  # on its glyph
    for held_ms in (1200, 5000):
        page.mouse.down()
        page.wait_for_timeout(held_ms)
        if held_ms > 2000:
            swapped(page, "header", 1)
        page.mouse.up()
        swapped(page, "header", 1)
    assert page.evaluate("window.__clicks") == 2


def test_a_job_lists_row_keeps_focus_tick_and_open_tasks(page, berth, tenant, counting):
    """While jobs come and go above it and an array's tasks are open."""
    array = tenant.submit("sleep 600", name="folded", array={"size": 6, "concurrency": 2})
    states = lambda: [task["state"] for task in tenant.tasks(array)]  # noqa: E731
    berth.wait(lambda: states() == ["RUNNING"] * 2, what="two tasks to run")
    page.goto(f"{berth.url}/jobs/")
    page.click(f"tr[data-job='{array}'] [data-tasks-url]")
    until(page, f"document.querySelectorAll('tr[data-parent=\"{array}\"][data-job]').length === 2")
    page.check(f"input[value='{counting}']")
    page.evaluate(FOCUS, f"input[value='{counting}']")
    task = page.evaluate(f"document.querySelector('tr[data-parent=\"{array}\"][data-job]').dataset.job")
    page.evaluate(f"document.querySelector('tr[data-job=\"{task}\"]').__first = true")
    ended = []

    def submit():
        if len(ended) < 12:
            ended.append(tenant.submit("true", name=f"passing {len(ended)}"))

    hold(page, "table", busy=submit)
    assert page.is_checked(f"input[value='{counting}']")
    assert page.inner_text("[data-bulk-count]") == "1 selected"
    assert page.evaluate(f"document.querySelectorAll('tr[data-parent=\"{array}\"][data-job]').length") == 2
    assert page.evaluate(f"document.querySelector('tr[data-job=\"{task}\"]').__first") is True
    until(page, f"document.querySelectorAll('tr[data-job=\"{ended[-1]}\"]').length === 1")
    assert page.evaluate(STILL)
    tenant.act(array, "cancel")


def test_an_open_drain_form_keeps_what_is_typed(page_of, berth, tenant, counting):
    page = page_of("operator")
    page.goto(f"{berth.url}/cluster/")
    page.click("[data-drain='a100-02']")
    page.fill("#drain-reason", "driver")
    page.evaluate(FOCUS, "#drain-reason")
    page.evaluate("document.getElementById('drain-reason').setSelectionRange(1, 4)")
    number = []

    def work():
        number.append(tenant.submit("sleep 2", name="short one", gpus=1)) if len(number) < 100 else None

    hold(page, "nodes", busy=work)
    assert page.evaluate(
        "(() => { const e = document.getElementById('drain-reason'); return [e.value, e.selectionStart, e.selectionEnd, e.closest('dialog').open]; })()"
    ) == ["driver", 1, 4, True]


def test_selected_text_stays_selected(page, berth, told):
    page.goto(f"{berth.url}/jobs/{told}/")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.b-head h1'))")
    swapped(page, "header", 3)
    assert page.evaluate("getSelection().toString()") == "counting"


def blocked(berth, tenant):
    """Jobs that hold every GPU there is, and how many GPUs the largest node has."""
    status, found = berth.request("/api/v1/nodes?page_size=100", token=tenant.token)
    assert status == 200
    sizes = sorted((node["gpus"] for node in found["results"] if node["gpus"]), reverse=True)
    blocks = [tenant.submit("sleep 600", name="block", gpus=size) for size in sizes]
    for block in blocks:
        tenant.wait_state(block, "RUNNING")
    return blocks, sizes[0]


def pill(page, word):
    until(page, f"document.querySelector('.b-head .b-pill')?.innerText.trim() === '{word}'")


def test_one_page_shows_a_job_wait_run_be_requeued_and_end(page, berth, tenant):
    """The same document all along: plots come, the offer of remedies goes and comes, durations tick, the end is final."""
    blocks, size = blocked(berth, tenant)
    number = tenant.submit("echo begins; sleep 600", name="target", gpus=size, restartable=True)
    page.goto(f"{berth.url}/jobs/{number}/")
    page.evaluate("window.__not_reloaded = true")
    pill(page, "Waiting")
    assert page.locator("#starts").is_visible()
    assert page.locator("[data-figure-url], [data-log]").count() == 0
    for block in blocks:
        tenant.act(block, "cancel")

    pill(page, "Running")
    until(page, "document.querySelector('#starts') === null")
    until(page, "document.querySelectorAll('.b-plot canvas').length >= 2")
    until(page, "document.querySelector('#over .b-over').innerText.match(/^(Runs since|Over at)/)")
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('begins')")
    assert page.locator("[data-log-attempt]").count() == 0, "there is one run"
    drawn = []
    page.on("request", lambda request: "/figures/" in request.url and drawn.append(request.url))
    deadline = time.monotonic() + 60
    while len(drawn) < 4:
        assert time.monotonic() < deadline, "measures move on without an event"
        page.wait_for_timeout(100)
    since = page.inner_text(".b-head [data-since]")
    until(page, f"document.querySelector('.b-head [data-since]').innerText !== {since!r}", limit_s=20)

    tenant.act(number, "requeue")
    until(page, "document.querySelector('[data-log-attempt]')?.value === '2'")
    pill(page, "Running")
    until(page, "document.querySelector('.b-head').innerText.includes('run 2')")
    until(page, "document.querySelector('[data-log-lines]').innerText.includes('begins')")

    tenant.act(number, "cancel")
    pill(page, "Cancelled")
    until(page, "document.querySelector('#ended h2')?.innerText === 'How it ended'")
    until(page, "document.querySelectorAll('main [data-since]').length === 0")
    assert page.locator("form[action$='/cancel']").count() == 0
    assert page.evaluate("window.__not_reloaded") is True


@pytest.fixture
def crowded(tenant):
    """Jobs on three of the four GPUs of both RTX nodes, and one that asks for four on one of them. All say how long they run."""
    types = {"gpu_types": ["RTX 3090"]}
    held = {"gpus": 3, "expected_duration_s": 600, **types}
    holders = [tenant.submit("sleep 600", name=f"holder-{number}", **held) for number in range(2)]
    for number in holders:
        tenant.wait_state(number, "RUNNING")
    asking = tenant.submit("sleep 600", name="asking", gpus=4, expected_duration_s=60, **types)
    yield asking
    for number in [asking, *holders]:
        tenant.act(number, "cancel")


def test_an_offer_starts_a_waiting_job_in_one_press(page, berth, tenant, crowded):
    """Story 8: why it waits, what must happen first, an offer accepted in one click, and it starts."""
    page.goto(f"{berth.url}/jobs/{crowded}/")
    page.wait_for_selector("#starts .b-say")
    offers = page.locator("#offers tr.b-best form button")
    offers.first.wait_for()
    assert "now" in page.inner_text("#offers tr.b-best td:nth-child(2)")
    offers.first.click()
    # It may run before the page comes to say that the offer was accepted.
    until(
        page,
        "!document.querySelector('#waiting') || document.querySelector('#waiting').textContent.includes('Accepted')",
    )
    tenant.wait_state(crowded, "RUNNING")
    until(page, "!document.querySelector('#waiting')")
