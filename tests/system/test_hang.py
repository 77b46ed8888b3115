"""What hangs instead of dying: each process of Berth is stopped (SIGSTOP) while jobs run.

A stopped process still exists, so its exit tells nobody anything. Its signs of life end; the supervisor kills it and
starts it again. The jobs that run meanwhile are the same processes afterwards.
"""

import os
import signal
import time
import uuid

import psutil
import pytest

from portal.foundation.layout import read_json
from tests.system.helpers.client import Tenant
from tests.system.helpers.ledger import Ledger, alive

pytestmark = [pytest.mark.system, pytest.mark.slow]

HANG_LIMIT_S = 12
WITHIN_S = 60
BUSY_MACHINE = 3.0
"""The minute is for an idle machine of two cores; a test machine may be busy with more than this test."""


@pytest.fixture(scope="module")
def berth(berth_up):
    return berth_up(demo=True, environment={"BERTH_HANG_LIMIT_S": str(HANG_LIMIT_S), "BERTH_LEASE_S": "600"})


@pytest.fixture(scope="module")
def ledger(berth, tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"), Tenant(berth))


@pytest.fixture(scope="module")
def anchors(berth, ledger):
    """{number: pid} of jobs that run through all that is done here, on each node."""
    finish = ledger.directory / "finish"
    numbers = [ledger.submit(3000, "--until", finish, gpus=4, **kind) for kind in ({}, {"restartable": True})]
    berth.wait(lambda: len(ledger.running()) == len(numbers), limit_s=120, what="the anchors")
    yield {int(entry["job"]): pid for pid, entry in ledger.running().items()}
    finish.touch()


def all_well_again(berth, ledger, what):
    """A job submitted now runs, /healthz is content, and no process is left stopped."""
    limit_s = WITHIN_S * BUSY_MACHINE
    began = time.monotonic()
    key = uuid.uuid4().hex
    number = berth.wait(
        lambda: ledger.submit(0.2, key=key, name="after", gpus=0, cores=1), limit_s=limit_s, what="a submission"
    )
    berth.wait(lambda: ledger.entries("done", number), limit_s=limit_s, what=f"a job's end after {what} hung")
    berth.wait_healthy(limit_s)
    print(f"well again after a stopped {what}: {time.monotonic() - began:.1f} s")


def the_jobs_are_unharmed(ledger, anchors):
    assert ledger.violations() == []
    assert all(alive(pid) for pid in anchors.values())
    assert {number: ledger.tenant.job(number)["epoch"] for number in anchors} == dict.fromkeys(anchors, 1)


def pids_of(berth, names):
    """As `./berth status` tells them; to start that takes a second, and they are asked for again and again."""
    children = read_json(berth.layout.state)["children"]
    return [children[name]["pid"] for name in names]


def notices(berth):
    return (berth.layout.logs / "supervisor.log").read_text()


@pytest.mark.parametrize("names", [["portal"], ["worker"], ["redis"], ["laboratory", "beat", "a100-01"]], ids="-".join)
def test_a_stopped_process_is_killed_and_started_again(berth, ledger, anchors, names):
    """The last three at one time: each is watched by itself, and none of them needs the others."""
    pids = pids_of(berth, names)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        limit_s = (WITHIN_S + HANG_LIMIT_S) * BUSY_MACHINE
        berth.wait(lambda: not any(map(alive, pids)), limit_s=limit_s, what=f"the end of the stopped {names}")
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGCONT)
    berth.wait(lambda: all(pids_of(berth, names)), limit_s=60, what=f"new {names}")
    all_well_again(berth, ledger, names)
    the_jobs_are_unharmed(ledger, anchors)
    said, told = notices(berth), berth.status()["processes"]
    for name in names:
        assert f"{name} gave no sign of life" in said
        assert told[name]["hangs"] == 1


def test_a_stopped_process_of_the_workers_pool_is_replaced(berth, ledger, anchors):
    """Celery hands a stopped pool process half of the tasks, and waits for it for ever."""
    (worker,) = pids_of(berth, ["worker"])
    victim = psutil.Process(worker).children()[0].pid
    os.kill(victim, signal.SIGSTOP)
    try:
        limit_s = (WITHIN_S + HANG_LIMIT_S) * BUSY_MACHINE
        berth.wait(lambda: not alive(victim), limit_s=limit_s, what="the end of the stopped pool process")
    finally:
        if alive(victim):
            os.kill(victim, signal.SIGCONT)
    all_well_again(berth, ledger, "pool process")
    the_jobs_are_unharmed(ledger, anchors)


def test_nothing_that_lives_was_killed(berth, anchors):
    """The six above and no other: a limit that busy processes break would be worse than none."""
    hangs = {name: each["hangs"] for name, each in berth.status()["processes"].items() if each["hangs"]}
    assert set(hangs) <= {"portal", "worker", "laboratory", "beat", "redis", "a100-01"}
