"""A PyTorch training is recorded by hooks, and its processes agree on the moment to stop. With the real library."""

import json
import signal
import socket
import subprocess

import pytest

from tests.workers.instrument.torches import environment, needs, python_with
from workers.instrument.berth_instrument import PARTS, WARM_UP

pytestmark = needs("torch")

SCRIPT = """
import os, sys, time, torch
from berth_torch import instrument
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
recorder = instrument(model, optimizer, batch_per_gpu=4, total=400, done=40)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)      # takes optimizer.step apart
inputs = torch.ones(4, 8)
for step in range(12):
    time.sleep(0.01)
    with torch.no_grad():
        model(inputs)                                          # an evaluation is no iteration
    loss = model(inputs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step == 7:
        recorder.saved()
assert scheduler.get_last_lr() == [0.1 * 0.1 ** 2], scheduler.get_last_lr()
"""


def lines(directory):
    return [json.loads(line) for path in directory.iterdir() for line in path.read_text().splitlines()]


def test_the_parts_of_an_iteration_are_told_apart_by_hooks(tmp_path):
    script = [python_with("torch"), "-c", SCRIPT]
    subprocess.run(script, check=True, env=environment(tmp_path, BERTH_PROFILE="1"), timeout=120)
    records = lines(tmp_path)
    assert sum(each["iterations"] for each in records) == 12 - WARM_UP
    assert records[-1]["done"] == 40 + 12 * 4
    assert (records[0]["saved"], records[-1]["saved"]) == (40 + 8 * 4, 40 + 8 * 4)
    assert records[0]["parameters"] == 8 * 8 + 8 + 8 + 1
    for record in records:
        for row in record["rows"]:
            parts = dict(zip(PARTS, row, strict=False))
            assert parts["data"] >= 0.01
            assert all(parts[each] > 0 for each in ("forward", "backward", "update"))
            assert sum(row[: len(PARTS)][n] or 0 for n in range(len(PARTS))) == pytest.approx(
                row[-1], rel=0.2, abs=0.01
            )


TOGETHER = """
import os, sys, torch
from torch import distributed
from berth_torch import instrument
distributed.init_process_group("gloo")
rank = distributed.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
recorder = instrument(model, optimizer, batch_per_gpu=1)
recorder.should_stop()
print("ready", flush=True)
step = 0
while not recorder.should_stop():
    model(torch.ones(1, 4)).mean().backward()
    optimizer.step()
    step += 1
recorder.saved()
print(rank, step, flush=True)
"""


def test_all_processes_stop_after_the_same_step_though_one_of_them_was_asked(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "BERTH_GPUS_TOTAL": "2"}
    processes = [
        subprocess.Popen(
            [python_with("torch"), "-c", TOGETHER],
            env=environment(tmp_path, **more, RANK=str(rank), LOCAL_RANK=str(rank)),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        for each in processes:
            assert each.stdout.readline() == "ready\n"
        processes[1].send_signal(signal.SIGTERM)
        said = [each.communicate(timeout=120)[0].split() for each in processes]
    finally:
        for each in processes:
            each.kill()
    assert [each.returncode for each in processes] == [0, 0]
    assert [rank for rank, _ in said] == ["0", "1"]
    assert said[0][1] == said[1][1]
    assert lines(tmp_path)[-1]["saved"] == int(said[0][1]) * 2
