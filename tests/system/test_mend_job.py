"""A whole story without a reload: files dropped, submitted, followed, failed, the missing package added, run again, done, downloaded."""

import re
from pathlib import Path

import pytest

from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import MARK, Watch, until
from tests.system.test_submit_page import DROP, unfold
from tests.workers.environments.wheels import wheel_write

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("looks")]
TRAIN = """import os, time
print("loading", flush=True)
while not os.path.exists(os.environ["GO"]):  # until the test has read the line above
    time.sleep(0.2)
import tinypack
open(os.environ["BERTH_ARTEFACTS"] + "/last.pt", "w").write(tinypack.VERSION)
print("with tinypack", tinypack.VERSION)
"""


@pytest.fixture(scope="module")
def berth(berth_shared):
    wheel_write(Path(berth_shared.environment["BERTH_AGENT_ENVIRONMENTS_WHEELS"]))
    return berth_shared


def test_what_was_dropped_fails_is_mended_in_one_press_and_its_result_is_downloaded(readers_shared, berth, tmp_path):
    watch = Watch(berth.url, expected=["htmx:sendAbort", "htmx:afterRequest"])
    page, go = readers_shared.page("viktor", watch), tmp_path / "go"
    tmp_path.chmod(0o755)
    page.goto(f"{berth.url}/jobs/new")
    page.evaluate(DROP, [["train.py", TRAIN], ["notes.txt", "plain"]])
    until(page, "document.getElementById('id_command').value === 'python3 train.py'")
    unfold(page, "more")
    page.fill("#id_environment", f"GO={go}")
    page.keyboard.press("Control+Enter")
    first = followed(page)
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('loading')", limit_s=120)
    go.touch()
    until(page, "document.querySelector('#ended .b-say')?.innerText.includes('tinypack')", limit_s=120)
    said = page.inner_text("#ended .b-say")
    assert said == "Its software has no package tinypack, which train.py imports. It ended with exit code 1."
    assert page.inner_text("#ended .b-stderr b") == "ModuleNotFoundError: No module named 'tinypack'"
    assert page.evaluate("window.__not_reloaded") is True, "it came while the page stood"

    page.click("#ended button:has-text('Add tinypack and run again')")
    page.wait_for_url(re.compile(rf"/jobs/(?!{first}/)\d+/$"))
    again = followed(page)
    until(page, "document.querySelector('.b-head .b-pill')?.innerText.trim() === 'Completed'", limit_s=300)
    until(page, "document.querySelector('#artefacts')?.innerText.includes('last.pt')")
    until(page, "document.querySelector('[data-log-lines]').innerText.includes('with tinypack 1.0')")
    assert page.evaluate("window.__not_reloaded") is True
    page.click("#artefacts >> text=last.pt")
    with page.expect_download() as download:
        page.click("#shown >> text=Download")
    download.value.save_as(tmp_path / "last.pt")
    assert (tmp_path / "last.pt").read_text() == "1.0"
    assert Tenant(berth).job(again)["software"] == {"requirements": "tinypack\n"}
    page.close()
    watch.check()


def followed(page):
    """The number of the job whose page has come; a reload of it would be seen."""
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    page.evaluate(MARK)
    return re.search(r"/jobs/(\d+)/", page.url)[1]
