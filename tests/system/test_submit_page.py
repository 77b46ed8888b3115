"""The submit form in a browser: errors lead to their fields and go when mended; files are chosen, dropped, kept and run."""

import os
import re
from pathlib import Path

import pytest

from tests.portal.work.notifications.receivers import http_server
from tests.system.helpers.client import Tenant
from tests.system.helpers.watching import Watch, until
from tests.workers.environments.git_server import GitServer, repository
from tests.workers.environments.wheels import wheel_write

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("looks")]
DROP = """(files) => { const data = new DataTransfer(); files.forEach(([name, text]) => data.items.add(new File([text], name)));
  document.querySelector('[data-dropzone]').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); }"""


TRAIN = """import json, os, time, tinypack
out = os.environ["BERTH_ARTEFACTS"]
for step in range(1, 41):
    with open(out + "/metrics.jsonl", "a") as metrics:
        metrics.write(json.dumps({"step": step, "loss": 4 / step}) + "\\n")
    print("step", step, "of 40 with tinypack", tinypack.VERSION, flush=True)
    time.sleep(0.4)
open(out + "/last.pt", "wb").write(b"weights" * 1000)
"""


@pytest.fixture(scope="module")
def berth(berth_shared):
    wheel_write(Path(berth_shared.environment["BERTH_AGENT_ENVIRONMENTS_WHEELS"]))
    return berth_shared


@pytest.fixture(scope="module")
def readers(readers_shared):
    return readers_shared


@pytest.fixture
def page(readers, berth):
    watch = Watch(
        berth.url, expected=["400", "htmx:sendAbort", "htmx:afterRequest"]
    )  # a page that is left asks no more
    page = readers.page("viktor", watch)
    page.goto(f"{berth.url}/jobs/new")
    yield page
    page.close()
    watch.check()


def names(page):
    return page.locator("[data-filelist] li code").all_inner_texts()


def unfold(page, *rows):
    for row in rows:
        if page.locator(f"#{row}-fields").get_attribute("open") is None:
            page.click(f"#{row}-fields > summary")


def answer(page):
    """The answer beside the form, once there is one."""
    page.locator("#dry-run .b-mid").wait_for()
    return page.inner_text("#dry-run").replace("\u00a0", " ")


def test_a_dropped_program_suggests_a_command_and_a_name_and_what_was_typed_stays(page):
    assert page.evaluate("document.activeElement.id") == "id_files"
    page.evaluate(DROP, [["other.py", "1"], ["train.py", "1"], ["requirements.txt", "tinypack==1.0\n"]])
    until(page, "document.getElementById('id_command').value === 'python3 train.py'")
    assert page.input_value("#id_name") == "train"
    assert page.inner_text("[data-suggested]").strip() == "Suggested from train.py"
    assert "Starts" in answer(page) or "Waits" in answer(page)
    until(page, "document.getElementById('line-software').innerText.includes('with the packages of requirements.txt')")
    page.click("button[aria-label='Remove train.py']")
    until(page, "document.getElementById('id_command').value === 'python3 other.py'")
    page.fill("#id_command", "make all")
    assert page.locator("[data-suggested]").is_hidden()
    page.fill("#id_name", "mine")
    page.evaluate(DROP, [["run.sh", "1"], ["main.py", "1"]])
    until(page, "document.querySelectorAll('[data-filelist] li').length === 4")
    assert (page.input_value("#id_command"), page.input_value("#id_name")) == ("make all", "mine")


def test_a_name_with_odd_letters_is_quoted(page):
    page.evaluate(DROP, [["it's $HOME.py", "1"]])
    until(page, "document.getElementById('id_command').value !== ''")
    assert page.input_value("#id_command") == "python3 './it'\\''s $HOME.py'"


