"""The clock of the portal's machine is set while jobs run: by less than a minute, for the nodes' own clocks stay as they are."""

import time

import pytest

from tests.native.clock import Clock
from tests.system.helpers.client import Tenant

pytestmark = [pytest.mark.system, pytest.mark.slow]

AHEAD_S = 50.0
"""A node whose clock differs by a minute is drained."""


@pytest.fixture(scope="module")
def clock(tmp_path_factory):
    return Clock(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def berth(berth_up, clock):
    return berth_up(environment=clock.environment)


def noticed(berth, by):
    log = berth.layout.logs / "worker.log"
    berth.wait(lambda: f"clock was set by {by} s" in log.read_text(), what="the step's notice")


def test_forward_nobody_is_lost_and_back_plannings_go_on(berth, clock):
    tenant = Tenant(berth)
    runs = tenant.submit("exec sleep 3000", restartable=True)
    tenant.wait_state(runs, "RUNNING")
    began = tenant.job(runs)["started_at"]
    clock.set(AHEAD_S)
    ahead = tenant.submit("true")
    assert tenant.wait_state(ahead, "COMPLETED")["submitted_at"] > began
    noticed(berth, "+50")
    clock.set(0.0)
    there_again_s = time.monotonic() + AHEAD_S
    back = tenant.submit("true")
    assert tenant.job(back)["submitted_at"] < tenant.job(ahead)["submitted_at"]
    tenant.wait_state(back, "COMPLETED")
    noticed(berth, "-50")
    assert time.monotonic() < there_again_s, "plannings and repairs waited until the clock had come there again"
    job = tenant.job(runs)
    assert (job["state"], job["started_at"], job["requeues"]) == ("RUNNING", began, 0)
    berth.wait_healthy()


def test_more_than_a_year_ahead_nothing_is_deleted(berth, clock):
    """All that Berth keeps for a time is past it at once, and each task that is due once an hour is due."""
    tenant = Tenant(berth)
    number = tenant.submit('echo kept > "$BERTH_ARTEFACTS/model"')
    tenant.wait_state(number, "COMPLETED")

    def kept():
        found = berth.request(f"/api/v1/jobs/{number}/artefacts", token=tenant.token)[1]
        return [each["path"] for each in found["results"] if each["state"] == "kept"]

    def told():
        return [each for each in berth.request("/healthz", limit_s=8)[1]["problems"] if each.startswith("clock: ")]

    berth.wait(lambda: kept() == ["model"], what="the artefact")
    clock.set(400 * 86400.0)
    log = berth.layout.logs / "worker.log"
    berth.wait(lambda: "artefacts.expire waits until" in log.read_text(), what="the task that removes artefacts")
    (said,) = berth.wait(told, what="the sentence to operators")
    assert said.startswith("clock: it went ahead by 400 days")
    clock.set(0.0)
    berth.wait(lambda: not told(), what="the end of it")
    assert kept() == ["model"]
    berth.wait_healthy()
