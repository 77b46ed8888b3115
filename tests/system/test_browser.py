"""What a person does: sign in, submit, watch a job without reloading, cancel it; and what no page ever does."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from research.screenshots.camera import VIEWS, pictures_take
from research.screenshots.pages import OPERATOR, TENANT, Page, pages_all
from research.screenshots.seeded import Seeded
from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import MARK, Watch, credentials_send, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.xdist_group("pages")]

SLOW_MS = 60_000
"""A test machine may be busy; an idle one needs a second or two."""
PHONE = {"width": 390, "height": 844}
COUNTING = "i=0; while :; do i=$((i+1)); echo line $i of many; sleep 0.5; done"
SLOWLY = COUNTING.replace("0.5", "2")


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def readers(readers_shared):
    return readers_shared


@pytest.fixture(scope="module")
def browser(readers):
    return readers.browser


@pytest.fixture
def watch(berth):
    watch = Watch(berth.url)
    yield watch
    watch.check()


@pytest.fixture
def page(readers, watch):
    """A page of a member of a demo tenant."""
    page = readers.page("viktor", watch)
    page.on("dialog", lambda dialog: dialog.accept())
    yield page
    page.close()


@pytest.fixture(scope="module")
def jobs(berth):
    """Numbers of a job that runs and of one that has ended, for pages that show jobs."""
    tenant = Tenant(berth)
    ended, running = tenant.submit("echo a short one", name="short"), tenant.submit(SLOWLY, name="long", gpus=2)
    tenant.wait_state(ended, "COMPLETED")
    tenant.wait_state(running, "RUNNING")
    yield {"ended": ended, "running": running}
    tenant.act(running, "cancel")


def paths(jobs, *readers):
    """The pages of these readers, but for errors, simulations and artefacts: there are none of them."""
    names = jobs | {"waiting": jobs["running"], "failed": jobs["ended"], "array": jobs["ended"], "node": "a100-01"}
    names |= {"planning": "1", "tenant": "vision-lab", "template_number": "1"}
    pages = [
        page
        for page in pages_all()
        if page.reader in readers and not re.search("{simulation}|{engine_number}|path=|/nowhere", page.path)
    ]
    return list(dict.fromkeys(page.path.format_map(names) for page in pages))


def state_shown(page):
    return page.locator(".b-head .b-pill").first.inner_text().strip()


def test_a_job_is_submitted_watched_and_cancelled_without_a_reload(page, berth):
    page.goto(f"{berth.url}/jobs/new")
    page.fill("#id_name", "seen in a browser")
    page.fill("#id_command", COUNTING)
    page.locator("label:has(input[type=radio][name=gpus][value='2'])").click()
    page.locator("#dry-run .b-mid").wait_for()
    assert page.locator("#dry-run .b-sub").inner_text().strip()
    page.locator("[data-submit]:visible").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    page.evaluate(MARK)
    until(page, "document.querySelector('.b-head .b-pill')?.innerText.trim() === 'Running'")
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('line 2 of many')")
    lines = page.locator("[data-log-lines] .b-line").count()
    until(page, f"document.querySelectorAll('[data-log-lines] .b-line').length > {lines + 2}")
    assert page.evaluate("window.__not_reloaded") is True
    page.locator(".b-head-end .b-hide-phone button:has-text('Cancel')").click()
    until(page, "document.querySelector('.b-head .b-pill')?.innerText.trim() === 'Cancelled'")
    number = re.search(r"/jobs/(\d+)/", page.url).group(1)
    assert Tenant(berth).state(number) == "CANCELLED"


def test_watching_needs_no_reload(page, berth, jobs):
    """The document that shows the end is the one that showed the beginning."""
    tenant = Tenant(berth)
    number = tenant.submit("sleep 4; echo the end", name="watched")
    page.goto(f"{berth.url}/jobs/{number}/")
    page.evaluate(MARK)
    until(page, "document.querySelector('.b-head .b-pill')?.innerText.trim() === 'Completed'")
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('the end')")
    assert page.evaluate("window.__not_reloaded") is True


def test_an_array_of_200_tells_its_three_failures_first_and_retries_them(page, berth, tmp_path):
    """Story 9: the counts, what failed first, and a retry of what failed. Tasks from 8 on go on until they are cancelled."""
    tenant, mended = Tenant(berth), tmp_path / "mended"
    command = (
        f"i=$BERTH_ARRAY_INDEX; [ $i -lt 8 ] || exec sleep 600; "
        f"case $i in 1|4|6) [ -e {mended} ] || {{ echo no such file >&2; exit 3; }};; esac"
    )
    number = tenant.submit(command, name="sweep", gpus=0, cores=1, array={"size": 200, "concurrency": 6})
    page.goto(f"{berth.url}/jobs/{number}/")
    page.evaluate(MARK)
    until(page, "document.querySelector('#array-progress .b-say').innerText.startsWith('5 of 200 tasks are done')")
    until(
        page,
        "document.querySelector('#array-progress .b-say').innerText.includes('3 failed, 6 running, 186 waiting')",
    )
    until(page, "document.querySelectorAll('[data-taskgrid] .b-task-fail').length === 3")
    failed = page.inner_text("#failed-FAILED")
    for words in ("3 failed", "Tasks 1, 4, 6: exit 3 (3)", "no such file"):
        assert words in failed
    until(
        page,
        "[...document.querySelectorAll('#job-table tbody .b-jobname')].slice(0, 3).map((e) => e.innerText).join() === '1,4,6'",
    )
    chips = "All 200 Failed 3 Running 6 Waiting 186 Completed 5"  # Starting ones are told beside Running, and gone soon
    until(
        page,
        f"document.querySelector('#job-table .b-chips').innerText.split(/\\s+/).filter(Boolean).join(' ') === '{chips}'",
    )
    assert page.evaluate("window.__not_reloaded") is True
    mended.touch()
    page.click("#retry-FAILED")
    until(page, "!document.querySelector('#failed-FAILED')")
    for index in (8, 9, 10):  # the array has its six already: retried tasks wait for room
        tenant.act(f"{number}_{index}", "cancel")
    until(page, "document.querySelector('#array-progress .b-say').innerText.startsWith('8 of 200 tasks are done')")
    assert page.locator("[data-taskgrid] .b-task-done[data-attempt='2']").count() == 3
    tenant.act(number, "cancel")


def test_a_chain_says_where_it_broke_and_what_does_not_follow(page, berth, tmp_path):
    """Story 10: prep, train and evaluate; train fails, and the page of what follows says so while it is open."""
    tenant, go = Tenant(berth), tmp_path / "go"
    prep = tenant.submit("true", name="prep", gpus=0, cores=1)
    fails = f"while [ ! -e {go} ]; do sleep 0.2; done; exit 7"
    train = tenant.submit(fails, name="train", depends_on=[int(prep)])
    after = tenant.submit("true", name="evaluate", depends_on=[int(train)])
    tenant.wait_state(train, "RUNNING")
    page.goto(f"{berth.url}/jobs/{after}/")
    page.evaluate(MARK)
    assert page.inner_text("#chain .b-chain-sentence").strip() == f"It may start once #{train} train has completed."
    assert [words in page.text_content("#chain .b-chain-wrap svg") for words in ("prep", "train", "evaluate")] == [
        True
    ] * 3
    go.touch()
    until(page, "document.querySelector('#chain .b-chain-sentence').innerText.startsWith('The chain broke at')")
    told = page.inner_text("#chain .b-chain-sentence")
    assert f"#{train} train (failed: " in told
    assert f"#{after} evaluate was cancelled and will not run." in told
    until(page, "document.querySelector('.b-head .b-pill')?.innerText.trim() === 'Cancelled'")
    assert page.evaluate("window.__not_reloaded") is True
    page.click(f"#chain .b-chain-sentence a[href='/jobs/{train}/']")
    page.wait_for_url(f"{berth.url}/jobs/{train}/")
    assert "exit code 7" in page.inner_text("#ended")


def test_the_laboratory_answers_what_another_policy_would_have_done(page, berth):
    """By its own worker, from the form to the plots, with no reload of ours."""
    page.goto(f"{berth.url}/laboratory/new")
    page.fill("#id_name", "a small one")
    page.select_option("#id_source", "generator:hops-64")
    page.fill("#id_jobs", "4")
    page.check("input[name=cluster][value=own]", force=True)
    for policy in ("hops", "berth"):
        page.uncheck(f"input[name=policies][value={policy}]")
    page.click("text=Simulate")
    page.wait_for_url(re.compile(r"/laboratory/\d+/"))
    frames = []
    page.on("request", lambda request: frames.append(request.url) if "fragment=" in request.url else None)
    page.wait_for_selector("text=Completed")
    assert frames, "what the socket told of was fetched"
    until(page, "document.querySelector('tbody')?.querySelectorAll('tr').length === 2")
    page.wait_for_selector(".b-plot .main-svg")


def test_a_dead_portal_marks_the_page_stale_and_its_return_heals_it(page, berth, jobs, watch):
    watch.expected += ["ERR_CONNECTION", "WebSocket", "ERR_EMPTY", "502", "Failed to load resource"]
    page.goto(f"{berth.url}/jobs/{jobs['running']}/")
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('of many')")
    page.evaluate(MARK)
    bar = page.locator("[data-stale-bar]")
    assert not bar.is_visible()
    [supervisor] = berth.pids("supervisor").values()
    os.kill(supervisor, signal.SIGSTOP)  # else it brings the portal back before the page has noticed
    try:
        berth.kill("portal")
        bar.wait_for(timeout=SLOW_MS)
        assert "Connection lost" in bar.inner_text()
    finally:
        os.kill(supervisor, signal.SIGCONT)
    berth.wait_healthy(120)
    bar.wait_for(state="hidden", timeout=SLOW_MS)
    lines = page.locator("[data-log-lines] .b-line").count()
    until(page, f"document.querySelectorAll('[data-log-lines] .b-line').length > {lines}")
    assert page.evaluate("window.__not_reloaded") is True
    assert state_shown(page) == "Running"


def test_no_page_errs_or_calls_elsewhere_and_a_phone_never_scrolls_sideways(page, berth, jobs):
    """Console, content security policy and origin are checked by `watch` when the test ends.

    Each page is loaded by a phone, which is then turned into a desk's screen; the operator's pages below are loaded by one.
    """
    wide, desk = {}, page.viewport_size
    for path in paths(jobs, TENANT):
        page.set_viewport_size(PHONE)
        answer = page.goto(berth.url + path, wait_until="load")
        assert answer.status == 200, path
        page.wait_for_timeout(600)  # plots and the socket come after the load
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            wide[path] = width
        page.set_viewport_size(desk)
        page.wait_for_timeout(300)  # plots are drawn anew
    assert wide == {}


def test_the_operators_pages_err_neither(readers, watch, berth, jobs):
    page = readers.page("operator", watch)
    for path in [*paths(jobs, OPERATOR), "/queue/", f"/jobs/{jobs['running']}/"]:
        answer = page.goto(berth.url + path, wait_until="load")
        assert answer.status == 200, path
        page.wait_for_timeout(600)
    page.close()


def test_a_plot_is_drawn_in_the_zone_that_the_reader_chose(browser, readers, watch, berth, jobs):
    """Asia/Kathmandu is 5:45 ahead of UTC; the browser's own zone is another."""
    signed_in = readers.context("viktor").storage_state()
    page = browser.new_context(timezone_id="America/New_York", storage_state=signed_in).new_page()
    page.set_default_timeout(SLOW_MS)
    watch.on(page)
    for zone, ahead_min in (("Asia/Kathmandu", 345), ("", None)):
        page.goto(f"{berth.url}/account/")
        if page.locator("[data-fold=account-zone]").get_attribute("open") is None:
            page.click("[data-fold=account-zone] > summary")
        page.select_option("select[name=time_zone]", zone)
        page.locator("form[action$='time-zone'] button").click()
        page.goto(f"{berth.url}/cluster/a100-01/")
        page.locator("#busy-1 .u-over").click()  # the crosshair's time stands in the plot's head
        until(page, "document.querySelector('#busy-1-title [data-read]').innerText !== ''")
        shown = page.locator("#busy-1-title [data-read]").inner_text()[:5]
        middle = page.evaluate(
            """async () => { const { x } = await (await fetch(document.querySelector("#busy-1").dataset.figureUrl)).json();
               return (x.range[0] + x.range[1]) / 2; }"""
        )
        utc = datetime.fromtimestamp(middle, UTC)
        apart = (60 * int(shown[:2]) + int(shown[3:]) - 60 * utc.hour - utc.minute + 720) % 1440 - 720
        if ahead_min is not None:
            assert abs(apart - ahead_min) < 5, (shown, utc)
        else:
            assert apart < 0, "New York is behind"
    page.context.close()


