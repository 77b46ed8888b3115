"""`./berth bench agent`: values out of range are refused before a Berth is started; what /proc tells is read as it stands."""

import os
import subprocess
import sys
import time

import pytest
from django.core.management import CommandError, call_command

from research.bench import agent
from research.bench.errors import BenchError


@pytest.mark.parametrize(
    ("option", "value"), [("seconds", "0"), ("seconds", "nan"), ("gpus", "0"), ("jobs", "7"), ("print-every", "-1")]
)
def test_a_value_out_of_range_is_refused_by_its_name(option, value):
    with pytest.raises(CommandError, match=f"--{option} ") as refused:
        call_command("bench", "agent", f"--{option}={value}")
    assert refused.value.returncode == 2


def test_a_shim_is_known_by_its_file_and_its_node_s_directory(tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"
    code = "import time; time.sleep(60)"
    argv = [sys.executable, "-c", code, "workers/shim.py"]
    started = [subprocess.Popen([*argv, str(each / "control")]) for each in (own, other)]
    try:
        until = time.monotonic() + 20
        while agent.shims_of(own) != [started[0].pid]:
            assert time.monotonic() < until, agent.shims_of(own)
            time.sleep(0.05)
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_processor_time_and_memory_are_the_kernel_s():
    before = agent.cpu_s(os.getpid())
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    assert agent.cpu_s(os.getpid()) - before == pytest.approx(0.1, abs=0.06)
    now, most = agent.memory_mib(os.getpid())
    assert 1 < now <= most + 0.1


def test_without_shims_there_is_nothing_to_measure():
    with pytest.raises(BenchError, match="shims were not found"):
        agent.measured(os.getpid(), [], 0.1)
