"""axe-core over every page, in both themes: nothing serious, nothing critical."""

import re

import pytest

from research.screenshots.pages import NOBODY, pages_all
from research.workloads.partitions import DESCRIPTION, EXCHANGE
from tests.system.helpers import axe
from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import sign_in, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("looks")]

SLOW_MS = 120_000
UPLOAD = b"submitted_s,tenant,gpus,duration_s\n0,v,1,60\n"
ORDER = {"generator": "hops-64", "jobs": 3, "cluster": "own", "policies": ["fifo"]}
CONSOLE = (
    "",
    "tenants/user/",
    "tenants/user/add/",
    "tenants/user/1/change/",
    "tenants/tenant/1/change/",
    "cluster/node/",
    "cluster/node/1/change/",
    "cluster/jointoken/add/",
    "engines/engine/add/",
    "engines/engine/",
    "rounds/operatorsetting/",
    "rounds/planning/",
    "rounds/planning/1/change/",
    "jobs/job/",
    "jobs/job/1/change/",
    "tenants/auditevent/",
    "axes/accessattempt/",
    "rounds/round/1/change/",
    "cluster/node/do/drain/?id=1",
    "estimation/pairspeed/",
)


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def paths(berth):
    """Pages with something on them: jobs in each state, an array, simulations, traces, plannings."""
    tenant = Tenant(berth)
    ended, failed = tenant.submit("echo an end", name="short"), tenant.submit("exit 3", name="fails")
    array = tenant.submit("sleep 1", name="many", array={"size": 3})
    running = tenant.submit("echo line; exec sleep 3000", name="long", gpus=8, gpu_types=["A100 80 GB"])
    tenant.wait_state(running, "RUNNING")
    other = tenant.submit("sleep 600", gpus=8, gpu_types=["A100 80 GB"])
    waiting = tenant.submit("sleep 600", name="waits", gpus=8, gpu_types=["A100 80 GB"])
    tenant.wait_state(ended, "COMPLETED")
    tenant.wait_state(failed, "FAILED")
    simulations = []
    for name in ("one", "two"):
        status, answer = berth.request(
            "/api/v1/simulations", method="POST", body=ORDER | {"name": name}, token=tenant.token
        )
        assert status == 201, answer
        simulations.append(answer["id"])
        berth.request(
            f"/api/v1/simulations/{answer['id']}/share",
            method="POST",
            body={"shared_with": "operators"},
            token=tenant.token,
        )
    berth.wait(lambda: _simulated(tenant, simulations), limit_s=120, what="two simulations")
    names = {
        "ended": ended,
        "failed": failed,
        "array": array,
        "running": running,
        "waiting": waiting,
        "node": "a100-01",
    }
    names |= {"simulation": simulations[0], "other": simulations[1], "planning": 1, "tenant": "vision-lab"}
    names |= {"template_number": 1, "engine_number": 1}
    partition_attach(berth)
    pages = [
        page.path
        for page in pages_all()
        if page.reader != NOBODY and not re.search(r"path=|laboratory/new\?", page.path)
    ]
    yield list(dict.fromkeys(path.format_map(names) for path in pages))
    berth.command("manage", "shell", "-c", "from portal.engines.models import Engine; Engine.objects.all().delete()")
    for number in (running, other, waiting):
        tenant.act(number, "cancel")


def partition_attach(berth):
    """Attach a partition as a bridge does, of which nothing is heard after its first exchange."""
    token = re.search(r"berthjoin_\S+", berth.command("manage", "join_token").stdout)[0]
    for path, body in (("attach", DESCRIPTION), ("exchange", EXCHANGE)):
        status, answer = berth.request(f"/api/bridge/v1/{path}", method="POST", body=body, token=token)
        assert status < 300, answer
        token = answer.get("token")


def _simulated(tenant, numbers):
    _, answer = tenant.berth.request("/api/v1/simulations?state=COMPLETED", token=tenant.token)
    return {each["id"] for each in answer["results"]} >= set(numbers)


@pytest.fixture(scope="module")
def browser(readers_shared):
    return readers_shared.browser


THEME = "document.documentElement.dataset.bsTheme"
DOCS = "/api/v1/docs"
FOLLOWS = "async () => { for (const frame of [1, 2]) { await new Promise(requestAnimationFrame); } }"
"""Resolves when a page that is open has followed the system's theme: with the next frame."""


def visited(page, url, looks):
    """{(path, theme): faults} of a page in both themes: all rules in the light one, those of colour in the dark one.

    It is loaded once: a page follows the system's theme.
    """
    found = {}
    for theme, only in (("light", None), ("dark", axe.BY_COLOUR)):
        page.emulate_media(color_scheme=theme)
        if theme == "light":
            answer = page.goto(url, wait_until="load")
            assert answer.ok or url.endswith("/nowhere"), (url, answer.status)
        if url.endswith(DOCS) and theme == "light":
            until(page, "document.querySelectorAll('.opblock-tag').length > 8")
            page.evaluate("document.querySelectorAll('.opblock-tag').forEach((tag) => tag.click())")
            until(page, "document.querySelectorAll('.opblock').length > 20")
        page.evaluate(FOLLOWS)
        assert theme == "light" or theme in page.evaluate(THEME), url
        page.wait_for_timeout(500)  # plots come after the load, and are drawn anew in another theme
        found[theme] = axe.violations(page, only, looks)
    return found


@pytest.fixture(scope="module")
def faults(browser, berth, paths):
    """{theme: {path: faults}}."""
    page, looks = browser.new_context(color_scheme="light").new_page(), set()
    page.set_default_timeout(SLOW_MS)
    found = {"/login": visited(page, f"{berth.url}/login", looks)}
    sign_in(page, berth.url, berth.operator["username"], berth.operator["password"])
    page.wait_for_url(f"{berth.url}/")
    for path in dict.fromkeys([*paths, *(f"/admin/{part}" for part in CONSOLE)]):
        found[path] = visited(page, berth.url + path, looks)
    page.context.close()
    return {theme: {path: each[theme] for path, each in found.items() if each[theme]} for theme in ("light", "dark")}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_fault(faults, theme):
    assert faults[theme] == {}


TEXTS = """<!doctype html><html lang="en"><title>t</title><style>body { background: #fff } p { color: #767676; font: 16px sans-serif }
  .grey { background: #999 } .over { position: absolute; inset: 0 } .under { position: relative; height: 3em }</style>
<main><h1>Texts</h1><p>well on white</p><p>well as the first</p>
<div class="grey"><p id="ground">on grey</p></div>
<div style="opacity: .5"><p id="faded">faded with its parent</p></div>
<div class="under"><div class="over grey"></div><p id="over" class="under">over what is no ancestor</p></div>
<p style="color: #949494; font-size: 24px">large</p><p style="color: #949494" id="small">small</p></main>"""


def test_a_look_that_is_known_to_be_well_hides_no_other(browser):
    """The same text on other ground, faded, over something, and smaller: axe alone says the same."""
    page, looks = browser.new_page(), set()
    page.set_content(TEXTS)
    alone, first, again = (axe.violations(page, ["color-contrast"], known) for known in (None, looks, looks))
    told = [node.partition(":")[0] for node in alone["color-contrast (serious)"]]
    assert told == ["#ground", "#faded", "#over", "#small"]
    assert first == again == alone
    assert len(looks) == 3, "heading, text on white, large text"
    page.close()
