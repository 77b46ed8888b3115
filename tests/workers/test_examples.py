"""The examples do what they say: the loss falls, SIGTERM saves, the next run goes on, shares make the whole."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import chain

import numpy as np
import psutil
import pytest

from tests.unbroken import unbroken
from tests.workers.conftest import ROOT, wait_until

CHARLM = ROOT / "examples/charlm/train.py"


@pytest.fixture
def train(tmp_path):
    """Start a training in its own directory; ended with its processes whatever happens."""
    started, kept = [], tmp_path / "artefacts"
    kept.mkdir()

    def start(*flags, gpus):
        environment = {"PATH": os.environ["PATH"], "BERTH_GPUS": str(gpus), "BERTH_CHECKPOINT_DIR": str(tmp_path)}
        environment |= {"BERTH_ARTEFACTS": str(kept), "BERTH_EPOCHS_BEFORE": str(len(started))}
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


def test_charlm_broken_off_and_resumed_with_other_sizes_gives_the_model_of_an_unbroken_run(train, tmp_path):
    """1, then 4, then 2 processes: no step is lost or made twice, and losses and model are those of one run."""
    runs, logs = [], []
    for gpus in (1, 4):
        # Slowly: over thousands of steps a difference in the last digit grows to one that is seen.
        process, log = train("--steps", "100000", "--batch", "8", "--pace", "0.05", gpus=gpus)
        wait_until(lambda log=log: log().count("loss") >= 2, within_s=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        runs.append((gpus, 0.5, int(re.search(r"saved at step (\d+)", log())[1])))
        logs.append(log())
    last = runs[-1][2] + 30
    process, log = train("--steps", str(last), "--batch", "8", "--rate", "0.3", gpus=2)
    assert process.wait(60) == 0
    losses, model = unbroken([*runs, (2, 0.3, last)], batch=8)
    told = [(int(step), float(loss)) for step, loss in re.findall(r"step (\d+) loss ([\d.]+)", "".join([*logs, log()]))]
    assert told[-1][0] == last
    assert told == [(step, pytest.approx(losses[step], abs=0.002)) for step, _ in told]
    starts = [int(each) for each in re.findall(r"from step (\d+)", "".join([*logs, log()]))]
    assert starts == [0, *(until for _, _, until in runs)]
    assert losses[last] < 4.2  # knowing nothing costs ln(128) = 4.85
    lines = [(tmp_path / f"artefacts/metrics-{number}.jsonl").read_text().splitlines() for number in range(3)]
    assert [(each["step"], round(each["loss"], 3)) for each in map(json.loads, chain(*lines))] == [
        (step, pytest.approx(loss, abs=0.0011)) for step, loss in told
    ]
    with np.load(tmp_path / "artefacts/charlm.npz") as saved:
        for name, each in model.items():
            np.testing.assert_allclose(saved[name], each, atol=1e-5)


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
