"""`./berth lab` on a whole Berth: ordered on the command line, computed by the laboratory's own worker."""

import json
import os
import subprocess
import sys

import pytest

from portal.launch.layout import SOURCE

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def berth(berth_up):
    return berth_up(demo=True, workload=False)


def lab(berth, *arguments):
    environment = {"BERTH_URL": berth.url, "BERTH_TOKEN": berth.tokens["vision-lab"], "PATH": os.environ["PATH"]}
    argv = [sys.executable, SOURCE / "berth", "lab", *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=240, check=False)


def test_it_is_waited_for_and_told(berth):
    drawn = ("--generator", "hops-64", "--jobs", "3", "--policy", "fifo,drf", "--wait", "--json")
    first, second = (lab(berth, "run", "what if", *drawn, "--cluster", "own") for _ in range(2))
    assert first.returncode == 0, first
    found = [json.loads(each.stdout) for each in (first, second)]
    assert [each["state"] for each in found] == ["COMPLETED", "COMPLETED"]
    assert [each["progress"] for each in found] == [{"fifo": 1.0, "drf": 1.0}] * 2
    for policy in ("fifo", "drf"):
        timeless = [{k: v for k, v in each["figures"][policy].items() if not k.startswith("solve_")} for each in found]
        assert timeless[0] == timeless[1]
