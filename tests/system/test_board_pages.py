"""A cluster too large for a cell a GPU: strips drawn from numbers that stay true by differences, and the dialog that drains."""

import time

import pytest

from portal.foundation.events.shared import STALE_S
from tests.servers import stretched
from tests.system.helpers import axe
from tests.system.helpers.watching import Watch, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("pages")]

SPENDS_ITS_BERTH = True
GROW = """
from datetime import timedelta
from django.utils import timezone
from portal.cluster.models import Gpu, GpuType, Node
now = timezone.now()
kind = GpuType.objects.get_or_create(name="H100")[0]
for number in range(100):
    node = Node.objects.create(name=f"h{number:03}", gpu_type=kind, cores=64, memory_mib=2**20, storage_domain="x", boot_id="b",
        agent_version="1", token_digest=f"t{number}", last_contact_at=now + timedelta(hours=9), rack=f"rack {number // 40}")
    Gpu.objects.bulk_create(Gpu(node=node, index=i, uuid=f"{number}-{i}", memory_mib=81920) for i in range(8))
"""
MEASURE = """
import time
from portal.cluster.models import Node
sample = {"utilisation": 64.0, "memory_mib": 40960}
Node.objects.filter(name="h007").update(live={"at": time.time() + 3600, "gpus": {str(i): sample for i in range(8)}})
"""
DRAWN = """(() => { const canvas = document.querySelector('.b-board canvas'); if (!canvas || !canvas.width) { return 0; }
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let inked = 0; for (let at = 3; at < data.length; at += 4) { inked += data[at] > 0; } return inked; })()"""
MANY = "document.querySelector('.b-board') !== null"
SAID = r"^h\d+, up, 8 GPUs, (0 held, 8|2 held, 6) idle$"  # two while a probe measures its links
PLACE = "Berth.board().nodes.indexOf('h007')"
USE = f"Berth.board() && Berth.board().use[Berth.board().gpus.slice(0, {PLACE}).reduce((a, b) => a + b, 0)]"
COUNT_CHANGES = """(() => { window.__changes = 0; document.addEventListener('berth:board', (event) => {
  window.__changes += Boolean(event.detail.change && event.detail.change.use); }); })()"""
HIDE = """(hidden) => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange')); }"""


@pytest.fixture(scope="module")
def berth(berth_shared):
    """Four virtual nodes, and a hundred that exist in the database only."""
    shell(berth_shared, GROW)
    return berth_shared


def shell(berth, code):
    return berth.command("manage", "shell", "-c", code)


@pytest.fixture(scope="module")
def readers(readers_shared):
    return readers_shared


@pytest.fixture
def opened(readers, berth):
    """A function: open a path in a window of its own width. Returns the page; `page.asked` are the paths it fetched."""
    watch, pages = Watch(berth.url), []

    def start(path, width=1440):
        page = readers.page("operator", watch)
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.asked = []
        page.on("request", lambda request: page.asked.append(request.url.removeprefix(berth.url)))
        page.goto(f"{berth.url}{path}")
        # What pages share may have been made a moment before the hundred nodes came.
        deadline = time.monotonic() + stretched(STALE_S)
        while not page.evaluate(MANY) and time.monotonic() < deadline:
            page.wait_for_timeout(300)
            page.reload()
        return page

    yield start
    for page in pages:
        page.close()
    watch.check()


def boards(page):
    return sum(path.startswith("/cluster/board") for path in page.asked)


@pytest.mark.parametrize(("path", "width"), [("/?view=cluster", 1440), ("/cluster/", 390)])
def test_strips_are_drawn_and_a_node_opens_by_keys_and_closes_by_escape(opened, path, width):
    page = opened(path, width)
    until(page, f"{DRAWN} > 400")
    assert len(page.content()) < 300_000
    assert page.evaluate("document.documentElement.scrollWidth") == width
    rows = page.locator(".b-board-row:not(.b-board-names)")
    assert rows.count() == 3, "A100 80 GB, H100, RTX 3090"
    canvas = rows.nth(1).locator("canvas")
    canvas.focus()
    canvas.press("ArrowRight")
    until(page, f"/{SAID}/.test(document.querySelector('[data-board-said]').textContent)")
    canvas.press("Enter")
    page.wait_for_selector(".b-board-card:not([hidden]) .b-gpu")
    box = page.locator(".b-board-card").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    page.keyboard.press("Escape")
    page.wait_for_selector(".b-board-card", state="hidden")
    assert page.evaluate("document.activeElement.tagName") == "CANVAS", "focus is back where it came from"


