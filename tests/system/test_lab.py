"""`./berth lab` on a whole Berth: ordered on the command line, computed by the laboratory's own worker."""

import json
import os
import subprocess
import sys
import time

import pytest

from portal.foundation.layout import SOURCE
from tests.system.helpers.client import MACHINE_SLACK

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("shells")]


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


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


def test_a_trace_larger_than_any_json_body_is_taken(berth, tmp_path):
    path = tmp_path / "long.csv"
    rows = (f"{n},vision,1,60,{'x' * 200}" for n in range(15_000))
    path.write_text("\n".join(["submitted_s,tenant,gpus,duration_s,name", *rows, ""]))
    assert path.stat().st_size > 3 * 2**20
    done = lab(berth, "upload", path, "--format", "berth-csv", "--json")
    assert done.returncode == 0, done
    kept = json.loads(done.stdout)
    assert (kept["jobs"], kept["size_bytes"], kept["name"]) == (15_000, path.stat().st_size, "long.csv")


def test_one_that_runs_is_cancelled_within_seconds(berth):
    large = ("--generator", "hops-512", "--jobs", "2000", "--cluster", "own", "--policy", "berth", "--json")
    number = str(json.loads(lab(berth, "run", "a long one", *large).stdout)["id"])
    token = berth.tokens["vision-lab"]
    state = lambda: berth.request(f"/api/v1/simulations/{number}", token=token)[1]["state"]  # noqa: E731 - reads best in place
    berth.wait(lambda: state() == "RUNNING", what="its turn")
    assert json.loads(lab(berth, "show", number, "--json").stdout)["state"] == "RUNNING"
    began_s = time.monotonic()
    assert lab(berth, "cancel", number).stdout == "it stops within seconds\n"
    done = lab(berth, "wait", number, "--json")
    assert (done.returncode, json.loads(done.stdout)["state"]) == (1, "CANCELLED"), done
    assert time.monotonic() - began_s < 20 * MACHINE_SLACK
