"""Idle time-outs in a whole Berth: measured by a real agent, counted by a real worker, over kills of both."""

import asyncio

import pytest

from tests.system.helpers.client import Tenant, rows
from tests.system.test_terminal import Terminal, cookie_of

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("shells")]
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


def test_what_nobody_uses_ends_and_what_somebody_types_in_or_works_runs_on(berth):
    """Its limit is low: a machine with much else to do gives a job little. Of three jobs one computes, one has a terminal in which somebody types, and one sleeps: that alone ends."""
    tenant = Tenant(berth)
    asked = {"idle_timeout_s": TIMEOUT_S, "gpus": 0, "cores": 1}
    sleeps, typed, works = (
        tenant.submit(command, **asked)
        for command in ("sleep 900", "sleep 900", "while :; do seq 1000000 > /dev/null; sleep 0.2; done")
    )
    for number in (sleeps, typed, works):
        tenant.wait_state(number, "RUNNING")
    cookie = cookie_of(berth, "viktor")

    async def session():
        async with Terminal(berth, cookie, typed) as terminal:
            for turn in range(400):
                await terminal.type(f"echo turn-{turn}\n")
                await terminal.until(f"turn-{turn}".encode())
                await asyncio.sleep(2)
                if turn == 5:
                    await asyncio.to_thread(berth.kill, "worker")
                state = await asyncio.to_thread(tenant.state, sleeps)
                if state != "RUNNING":
                    return state
        return None

    assert asyncio.run(asyncio.wait_for(session(), 580)) == "TIMEOUT"
    ended = tenant.job(sleeps)
    assert ended["end_detail"] == "nobody used it for 1 min, its idle time-out"
    assert (tenant.state(typed), tenant.state(works)) == ("RUNNING", "RUNNING")
    events = rows(berth, f"select kind from jobs_jobevent where job_id = {sleeps} order by id")
    kinds = [kind for (kind,) in events]
    assert kinds.index("idle") < kinds.index("stop-ordered")
    watched = dict(
        rows(berth, "select a.job_id, w.used_by from jobs_idlewatch w join jobs_attempt a on a.id = w.attempt_id")
    )
    assert watched[int(typed)] == "terminal"
    assert watched[int(works)] == "cores"
    tenant.act(typed, "keep")
    for number in (typed, works):
        tenant.act(number, "cancel")
