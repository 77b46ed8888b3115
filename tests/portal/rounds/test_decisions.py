"""A planning's decisions in columns (section 8 of the portal's storage): what goes in comes out, in little room."""

import time

import numpy as np
import pytest

from portal.rounds.decisions import decisions_pack, decisions_read
from portal.rounds.models import Planning
from scheduler.model import (
    Decision,
    Piece,
    Placement,
    Reason,
    Result,
    ShareView,
    Side,
    Standing,
    WindowView,
)


class Made:
    """As much of a plan as is packed."""

    def __init__(self, decisions, windows=(), shares=()):
        self.decisions, self.windows, self.shares, self.reservations = tuple(decisions), windows, shares, ()
        self.blocking = ()


def waiting(job, rank, *, array="gpu-small", side=Side.OUTSIDE, turn=None, reason=Reason.OUTSIDE_WINDOW, **more):
    values = {"latency_ratio": 1.5, "age_s": 600.0, "age_source": "declared", "eligible": True, "figures": {}}
    standing = Standing(array, side, turn) if rank else None
    return Decision(job=job, result=Result.WAITING, reason=reason, rank=rank, standing=standing, **(values | more))


def placed(job, rank, node=7):
    placement = Placement(job, (Piece(node, (0, 2), (4, 5, 6), 1024),))
    standing = Standing("gpu-large", Side.FRONT, 1)
    return Decision(job, Result.PLACED, None, {}, rank=rank, placement=placement, standing=standing)


def read(*decisions, **more):
    return decisions_read(Planning(decisions=decisions_pack(Made(decisions, **more))))


def test_every_figure_comes_back():
    made = read(
        placed(12, 1),
        waiting(9, 2, side=Side.BACKFILL, turn=3, latency_ratio=123.456, age_s=None),
        waiting(5_000_000_000, None, reason=Reason.HELD, latency_ratio=None, eligible=False, age_source=""),
    )
    first, second, third = (made.entry(place) for place in range(3))
    assert first["placement"] == [{"node": 7, "gpus": [0, 2], "cores": 3, "memory_mib": 1024}]
    assert (first["result"], first["reason"], first["array"], first["turn"]) == ("placed", None, "gpu-large", 1)
    assert (second["job"], second["rank"], second["side"], second["turn"]) == (9, 2, "backfill", 3)
    assert second["latency_ratio"] == pytest.approx(123.456, rel=1e-3)
    assert (second["age_s"], second["age_source"], second["inside_window"]) == (None, "declared", True)
    assert (third["job"], third["rank"], third["reason"], third["side"]) == (5_000_000_000, None, "held", None)
    assert (third["latency_ratio"], third["eligible"], third["inside_window"]) == (None, False, False)


def test_the_order_of_an_array_is_the_picks_by_turn_then_the_rest_by_rank():
    made = read(
        waiting(1, 1, side=Side.BACKFILL, turn=3),
        waiting(2, 2),
        waiting(3, 3, side=Side.FRONT, turn=1),
        placed(4, 4),
        waiting(5, 5, side=Side.FRONT, turn=2),
        waiting(6, 6),
        waiting(7, 7, array="cpu", side=Side.FRONT, turn=1),
        waiting(8, None, reason=Reason.NODES_UNAVAILABLE),
        waiting(9, None, reason=Reason.DEPENDENCY, eligible=False),
        waiting(10, 8, reason=Reason.TENANT_QUOTA, eligible=False),
    )
    assert {array: made.jobs[places].tolist() for array, places in made.order.items()} == {
        "gpu-small": [3, 5, 1, 2, 6],
        "gpu-large": [],
        "cpu": [7],
    }
    assert made.jobs[made.nowhere].tolist() == [8]
    assert [made.ahead(made.find(job)) for job in (3, 1, 6, 7, 8, 4)] == [0, 2, 4, 0, None, None]
    assert made.standing(made.find(5)) == {"queue": "gpu", "place": 2, "queue_length": 5}
    assert made.standing(made.find(4)) is None
    assert made.considered("gpu-small") == {"considered": 3, "started": 0}


def test_windows_and_shares_come_back_by_name():
    made = read(
        waiting(1, 1),
        windows=(WindowView("gpu-small", 16, 4, 15, 3, 1),),
        shares=(ShareView(2, "gpus", 4.0, 8.0, 16.0, 2.0),),
    )
    assert made.window("gpu-small")["front_jobs"] == 1
    assert made.window("gpu-large") is None
    assert made.share(2, "gpus")["with_picks"] == 8.0
    assert made.share(2, "cores") is None


def test_a_planning_that_failed_has_none():
    assert len(decisions_read(Planning())) == len(decisions_read(None)) == 0
    assert decisions_read(None).order == {}


def test_twenty_thousand_decisions_are_small_and_quick():
    random = np.random.default_rng(1)
    jobs = random.permutation(20_000) + 1_000_000
    ratios = np.sort(random.exponential(2, 20_000))[::-1]
    decisions = [
        waiting(int(j), n + 1, latency_ratio=float(r)) for n, (j, r) in enumerate(zip(jobs, ratios, strict=True))
    ]
    began = time.process_time()
    packed = decisions_pack(Made(decisions))
    assert time.process_time() - began < 2
    assert len(packed) < 6 * 20_000, "bytes a job"
    assert decisions_read(Planning(decisions=packed)).ahead(19_999) == 19_999