def test_the_answer_is_beside_the_form_and_an_alternative_is_used(page):
    page.fill("#id_command", "sleep 60")
    page.select_option("#id_gpu_types", index=1)
    unfold(page, "speed")
    page.fill("#id_expected_duration_s", "2 h")
    until(page, "document.getElementById('line-speed').innerText === 'always 1 GPU, about 2 h'")
    page.locator("[data-use]").first.wait_for()
    assert "over at about" in answer(page)
    words = page.locator("#dry-run li strong").first.inner_text()
    ends = page.locator("#dry-run .b-sub time, #dry-run li time").evaluate_all("each => each.map(one => one.dateTime)")
    assert ends[1] < ends[0], "an alternative is over sooner"
    page.locator("[data-use]").first.click()
    until(page, "!document.getElementById('line-speed').innerText.includes('about 2 h')")
    if " GPUs" in words:
        assert page.locator("input[type=radio][name=gpus]:checked").get_attribute("value") == words.split()[0]
    else:
        assert page.input_value("#id_gpu_types") == words.partition(" ")[2]


def test_one_press_expects_what_similar_jobs_took(page, berth):
    tenant = Tenant(berth)
    for _ in range(3):
        tenant.wait_state(tenant.submit(command="sleep 2", gpus=0, cores=1, category="other"), "COMPLETED")
    page.fill("#id_command", "sleep 2")
    page.locator("input[name=gpus][value='0']").check(force=True)
    unfold(page, "speed")
    page.select_option("#id_category", "other")
    expect = page.locator("[data-similar] [data-use]")
    expect.wait_for()
    assert re.search(r"jobs of .* category other (mostly )?took \d+\ss", page.inner_text("[data-similar]"))
    assert "no expected duration" in page.inner_text("#line-speed")
    middle = expect.inner_text().removeprefix("Expect ").replace("\xa0", " ")
    expect.click()
    until(page, "document.getElementById('line-speed').innerText.includes('about ')")
    assert page.input_value("#id_expected_duration_s") == middle
    assert page.locator("[data-similar]").count() == 0
    assert "over at about" in answer(page)
    with page.expect_navigation():
        page.click("[data-submit]:visible")
    job = tenant.job(page.url.rstrip("/").rpartition("/")[2])
    assert job["expected_duration_s"] == float(middle.removesuffix(" s"))


def test_a_refusal_opens_its_row_and_what_no_node_can_hold_cannot_be_submitted(page):
    page.fill("#id_command", "true")
    unfold(page, "limits")
    page.fill("#id_time_limit_s", "0 h")
    page.click("#limits-fields > summary")
    page.locator("#id_command").click()
    until(page, "document.getElementById('limits-fields').open")
    assert page.locator("#error_time_limit_s").is_visible()
    page.fill("#id_time_limit_s", "")
    page.fill("#id_memory_mib", "900 TiB")
    until(page, "document.querySelector('[data-submit]').disabled")
    assert answer(page).startswith("If you submit now\n\nCannot start")
    page.fill("#id_memory_mib", "")
    until(page, "!document.querySelector('[data-submit]').disabled")


def test_submit_is_at_most_the_thirtieth_stop(page):
    page.evaluate(DROP, [["train.py", "1"], ["requirements.txt", ""]])
    until(page, "document.querySelectorAll('[data-filelist] li').length === 2")
    page.focus(".b-skip")  # the page's first stop
    stops = [page.evaluate("document.activeElement.id")]
    while len(stops) < 30 and not page.evaluate("document.activeElement.matches('[data-submit]')"):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.id"))
    assert page.evaluate("document.activeElement.matches('[data-submit]')"), stops
    order = ["id_files", "id_folder", "id_command", "id_gpu_types", "id_name"]
    assert [each for each in stops if each in order] == order


