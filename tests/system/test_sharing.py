"""The demo's jobs that share a GPU, from the form to the pages: two tenants, one virtual GPU with a known law, in a browser."""

import re

import pytest

from portal.launch import broker
from portal.launch.demo.workload import asker, server, small_training
from tests.system.helpers.client import Tenant, operator_settings, rows
from tests.system.helpers.watching import Watch, until

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("looks")]

LONG_S = 120.0
PER_SECOND = 20
"""More queries than it answers: it is never idle, on a slow machine as on a fast one."""
SERVER_WANTS = 0.9
FLOOR = 1 / (2 + 0.05 * SERVER_WANTS)
"""The law, for a training that alone keeps its GPU busy: half of the turns are its neighbour's, and each change costs something."""
SEEN = 1.25
"""A busy machine adds to the times alone as to those beside the server: so much is seen all the same."""
TRAINING, SERVER = "moon-chart", "tide-oracle"
GRANTED = "It gets 50 % of the compute and 4 GiB of"
UNFOLD = "(document.querySelectorAll('#folded details').forEach((row) => { row.open = true; }), document.querySelector('main'))"
ALONE = """
select coalesce(max(c.count), 0) from estimation_throughputcell c join estimation_signature s on s.id = c.signature_id
where s.name like '%:moon-net'
"""
PAIR = "select count(*) from estimation_pairspeed where count >= 5 and mean < ?"
TRAIN = """import os, sys, time
sys.path.append(os.environ["BERTH_INSTRUMENT_PATH"])
from berth_instrument import Recorder
STEP_S, pace = 0.01, float(os.environ["BERTH_VIRTUAL_PACE"])
recorder, told, due = Recorder(batch_per_gpu=64), None, time.monotonic()
while not recorder.should_stop():
    try:
        speed = float(open(os.environ["BERTH_VIRTUAL_SPEED_FILE"]).read())
    except (OSError, ValueError):
        speed = 1.0
    if speed != told:
        told = speed
        print(f"speed {speed:.3f}", flush=True)
    end = time.thread_time() + STEP_S
    while time.thread_time() < end:
        pass
    due += STEP_S / (pace * speed)
    time.sleep(max(0.0, due - time.monotonic()))
    recorder.step()
"""
"""It computes a little, and rests for what a virtual GPU would take longer, as the demo's trainings do; but what a step was late
by the next makes good, so that its speed alone is the law's on a busy machine too.
"""


@pytest.fixture(scope="module")
def berth(berth_shared):
    """Of 16 A100 one may be shared, of 8 others none: who shares is on that one."""
    before = operator_settings(berth_shared, shared_gpus="0.0625", tune_cores="off")
    yield berth_shared
    operator_settings(berth_shared, **before)


@pytest.fixture(scope="module")
def readers(readers_shared):
    return readers_shared


@pytest.fixture
def page_of(readers, berth):
    """A function: a page of this person."""
    watch = Watch(berth.url, expected=["htmx:sendAbort", "htmx:afterRequest"])  # a page that is left asks no more
    pages = []

    def start(name, path):
        page = readers.page(name, watch)
        pages.append(page)
        page.goto(f"{berth.url}{path}")
        return page

    yield start
    for page in pages:
        page.close()
    watch.check()


def training_submit(page, directory):
    """Fill the form with a training that shares a GPU, as the demo's small ones do. Returns the job's number."""
    asks = small_training("cv", 900)
    (directory / "train.py").write_text(TRAIN)
    page.set_input_files("#id_files", str(directory / "train.py"))
    until(page, "document.querySelectorAll('[data-filelist] li').length === 1")
    page.fill("#id_name", TRAINING)
    page.fill("#id_command", "$BERTH_PYTHON train.py")
    page.click("#speed-fields > summary")
    page.fill("#id_model", "moon-net")
    page.check("#id_instrumented")
    page.click("#more-fields > summary")
    page.check("#id_shareable")
    page.fill("#id_gpu_compute", f"{100 * asks['gpu_compute']:g} %")
    page.fill("#id_gpu_memory_mib", f"{asks['gpu_memory_mib'] // 1024} GiB")
    page.fill("#id_environment", "VIRTUAL_GPU=1,2500")
    page.click("[data-submit]:visible")
    page.wait_for_url(re.compile(r"/jobs/\d+/$"))
    return re.search(r"/jobs/(\d+)/", page.url)[1]


