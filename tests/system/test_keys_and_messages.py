"""Small things that a person counts on: j, k and Enter in the list of jobs, Copy, and messages that go when they should."""

import pytest

from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import MARK, Watch, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("pages")]
FOCUSED = "document.activeElement.closest('tr')?.dataset.job"
SAID = "document.querySelectorAll('.b-messages .b-message').length"
WRONG = "document.querySelectorAll('[data-toasts] .b-message').length"


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture
def page(readers_shared, berth):
    watch = Watch(berth.url, expected=["htmx:sendAbort", "htmx:afterRequest"])
    page = readers_shared.page("viktor", watch)
    yield page
    page.context.clear_permissions()
    page.close()
    watch.check()


def test_j_and_k_walk_the_list_through_live_updates_and_enter_opens(page, berth):
    tenant = Tenant(berth)
    made = [tenant.submit("true", name=f"listed {place}", gpus=0, cores=1) for place in range(3)]
    array = tenant.submit("true", name="listed, too", gpus=0, cores=1, array={"size": 2})
    assert set(tenant.ends(made, limit_s=120).values()) == {"COMPLETED"}
    page.goto(f"{berth.url}/jobs/?q=listed")
    page.evaluate(MARK)
    page.keyboard.press("k")
    last = page.evaluate("[...document.querySelectorAll('#job-table tr[data-job]')].at(-1).dataset.job")
    assert page.evaluate(FOCUSED) == last, "with none chosen, the last one"
    page.evaluate("document.activeElement.blur()")
    walked = []
    for _ in range(4):
        page.keyboard.press("j")
        walked.append(page.evaluate(FOCUSED))
    assert walked == [array, *reversed(made)], "an array is one step, newest first"
    page.keyboard.press("k")
    assert page.evaluate(FOCUSED) == made[1]
    passing = tenant.submit("true", name="listed late", gpus=0, cores=1)
    until(page, f"document.querySelector('tr[data-job=\"{passing}\"]')")
    assert page.evaluate(FOCUSED) == made[1], "a row came above it"
    page.keyboard.press("j")
    assert page.evaluate(FOCUSED) == made[0]
    page.keyboard.press("/")
    page.keyboard.type("jk")
    assert page.input_value("[data-search]:visible") == "jk", "in a field they are text"
    page.keyboard.press("Escape")
    page.locator(f"tr[data-job='{made[0]}'] .b-jobname a").focus()
    page.keyboard.press("k")
    assert page.evaluate("window.__not_reloaded") is True
    page.keyboard.press("Enter")
    page.wait_for_url(f"{berth.url}/jobs/{made[1]}/")


def test_copy_copies_and_its_word_stays_in_its_card(page, berth):
    tenant = Tenant(berth)
    number = tenant.submit("echo 'a b'", name="copied", gpus=0, cores=1)
    tenant.wait_state(number, "COMPLETED")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=berth.url)
    page.goto(f"{berth.url}/jobs/{number}/")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        button = page.locator("#ran [data-action=copy]")
        word, place = button.inner_text(), button.bounding_box()
        button.click()
        until(page, "document.querySelector('#ran [data-action=copy]').innerText.trim() === 'Copied'")
        copied, card = button.bounding_box(), page.locator("#ran").bounding_box()
        assert (copied["x"], copied["y"]) == (place["x"], place["y"])
        assert copied["x"] + copied["width"] <= card["x"] + card["width"]
        assert page.evaluate("navigator.clipboard.readText()") == page.text_content("#same-line")
        assert page.evaluate(WRONG) == 0
        until(page, f"document.querySelector('#ran [data-action=copy]').innerText === {word!r}")


def test_a_message_goes_by_itself_or_by_its_cross_and_an_error_only_by_its_cross(page, berth):
    page.clock.install()
    page.goto(f"{berth.url}/account/")
    zone(page)
    page.clock.fast_forward(9_000)
    until(page, f"{SAID} === 0")
    zone(page)
    page.click(".b-messages [aria-label=Dismiss]")
    assert page.evaluate(SAID) == 0
    number = Tenant(berth).submit("true", name="not copied", gpus=0, cores=1)
    Tenant(berth).wait_state(number, "COMPLETED")
    page.goto(f"{berth.url}/jobs/{number}/")
    # What a page without TLS is given: no clipboard at all.
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.click("#ran [data-action=copy]")
    page.clock.fast_forward(600_000)
    assert "does not allow copying here" in page.inner_text("[data-toasts]")
    page.click("[data-toasts] [aria-label=Dismiss]")
    assert page.evaluate(WRONG) == 0


def zone(page):
    """Set the time zone as it was: that is told."""
    if page.locator("[data-fold=account-zone]").get_attribute("open") is None:
        page.click("[data-fold=account-zone] > summary")
    with page.expect_navigation():
        page.locator("form[action$='time-zone'] button").click()
    assert page.evaluate(SAID) == 1
