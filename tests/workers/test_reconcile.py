"""What follows from what is wanted and what is here: input and output."""

from __future__ import annotations

import pytest

from workers.journal import Part
from workers.reconcile import decide


def wanted(attempt=1, epoch=1, *, action="run", go=True, started=False):
    return {
        "attempt": str(attempt), "job": 1, "epoch": epoch, "rank": 0, "action": action, "started": started, "go": go,
        "stop_reason": None, "grace_s": 1, "lease_s": None,
    }  # fmt: skip


def here(phase, attempt=1, epoch=1):
    part = Part(attempt=str(attempt), epoch=epoch, rank=0, job=1, boot_id="b", phase=phase)
    return {part.key: part}


@pytest.mark.parametrize(
    ("list_", "parts", "actions"),
    [
        pytest.param([], {}, [], id="nothing"),
        pytest.param([wanted(started=True)], {}, [], id="began under a lost journal: not begun twice"),
        pytest.param([wanted(started=True, action="stop")], {}, [], id="began under a lost journal: not answered for"),
        pytest.param([wanted()], here("running"), [], id="runs as wanted"),
        pytest.param([wanted()], here("starting"), [], id="its start is under way"),
        pytest.param([wanted()], here("ended"), [], id="has ended, and the portal will hear"),
        pytest.param([wanted(go=False)], here("prepared"), [], id="waits for its partners"),
        pytest.param([wanted(action="stop")], here("ended"), [], id="stopped already"),
        pytest.param([], here("closed"), [], id="over and done"),
        pytest.param([wanted()], {}, ["prepare 1-1-0"], id="new"),
        pytest.param([wanted()], here("claimed"), ["prepare 1-1-0"], id="killed while preparing"),
        pytest.param([wanted()], here("prepared"), ["start 1-1-0"], id="go"),
        pytest.param([wanted(action="stop")], here("running"), ["stop 1-1-0"], id="stop"),
        pytest.param([wanted(action="stop")], {}, ["answer 1-1-0"], id="stop of what never came"),
        pytest.param([], here("running"), ["drop 1-1-0"], id="in no list"),
        pytest.param([wanted(epoch=1)], here("running", epoch=2), ["drop 1-2-0"], id="a stale epoch is not begun"),
        pytest.param([wanted(epoch=1)], here("closed", epoch=2), [], id="nor after a newer one ended"),
        pytest.param(
            [wanted(epoch=2), wanted(2)],
            here("running"),
            ["drop 1-1-0", "prepare 1-2-0", "prepare 2-1-0"],
            id="ends first",
        ),
    ],
)
def test_decide(list_, parts, actions):
    assert [f"{a.kind} {a.key}" for a in decide(list_, parts)] == actions