def test_a_slash_goes_to_the_search_field(page, berth):
    page.goto(f"{berth.url}/")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.matches('[data-search]')")
    page.keyboard.type("a100")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/search|/cluster/"))


def test_pictures_of_pages_are_taken_and_faults_told(berth, jobs, tmp_path):
    people = {"tenant": ("viktor", berth.users["viktor"]["password"])}
    shown = (Page("jobs", "/jobs/"), Page("gone", "/jobs/{ended}/gone"))
    seeded = Seeded(berth.url, people, {"ended": jobs["ended"]})
    with ThreadPoolExecutor(
        1
    ) as alone:  # Playwright takes one loop a thread, and this one has the other tests' browser
        taken = alone.submit(pictures_take, seeded, tmp_path, print, shown).result()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in taken.files)
    assert len(taken.files) == len(VIEWS)  # of the one that there is
    assert {where for where, _ in taken.faults} == {f"gone, {view.name}" for view in VIEWS}


def test_keys_go_to_pages_and_tell_themselves(page, berth):
    page.goto(f"{berth.url}/")
    page.keyboard.press("?")
    until(page, "document.querySelector('dialog[data-keys]').open")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_url(f"{berth.url}/help/")
    page.keyboard.press("/")
    page.keyboard.type("gj?")  # in a field, keys are text
    assert page.evaluate("document.activeElement.value") == "gj?"
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url(f"{berth.url}/jobs/")


def test_wrong_passwords_lock_the_sign_in(browser, watch, berth):
    """Last, and with another user than the tests above: the lock stays for minutes."""
    watch.expected += ["403", "429"]
    page = browser.new_page()
    page.set_default_timeout(SLOW_MS)
    watch.on(page)
    page.goto(f"{berth.url}/login")
    for _ in range(20):
        credentials_send(page, "sam", "not the password")
        if "locked" in page.inner_text("main").lower():
            break
        assert "correct" in page.inner_text("main").lower(), "a wrong password is told as such"
    assert "Sign-in is locked" in page.inner_text("main")
    page.context.close()