def server_submit(tenant):
    """Submit the demo's server, which wants much of its GPU, and who asks it. Returns both jobs' numbers."""
    port = broker.free_port()
    serves = {**server(port), "name": SERVER, "environment": {"VIRTUAL_GPU": f"{SERVER_WANTS},4000"}}
    command = f"$BERTH_PYTHON ask.py --port {port} --per-second {PER_SECOND} --seconds 900"
    return tenant.submit(**serves), tenant.submit(**{**asker(port), "command": command})


def shown(page, text):
    """Wait until the page's own part, its folded rows opened, has this text; return all of it."""
    until(page, f"{UNFOLD}.innerText.includes({text!r})", limit_s=LONG_S)
    return page.inner_text("main")


def test_two_tenants_share_a_gpu_and_each_sees_its_own_job_the_slowdown_and_the_decision(page_of, berth, tmp_path):
    """A training runs alone, then a server of another tenant comes beside it and answers a third job's queries over HTTP."""
    vision, nlp = Tenant(berth), Tenant(berth, "nlp-startup")
    mine = page_of("viktor", "/jobs/new")
    training = training_submit(mine, tmp_path)
    assert re.search(rf"{GRANTED} GPU 7 on a100-02: nobody else is on it", shown(mine, "nobody else is on it"))
    assert re.search(r"Shares a100-02 GPU 7\s+with nobody now", shown(mine, "with nobody now"))
    berth.wait(lambda: rows(berth, ALONE)[0][0] >= 3, limit_s=LONG_S, what="records of its speed alone")

    oracle, queries = server_submit(nlp)
    nlp.wait_state(oracle, "RUNNING", limit_s=LONG_S)
    text = shown(mine, "with a job of another tenant")
    assert [word for word in (SERVER, "nadia", "nlp-startup", f"#{oracle}", "char-server") if word in text] == []
    theirs = page_of("nadia", f"/jobs/{oracle}/")
    text = shown(theirs, "GPU 7 on a100-02, beside a job of another tenant: what it asks for is left there.")
    assert re.search(r"Shares a100-02 GPU 7\s+with a job of another tenant it has 30 % and 6 GiB", text)
    assert [word for word in (TRAINING, "viktor", "vision-lab", f"#{training}", "moon-net") if word in text] == []
    assert berth.request(f"/api/v1/jobs/{training}", token=nlp.token)[0] == 404

    berth.wait(lambda: rows(berth, PAIR, 1 / SEEN)[0][0], limit_s=LONG_S, what="a slowdown that was measured")
    board = page_of("operator", "/sharing/")
    text = shown(board, "worst slowdown")
    for words in ("a100-02 / 7", "2 jobs", TRAINING, "50 %, 4.0 GiB", SERVER, "30 %, 6.0 GiB", "20 % free"):
        assert words in text
    told = re.search(r"vision-lab / moon-net\s+([\d.]+)", text)
    assert told, text
    assert 1.1 < float(told[1]) <= 1.1 / FLOOR, "its times beside the server over those alone"
    speeds = [float(each) for each in re.findall(r"speed ([\d.]+)", vision.log(training))]
    assert FLOOR - 0.001 <= min(speeds) < 0.8, "the law"

    assert re.search(r"Queries\s+[1-9]", shown(theirs, "beside it is a job of another tenant"))
    for tenant, number in ((vision, training), (nlp, oracle), (nlp, queries)):
        tenant.act(number, "cancel")
