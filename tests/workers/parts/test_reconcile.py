"""What follows from what is wanted and what is here: input and output."""

from __future__ import annotations

import pytest

from workers.parts.part import Part
from workers.parts.reconcile import decide, forgotten


def wanted(attempt=1, epoch=1, *, action="run", go=True, started=False, state="wanted", job=1):
    return {
        "attempt": str(attempt),
        "job": job,
        "job_key": str(job),
        "epoch": epoch,
        "rank": 0,
        "action": action,
        "started": started,
        "go": go,
        "state": state,
        "stop_reason": None,
        "grace_s": 1,
        "lease_s": None,
    }


def here(phase, attempt=1, epoch=1):
    part = Part(attempt=str(attempt), epoch=epoch, rank=0, job=1, job_key="1", boot_id="b", phase=phase)
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


@pytest.mark.parametrize(
    ("list_", "parts", "actions"),
    [
        pytest.param([wanted()], here("running"), ["retell 1-1-0"], id="runs, and the portal never heard"),
        pytest.param([wanted(state="prepared")], here("running"), ["retell 1-1-0"], id="the same of several nodes"),
        pytest.param([wanted(state="running")], here("running"), [], id="both know that it runs"),
        pytest.param([wanted(state="running")], here("closed"), ["retell 1-1-0"], id="ended, and the portal forgot"),
        pytest.param([wanted()], here("ended"), ["retell 1-1-0"], id="ended before the portal knew that it began"),
        pytest.param([wanted(action="stop")], here("closed"), ["retell 1-1-0"], id="a stop of what has ended"),
        pytest.param([wanted(go=False)], here("prepared"), ["retell 1-1-0"], id="prepared, and the portal never heard"),
        pytest.param([wanted(go=False, state="prepared")], here("prepared"), [], id="both know that it is prepared"),
        pytest.param([wanted(go=True)], here("prepared"), ["start 1-1-0"], id="nothing to tell: it starts"),
        pytest.param([wanted(job=2)], here("closed"), ["disown 1-1-0"], id="another job's name"),
        pytest.param(
            [wanted(job=2)], here("running"), ["drop 1-1-0", "disown 1-1-0"], id="another job under that name"
        ),
    ],
)
def test_a_portal_that_has_forgotten_what_it_was_told(list_, parts, actions):
    """It was restored from a backup: each list that it was asked for after it had been told shows what it knows."""
    assert [f"{a.kind} {a.key}" for a in decide(list_, parts, retell=forgotten(list_, parts))] == actions


@pytest.mark.parametrize("phase", ["prepared", "running", "ended", "closed"])
def test_what_is_still_to_be_told_is_not_forgotten(phase):
    (part,) = here(phase).values()
    assert forgotten([wanted(go=False)], {part.key: part}) == {part.key}
    part.reports = [{"sequence": 1}]
    assert forgotten([wanted(go=False)], {part.key: part}) == set()