def test_on_a_phone_the_answer_and_submit_stay_on_the_screen(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.fill("#id_command", "true")
    until(
        page,
        "document.getElementById('verdict-line').innerText.includes('Starts') || document.getElementById('verdict-line').innerText.includes('Waits')",
    )
    foot = "document.querySelector('.b-stuck').getBoundingClientRect()"
    unfold(page, "more")
    for place in ("0", "document.body.scrollHeight / 2"):
        page.evaluate(f"window.scrollTo(0, {place})")
        assert page.evaluate(f"Math.round({foot}.bottom)") == 844
    sent = []
    page.on("request", lambda request: request.url.endswith("/jobs/new") and sent.append(request.method))
    page.locator(".b-stuck [data-submit]").dblclick()
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    assert sent == ["POST"], "two presses submit one job"


def test_errors_lead_to_their_fields_and_go_when_mended(page):
    page.fill("#id_command", "true")
    unfold(page, "limits", "more")
    page.fill("#id_memory_mib", "much")
    page.fill("#id_time_limit_s", "0 h")
    page.fill("[id='id_array.size']", "none")
    with page.expect_navigation():
        page.keyboard.press("Control+Enter")
    until(page, "document.activeElement.id === 'form-errors'")
    assert "3 things to correct; nothing was submitted" in page.inner_text("#form-errors")
    assert page.locator("#more-fields").get_attribute("open") is not None
    page.click("#form-errors a[href='#id_array.size']")
    assert page.evaluate("document.activeElement.id") == "id_array.size"
    page.fill("[id='id_array.size']", "2")
    until(page, "document.getElementById('error_array.size').hidden")
    assert page.locator("[id='id_array.size']").get_attribute("aria-invalid") is None
    assert page.locator("#error_memory_mib").is_visible()
    assert page.inner_text("[data-problem-title]").startswith("2 things")
    page.fill("#id_memory_mib", "2 GiB")
    page.fill("#id_time_limit_s", "1 h")
    until(page, "document.getElementById('form-errors').hidden")
    page.fill("#id_priority", "high")  # a new one is told once its field was left
    page.locator("#id_priority").blur()
    until(page, "!document.getElementById('error_priority').hidden")
    page.fill("#id_priority", "0")
    until(page, "document.getElementById('error_priority').hidden")
    assert page.evaluate("document.activeElement.id") == "id_priority"


def test_files_are_chosen_dropped_kept_and_run(page, berth, tmp_path):
    (tmp_path / "main.py").write_text("print('sent along')\n")
    (tmp_path / "big").write_bytes(b"x" * 1_100_000)
    page.set_input_files("#id_files", str(tmp_path / "main.py"))
    until(page, "document.querySelectorAll('[data-filelist] li').length === 1")
    page.evaluate(DROP, [["a.txt", "dropped"], ["b.txt", "gone"]])
    until(page, "document.querySelectorAll('[data-filelist] li').length === 3")
    page.set_input_files("#id_files", str(tmp_path / "big"))
    until(page, "document.querySelectorAll('[data-filelist] li').length === 4")
    assert len(page.input_value("input[name=upload]")) == 64, "above 1 MiB it is uploaded"
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 201 * 2**20)
    page.set_input_files("#id_files", str(tmp_path / "huge"))
    until(page, "!document.getElementById('error_files').hidden")
    assert "200 MiB in all. None was added" in page.inner_text("#error_files")
    page.click("button[aria-label='Remove b.txt']")
    until(page, "document.getElementById('error_files').hidden")
    page.fill("#id_command", "python3 main.py; cat a.txt; wc -c < big")
    unfold(page, "limits")
    page.fill("#id_memory_mib", "much")
    page.click("[data-submit]:visible")
    until(page, "document.activeElement.id === 'form-errors'")
    assert names(page) == ["a.txt", "big", "main.py"]
    page.fill("#id_memory_mib", "")
    until(page, "document.querySelector('#request-text').textContent.includes('base64 < main.py')")
    page.click("[data-submit]:visible")
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    assert page.inner_text("h1") == "main"
    assert sorted(page.locator("main .b-filelink").all_text_contents()) == ["a.txt", "big", "main.py"]
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('sent along')")
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('1100000')")
    number = re.search(r"/jobs/(\d+)/", page.url)[1]
    Tenant(berth).wait_state(number, "COMPLETED")
    page.click("text=Edit and relaunch")
    page.wait_for_url(re.compile("/jobs/new"))
    assert names(page) == ["a.txt", "big", "main.py"]


