"""`./berth bridge slurm --history`: real parts but for `sacct`, whose records are generated."""

import json
import re
import subprocess
import sys
import time

import pytest

from portal.foundation.layout import SOURCE
from tests.system.helpers.accounting import month, record, sacct_put
from tests.system.helpers.client import Tenant, rows
from tests.system.helpers.slurm import slurm_started
from tests.system.slurm.bridges import nodes_of_pilots

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("bridge")]

SPENDS_ITS_BERTH = True  # by a partition that stays attached


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with slurm_started(tmp_path_factory.mktemp("slurm")) as started:
        yield started


@pytest.fixture
def history(berth, slurm, tmp_path):
    """Return a function that runs the command, with a `sacct` of these records before the real one, or without."""

    def run(records=None, *flags):
        token = re.search(r"berthjoin_\S+", berth.command("manage", "join_token").stdout)[0]
        environment = slurm.environment | {"PYTHONPATH": str(SOURCE)}
        if records is not None:
            environment["PATH"] = f"{sacct_put(tmp_path, records)}:{environment['PATH']}"
        words = [sys.executable, "-m", "workers.bridge", "slurm", "--join", berth.url, "--token", token]
        words += ["--partition", "berth", "--dir", str(tmp_path / "own"), "--history", "30", *flags]
        return subprocess.run(words, env=environment, cwd=SOURCE, capture_output=True, text=True, timeout=300)

    return run


def simulation(berth, number):
    (row,) = rows(berth, "select state, policies, figures, error from simulations_simulation where id = ?", number)
    return row


def test_the_past_is_simulated_and_nothing_runs_in_slurm(history, berth, slurm):
    began = time.monotonic()
    done = history(month(300, now=time.time(), days=3))
    assert done.returncode == 0, done.stderr
    read_s = time.monotonic() - began
    assert "sacct lists 300 jobs of 8 accounts and 60 users in 30 days." in done.stdout
    number = int(re.search(rf"{re.escape(berth.url)}/laboratory/(\d+)/\n", done.stdout)[1])
    assert re.search(r"^Open it as \S+\.$", done.stdout, re.MULTILINE)
    ended = ("COMPLETED", "FAILED", "CANCELLED")
    berth.wait(lambda: simulation(berth, number)[0] in ended, limit_s=300.0, what="the laboratory's answer")
    state, policies, figures, error = simulation(berth, number)
    assert (state, json.loads(policies)) == ("COMPLETED", ["berth", "fifo"]), error
    assert json.loads(figures)["berth"]["jobs_completed"] > 290
    print(f"read and sent in {read_s:.1f} s, answered within {time.monotonic() - began:.1f} s")
    assert slurm.run("squeue", "-h") == ""
    assert nodes_of_pilots(berth, Tenant(berth)) == []


def test_a_cluster_without_accounting_says_so_and_is_not_attached(history, tmp_path):
    done = history()
    assert done.returncode == 2
    assert "Slurm accounting storage is disabled" in done.stderr
    assert "Ask the admin for accounting: AccountingStorageType=" in done.stderr
    assert not (tmp_path / "own/private/bridge.json").exists()


def test_own_jobs_alone_are_a_warning_and_too_many_days_a_refusal(history, slurm):
    own = slurm.run("id", "-un")
    done = history([record(1, submit=time.time() - 7200, ran_s=600, user=own)])
    assert done.returncode == 0, done.stderr
    assert "sacct lists 1 jobs of 1 accounts and 1 users" in done.stdout
    assert "Warning: all of them are your own." in done.stdout
    done = history([], "--history", "400")
    assert "'400' is not a whole number of days from 1 to 366" in done.stderr
    assert done.returncode == 2


def test_what_the_laboratory_refuses_comes_with_a_remedy(history):
    done = history(month(21_000, now=time.time()))
    assert done.returncode == 2
    assert "more than 20000 jobs" in done.stderr
    assert "Fewer days are shorter: --history 7" in done.stderr
