"""The examples do what they say: the loss falls, SIGTERM saves, the next run goes on, shares make the whole."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.workers.conftest import ROOT, wait_until

CHARLM = ROOT / "examples/charlm/train.py"


@pytest.fixture
def train(tmp_path):
    """Start a training in its own directory; ended with its processes whatever happens."""
    started = []

    def start(*flags, gpus):
        environment = {"PATH": os.environ["PATH"], "BERTH_GPUS": str(gpus), "BERTH_CHECKPOINT_DIR": str(tmp_path)}
        log = (tmp_path / f"log{len(started)}").open("w+")
        command = [sys.executable, str(CHARLM), *flags]
        process = subprocess.Popen(command, stdout=log, env=environment, cwd=tmp_path, start_new_session=True)
        started.append(process)
        return process, (tmp_path / f"log{started.index(process)}").read_text

    yield start
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_charlm_learns_saves_when_asked_and_resumes_with_another_size(train):
    process, log = train("--steps", "100000", gpus=1)
    wait_until(lambda: log().count("loss") >= 2, within_s=60)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    step = int(re.search(r"saved at step (\d+)", log())[1])
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", log())]
    assert losses[-1] < 4.2  # knowing nothing costs ln(128) = 4.85
    process, log = train("--steps", str(step + 30), gpus=2)
    assert process.wait(60) == 0
    assert log().startswith(f"2 processes, from step {step}\n")
    assert re.search(rf"step {step + 30} loss [\d.]+ \d+ chars/s", log())


def test_charlm_keeps_to_its_share_of_a_core(train):
    process, log = train("--steps", "100000", "--pace", "0.05", gpus=1)
    wait_until(lambda: log().count("loss") >= 1, within_s=60)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]

    def used_s():
        return sum(sum(each.cpu_times()[:2]) for each in family)

    began, before_s = time.monotonic(), used_s()
    wait_until(lambda: time.monotonic() - began > 4, within_s=60)
    assert 0 < used_s() - before_s < 0.2 * (time.monotonic() - began)  # two processes, each at 0.05


def test_wordcount_shares_every_file_once():
    files = []
    for index in range(40, 42):
        environment = {"BERTH_ARRAY_INDEX": str(index), "BERTH_ARRAY_SIZE": "400"}
        command = [sys.executable, str(ROOT / "examples/wordcount/count.py")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30)
        words, count = map(int, re.match(r"(\d+) words in (\d+) files", done.stdout).groups())
        assert words > count > 0
        files.append(count)
    assert abs(files[0] - files[1]) <= 1
