"""A sweep of 24 tasks judged in the browser: failed first with their causes, the best found, run again with its values, all as CSV."""

import csv
import re

import pytest

from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import MARK, Watch, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("pages")]
SIZE, RATES, BATCHES = 24, 6, (64, 256, 1024, 65536)
TRAIN = f"""import json, math, os, sys
task = int(os.environ.get("BERTH_ARRAY_INDEX", 0))
rate = float(os.environ.get("lr") or 10.0 ** (task % {RATES} - 5))
batch = int(os.environ.get("batch") or {BATCHES}[task // {RATES}])
kept = os.environ["BERTH_ARTEFACTS"]
with open(kept + "/params.json", "w") as params:
    json.dump({{"lr": rate, "batch": batch, "opt": "adam" if batch < 1000 else "sgd", "seed": 7}}, params)
far = abs(math.log10(rate) + 3) + abs(math.log2(batch / 256)) / 10
with open(kept + "/metrics.jsonl", "w") as metrics:
    for step in range(1, 21):
        loss = far + 2 / step + (0.3 if step == 20 else 0)  # the last one is not its best
        metrics.write(json.dumps({{"step": step, "loss": loss, "seconds": step * 0.5}}) + "\\n")
        if rate == 1:
            metrics.flush()
            raise FloatingPointError("the loss is not a number")
if "BERTH_ARRAY_INDEX" in os.environ and task == 9:
    print("there is no fold 9", file=sys.stderr)
    sys.exit(7)
print("learnt with", rate, batch, flush=True)
"""
DIVERGED, LOST, BEST = [5, 11, 17, 23], 9, 8
FAILED = sorted([*DIVERGED, LOST])
HEADS = ["Task", "lr", "batch", "opt", "loss", "seconds", "steps", "ran"]
FIGURE = ".b-mid')?.firstChild.data"
SHOWN = "[...document.querySelectorAll('#job-table tr[data-task]')].map(row => [...row.cells].slice(1).map(cell => cell.innerText.trim()))"


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture
def page(readers_shared, berth):
    watch = Watch(berth.url, expected=["htmx:sendAbort", "htmx:afterRequest"])
    page = readers_shared.page("viktor", watch)
    yield page
    page.close()
    watch.check()


def figure(text):
    """A number as the page writes it."""
    return float(re.sub(r"[\s\u202f\u00a0]", "", text).replace("\u2212", "-"))


def table(page):
    """[task, state and the cells below HEADS] of each row as it stands."""
    return [dict(zip(["State", *HEADS], row, strict=False)) for row in page.evaluate(SHOWN)]


def tasks(page):
    return [int(row["Task"]) for row in table(page)]


def by(page, name):
    """Press the head of a column, and wait for its order."""
    with page.expect_navigation():
        page.click(f"#job-table th a:has-text('{name}')")
    assert len(table(page)) == SIZE


def test_a_sweep_is_judged_its_best_run_again_and_all_of_it_exported(page, berth, tmp_path):
    tenant = Tenant(berth)
    files, array = {"train.py": TRAIN}, {"size": SIZE, "concurrency": 12}
    number = tenant.submit("python3 train.py", name="rates", gpus=0, cores=1, files=files, array=array)
    page.goto(f"{berth.url}/jobs/{number}/")
    page.evaluate(MARK)
    sentence = "document.querySelector('#array-progress .b-say').innerText"
    until(
        page,
        f"{sentence}.startsWith('{SIZE - len(FAILED)} of {SIZE} tasks are done; {len(FAILED)} failed')",
        limit_s=180,
    )
    until(page, f"document.querySelectorAll('#job-table .b-jobname').length === {SIZE}")
    told = "[...document.querySelectorAll('#job-table tr[data-task]')].every(row => !row.innerText.includes('\u2013'))"
    until(page, f"document.querySelector('#best') && {told}", limit_s=120)
    until(page, "document.querySelector('#sweep .b-plot canvas')")
    assert page.evaluate("window.__not_reloaded") is True, "tasks, causes, columns and plot came while the page stood"

    causes = page.inner_text("#failed-FAILED")
    assert "5 failed" in causes
    assert "Tasks 5, 9, 11, 17, 23: exit 1 (4), exit 7 (1)." in causes
    assert "FloatingPointError: the loss is not a number" in causes
    heads = [head.split()[0] for head in page.locator("#job-table thead th a").all_inner_texts()]
    assert heads == HEADS, "seed is the same in all"
    order = tasks(page)
    assert sorted(order[: len(FAILED)]) == FAILED, "failed ones first"
    losses = [figure(row["loss"]) for row in table(page)[len(FAILED) :]]
    assert losses == sorted(losses), "then the best first"
    assert order[len(FAILED)] == BEST
    assert f"task {BEST}" in page.inner_text("#best")

    by(page, "lr")
    ranked = [figure(row["lr"]) for row in table(page)]
    for part in (ranked[: len(FAILED)], ranked[len(FAILED) :]):
        assert part == sorted(part)
    by(page, "batch")
    by(page, "batch")
    ranked = [figure(row["batch"]) for row in table(page)]
    for part in (ranked[: len(FAILED)], ranked[len(FAILED) :]):
        assert part == sorted(part, reverse=True)

    agree(page, tmp_path, "loss last")
    page.click("#task-columns > summary")
    with page.expect_navigation():
        page.click("text=Show best values")
    agree(page, tmp_path, "loss lowest")
    again(page, tenant)


def agree(page, tmp_path, column):
    """The CSV has what the table shows, and `column` is what stands below "loss"."""
    with page.expect_download() as download:
        page.click("#job-table a:has-text('CSV')")
    download.value.save_as(tmp_path / "tasks.csv")
    with (tmp_path / "tasks.csv").open(newline="", encoding="utf-8") as file:
        exported = {int(row["task"]): row for row in csv.DictReader(file)}
    assert sorted(exported) == list(range(SIZE))
    for row in table(page):
        kept = exported[int(row["Task"])]
        assert row["State"].upper() == kept["state"]
        assert kept["exit_code"] == ("1" if int(row["Task"]) in DIVERGED else "7" if int(row["Task"]) == LOST else "0")
        assert row["opt"] == kept["opt"]
        assert figure(row["batch"]) == int(kept["batch"])
        assert figure(row["lr"]) == pytest.approx(float(kept["lr"]))
        assert figure(row["loss"]) == pytest.approx(float(kept[column]), rel=0.01)
        assert figure(row["steps"]) == float(kept["loss step"])


def again(page, tenant):
    """The best task's values are variables of one new job, which ends with the same loss."""
    lost = page.evaluate(f"document.querySelector('#best {FIGURE}").strip()
    page.click("#best >> text=Run again with these")
    page.wait_for_url(re.compile("/jobs/new"))
    given = set(page.input_value("#id_environment").splitlines())
    assert {"lr=0.001", "batch=256", "opt=adam"} <= given
    assert page.input_value("[id='id_array.size']") == ""
    page.locator("[data-submit]:visible").click()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    number = re.search(r"/jobs/(\d+)/", page.url)[1]
    until(page, "document.querySelector('.b-head .b-pill')?.innerText.trim() === 'Completed'", limit_s=120)
    assert "learnt with 0.001 256" in tenant.wait_log(number, "learnt with")
    until(page, f"document.querySelector('#strip {FIGURE}?.trim() === {lost!r}", limit_s=90)