def test_a_group_is_a_table_too_a_page_at_a_time(opened):
    page = opened("/cluster/")
    page.locator(".b-board-row", has_text="H100").locator(".b-board-open").click()
    page.wait_for_selector(".b-board-table .b-noderow")
    assert page.locator(".b-board-table .b-noderow").count() == 25
    page.click(".b-board-table [data-rows-page]:not([disabled])")
    page.wait_for_selector("text=26\u201350 of 100 nodes")
    page.click("[data-by-switch] [data-value=rack]")
    until(page, "[...document.querySelectorAll('.b-board-name strong')].some((e) => e.textContent === 'rack 2')")


def test_axe_finds_nothing_with_card_table_and_dialog_open(opened):
    page = opened("/cluster/")
    page.locator(".b-board-row", has_text="H100").locator(".b-board-open").click()
    page.wait_for_selector(".b-board-table .b-noderow")
    canvas = page.locator(".b-board-row", has_text="H100").locator("canvas")
    canvas.focus()
    canvas.press("End")
    canvas.press("Enter")
    page.wait_for_selector(".b-board-card:not([hidden]) .b-gpu")
    assert axe.violations(page) == {}
    page.locator(".b-board-table [data-drain]").first.click()
    assert axe.violations(page) == {}


def test_what_changes_arrives_as_a_difference_and_a_gap_is_healed(opened, berth):
    page = opened("/")
    until(page, f"{USE} === 255")
    page.evaluate(COUNT_CHANGES)
    shell(berth, MEASURE)
    until(page, f"{USE} === 64")
    assert page.evaluate("window.__changes") >= 1, "by the socket"
    before = boards(page)
    page.evaluate("Berth.board().version -= 5")
    shell(berth, MEASURE.replace("64.0", "12.0"))
    until(page, f"{USE} === 12")
    assert boards(page) > before, "the gap was seen: fetched whole"


def test_a_hidden_page_fetches_nothing_and_catches_up(opened, berth):
    page = opened("/")
    until(page, f"{USE} !== undefined && {USE} !== null")
    page.evaluate(HIDE, True)
    asked = len(page.asked)
    shell(berth, MEASURE.replace("64.0", "33.0"))
    shell(berth, "from portal.foundation.events.services import page_event; page_event(stream='cluster', topic='job')")
    page.wait_for_timeout(6000)  # there is no event of fetching nothing
    assert [path for path in page.asked[asked:] if not path.startswith("/static/")] == []
    page.evaluate(HIDE, False)
    until(page, f"{USE} === 33")


@pytest.mark.parametrize("width", [1440, 390])
def test_drain_opens_above_everything_and_drains(opened, berth, width):
    page = opened("/cluster/", width)
    until(page, f"{DRAWN} > 400")
    # Another node each time: a drained one has a Resume.
    page.locator(".b-board-row", has_text="H100").locator("canvas").click(
        position={"x": 10 if width > 400 else 50, "y": 7}
    )
    page.click(".b-board-card [data-drain]")
    box = page.locator("#drain-dialog").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 900
    for selector in ("#drain-reason", "[data-drain-submit]", "#drain-dialog [data-dialog-close]"):
        hit = page.evaluate(
            "(s) => { const e = document.querySelector(s), b = e.getBoundingClientRect();"
            " return document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2) === e; }",
            selector,
        )
        assert hit, f"{selector} is covered or cut off"
    name = page.locator("[data-drain-name]").inner_text()
    page.click("[data-drain-submit]")
    assert page.locator("#drain-dialog").is_visible(), "no reason was given: nothing is sent"
    page.fill("#drain-reason", "dust")
    page.click("[data-drain-submit]")
    page.wait_for_selector(f"text={name} takes no new jobs")
    found = shell(berth, f"from portal.cluster.models import Node; print(Node.objects.get(name='{name}').drain_reason)")
    assert "dust" in found.stdout