def test_story_3_dropped_files_train_are_watched_and_the_checkpoint_is_downloaded(page, berth, tmp_path):
    """train.py and requirements.txt dropped on the form; log and curve watched while it runs; the checkpoint fetched."""
    page.evaluate(DROP, [["train.py", TRAIN], ["requirements.txt", "tinypack==1.0\n"]])
    until(page, "document.getElementById('id_software').value === 'requirements_file'")
    page.fill("#id_command", "python train.py")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('with tinypack 1.0')", limit_s=300)
    number = re.search(r"/jobs/(\d+)/", page.url)[1]
    until(page, "document.querySelector('#curves .b-plot canvas')")
    assert Tenant(berth).state(number) == "RUNNING", "the curve is there while it runs"
    Tenant(berth).wait_state(number, "COMPLETED")
    page.click("#artefacts >> text=last.pt")
    with page.expect_download() as download:
        page.click("#shown >> text=Download")
    download.value.save_as(tmp_path / "last.pt")
    assert (tmp_path / "last.pt").read_bytes() == b"weights" * 1000
    page.click("#shown >> text=Continue from this")
    page.wait_for_url(re.compile("/jobs/new"))
    assert page.input_value("#id_inputs") == f"{number}:last.pt"
    assert page.input_value("#id_command") == "python train.py"
    page.fill("#id_command", "wc -c < last.pt")
    page.click("[data-submit]:visible")
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    assert f"#{number}'s last.pt" in page.inner_text("#lineage")
    until(page, "document.querySelector('[data-log-lines]')?.innerText.includes('7000')", limit_s=120)


def test_from_a_template_with_one_value_changed_and_relaunched(page, berth):
    page.click("#start-from > summary")
    page.click("#start-from a:has-text('Run some Python')")
    page.fill("#id_p_code", 'import os\nprint("it\'s", 6 * 7, "$(id)")')
    until(page, "document.querySelector('#same-command')?.textContent.includes('--template python')")
    page.fill("#id_p_minutes", "500")
    with page.expect_navigation():
        page.click("[data-submit]:visible")
    assert "must be between 1 and 120" in page.inner_text("#error_p_minutes")
    page.fill("#id_p_minutes", "5")
    with page.expect_navigation():
        page.click("[data-submit]:visible")
    first = page.url.rstrip("/").rpartition("/")[2]
    tenant = Tenant(berth)
    tenant.wait_state(first, "COMPLETED")
    assert "it's 42 $(id)\n" in tenant.log(first)
    page.goto(f"{berth.url}/jobs/{first}/")
    page.click("a:has-text('Change values and relaunch')")
    assert page.input_value("#id_p_minutes") == "5"
    page.fill("#id_p_code", "print('again')")
    with page.expect_navigation():
        page.click("[data-submit]:visible")
    second = page.url.rstrip("/").rpartition("/")[2]
    tenant.wait_state(second, "COMPLETED")
    assert tenant.wait_log(second, "again") == "again\n"


@pytest.fixture
def served(tmp_path):
    server = GitServer(tmp_path / "served")
    commit = repository(tmp_path / "served/aerial", train__py="print('from', 'the repository')\n")
    yield f"{server.url}/aerial", commit
    server.close()


def test_code_comes_from_a_repository_that_the_form_names(page, berth, served):
    """Decision 0092: the page tells the commit, and a job of a later change runs that one."""
    url, commit = served
    page.locator("label:has(input[name=code_from][value=git])").click()
    until(page, "document.getElementById('id_code.git').offsetParent !== null")
    page.fill("[id='id_code.git']", "http://lena:secret@example.org/x")
    page.fill("#id_command", "python3 train.py; echo at $BERTH_COMMIT")
    with page.expect_navigation():
        page.click("[data-submit]:visible")
    assert "password" in page.inner_text("[id='error_code.git']")
    page.fill("[id='id_code.git']", url)
    page.fill("[id='id_code.ref']", "main")
    page.click("[data-submit]:visible")
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    number = re.search(r"/jobs/(\d+)/", page.url)[1]
    until(page, f"document.querySelector('[data-log-lines]')?.innerText.includes('at {commit}')", limit_s=120)
    assert "from the repository" in page.inner_text("[data-log-lines]")
    Tenant(berth).wait_state(number, "COMPLETED")
    page.reload()
    assert commit[:7] in page.inner_text("main")
    assert page.locator("[data-figure-url]").count() == 0, "a second's job has no plots"
    page.click("text=Edit and relaunch")
    page.wait_for_url(re.compile("/jobs/new"))
    assert (page.input_value("[id='id_code.git']"), page.input_value("[id='id_code.ref']")) == (url, "main")


def told(calls, event, number):
    """What a webhook was told of this event of a job. The end of another test's job may be told to it, too."""
    every = [each for body in calls.bodies() for each in body["events"]]
    return [each for each in every if (each["event"], each["job"]["number"]) == (event, number)]


