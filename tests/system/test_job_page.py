"""A job's page in the browser: from running to done without a reload, its files in place, its folded plots, its line for a shell."""

import shlex

import pytest

from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import MARK, Watch, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("pages")]
TRAIN = '''import json, os, time
"""<script>alert(1)</script>"""
with open(os.path.join(os.environ["BERTH_ARTEFACTS"], "metrics.jsonl"), "w") as out:
    for step in range(20):
        out.write(json.dumps({"step": step, "loss": 3 - step / 10}) + "\\n")
print("learnt", flush=True)
while not os.path.exists(os.environ["GO"]):  # until the test lets it end
    time.sleep(0.2)
'''


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def readers(readers_shared):
    return readers_shared


def test_a_job_is_followed_to_its_results_and_what_ran_opens_in_place(readers, berth, tmp_path):
    watch, tenant = Watch(berth.url), Tenant(berth)
    page = readers.page("vera", watch)
    go = tmp_path / "go"
    tmp_path.chmod(0o755)
    files = {"train.py": TRAIN, "notes.txt": "plain\n"}
    number = tenant.submit("python3 train.py", files=files, environment={"GO": str(go)}, name="trains")
    page.goto(f"{berth.url}/jobs/{number}/")
    page.evaluate(MARK)
    until(page, "document.querySelector('#over .b-over')?.innerText.match(/^(Runs since|Over at)/)", limit_s=90)
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('learnt')")
    until(page, "document.querySelector('#over')?.innerText.includes('loss 1.10')", limit_s=90)

    page.click("#ran .b-filelink >> text=train.py")
    page.wait_for_selector("#sent[open] .b-code-comment")
    assert page.inner_text("#sent .b-code-comment") == "# until the test lets it end"
    assert "<script>alert(1)</script>" in page.inner_text("#sent")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "train.py", "the focus is back"
    line = shlex.split(page.text_content("#same-line"))
    assert line[:3] == ["berth", "submit", "--gpus=1"]
    assert line[-2:] == ["--", "python3 train.py"]

    go.touch()
    until(page, "document.querySelector('#strip .b-mid')?.innerText === '1.10'", limit_s=90)
    assert page.evaluate("window.__not_reloaded") is True
    until(page, "document.querySelector('#events').innerText.includes('Ended: exit code 0.')")
    assert page.locator("#log [data-log-lines] .b-line").count() == 1
    page.set_viewport_size({"width": 390, "height": 800})
    page.reload()
    assert not page.is_visible("[data-log-search]")
    page.click("#more > summary")
    page.click("[data-log-act=find]")
    page.fill("[data-log-search]", "learnt")
    until(page, "document.querySelector('[data-log-matches]').innerText === '1 of 1'")
    page.close()
    watch.check()