def test_story_14_a_line_and_the_end_are_told_and_the_limit_extended(page, berth):
    with http_server() as calls:
        page.goto(f"{berth.url}/account/")
        page.click("[data-fold=webhooks] > summary")
        form = page.locator("form:has(input[name=url])")
        form.locator("input[name=url]").fill(calls.url)
        for event in ("log", "ended"):
            form.locator(f"input[name=events][value={event}]").check()
        form.locator("button").click()
        page.locator("#hook-secret").wait_for()
        page.goto(f"{berth.url}/jobs/new")
        page.fill("#id_command", "echo step 1; echo half of it is done; sleep 3000")
        unfold(page, "limits", "more")
        page.fill("#id_time_limit_s", "1 h")
        page.fill("#id_log_matches", "half * done")
        page.click("[data-submit]:visible")
        page.wait_for_url(re.compile(r"/jobs/\d+/$"))
        number = re.search(r"/jobs/(\d+)/", page.url)[1]
        berth.wait(lambda: told(calls, "log", number), limit_s=120, what="the line to be told")
        [line] = told(calls, "log", number)
        assert line["detail"] == "a line has half * done: half of it is done"
        page.click("#more > summary")
        page.select_option("select[name=by]", index=0)
        page.locator("form:has(select[name=by]) button").click()
        until(page, "document.body?.innerText.includes('longer')")
        assert Tenant(berth).job(number)["time_limit_s"] > 3600
        page.on("dialog", lambda dialog: dialog.accept())
        page.locator(".b-head-end .b-hide-phone button:has-text('Cancel')").click()
        Tenant(berth).wait_state(number, "CANCELLED")
        berth.wait(lambda: told(calls, "ended", number), limit_s=120, what="the end to be told")
        assert [each["job"]["state"] for each in told(calls, "ended", number)] == ["CANCELLED"]
        page.goto(f"{berth.url}/account/")
        page.click(f"button[aria-label='Delete {calls.url}']")
        until(page, "document.body?.innerText.includes('The webhook is deleted')")


OLD_SCRIPT = """#!/bin/bash
#SBATCH --job-name=old-train
#SBATCH --gres=gpu:2 --cpus-per-gpu=1
#SBATCH --time=1:00:00
#SBATCH --mail-type=END
#SBATCH --licenses=matlab
echo "job $SLURM_JOB_ID with $SLURM_GPUS_ON_NODE GPUs"
"""


def test_story_11_a_script_of_an_old_cluster_says_what_became_of_each_line_and_runs(page, berth):
    page.click("[data-opens=from-script]")
    page.fill("#id_script", OLD_SCRIPT)
    with page.expect_navigation():
        page.click("button:has-text('Fill in the form')")
    told = [row.get_attribute("data-verdict") for row in page.locator("#imported tr[data-verdict]").all()]
    assert told == ["mapped", "mapped", "looser", "mapped", "ignored", "refused"]
    assert (page.input_value("#id_name"), page.input_value("#id_time_limit_s")) == ("old-train", "1 h")
    with page.expect_navigation():
        page.click("[data-submit]:visible")
    number, tenant = page.url.rstrip("/").rpartition("/")[2], Tenant(berth)
    tenant.wait_state(number, "COMPLETED")
    assert tenant.wait_log(number, "with 2 GPUs") == f"job {number} with 2 GPUs\n"


def test_story_17_a_quota_that_is_nearly_used_is_seen_before_it_hurts(page, berth):
    said = "vision-lab uses 9 of its 10 waiting jobs: a further one is refused soon."
    tenant = Tenant(berth)
    first = tenant.submit("sleep 3000")
    waiting = [tenant.submit("true", depends_on=[int(first)]) for _ in range(9)]
    quota = "from portal.people.tenants.models import Tenant; Tenant.objects.filter(name='vision-lab').update(queued_jobs_quota={})"
    page.reload()
    assert said not in page.inner_text("main")
    berth.command("manage", "shell", "-c", quota.format(10))
    try:
        page.reload()
        assert said in page.inner_text("main")
        page.goto(f"{berth.url}/?view=mine")
        assert "9 of its 10 waiting jobs" in page.inner_text("main").replace("\u00a0", " ")
    finally:
        berth.command("manage", "shell", "-c", quota.format(None))
        for number in (*waiting, first):
            tenant.act(number, "cancel")
