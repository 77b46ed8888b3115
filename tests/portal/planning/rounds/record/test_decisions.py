"""A planning's decisions in columns (section 8 of the portal's storage): they come out as they went in, in little room."""

import time
import zlib
from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.record import decisions
from portal.planning.rounds.record.decisions import decisions_pack, decisions_read
from portal.planning.rounds.record.frames import FrameError
from portal.planning.rounds.record.packing import REASONS, RESULTS, SIDES, binding_node, columns_of
from portal.planning.rounds.tasks import expire
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

    def __init__(self, decisions, windows=(), shares=(), now_s=0.0):
        self.decisions, self.windows, self.shares, self.reservations = tuple(decisions), windows, shares, ()
        self.blocking, self.now_s = (), now_s


def waiting(job, rank, *, array="gpu-small", side=Side.OUTSIDE, turn=None, reason=Reason.OUTSIDE_WINDOW, **more):
    values = {"latency_ratio": 1.5, "age_s": 600.0, "age_source": "declared", "eligible": True, "figures": {}}
    standing = Standing(array, side, turn) if rank else None
    return Decision(job=job, result=Result.WAITING, reason=reason, rank=rank, standing=standing, **(values | more))


def placed(job, rank, node=7):
    placement = Placement(job, (Piece(node, (0, 2), (4, 5, 6), 1024),))
    standing = Standing("gpu-large", Side.FRONT, 1)
    return Decision(job, Result.PLACED, None, {}, rank=rank, placement=placement, standing=standing)


def read(*decisions, **more):
    return decisions_read(Planning(decisions=decisions_pack(Made(decisions, **more)).bytes))


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
    every = [waiting(int(j), n + 1, latency_ratio=float(r)) for n, (j, r) in enumerate(zip(jobs, ratios, strict=True))]
    began = time.process_time()
    packed = decisions_pack(Made(every)).bytes
    assert time.process_time() - began < 2
    assert len(packed) < 6 * 20_000, "bytes a job"
    assert decisions_read(Planning(decisions=packed)).ahead(19_999) == 19_999


class TestFrames:
    """A planning is stored as its difference from the one before; each can be read by itself."""

    def plannings(self, cluster, count):
        """Make plannings over a queue that changes; return each one's decisions, as they were when it was made."""
        made = []
        for _ in range(count):
            cluster.submit(gpus=4)
            planning = planning_run()
            found = decisions_read(planning)
            made.append((planning, [found.entry(place) for place in range(len(found))]))
        return made

    def test_each_is_read_back_without_memory(self, cluster):
        made = self.plannings(cluster, 4)
        assert [planning.keyframe for planning, _ in made] == [None, 1, 1, 1]
        for planning, entries in made:
            decisions._recent.clear()
            found = decisions_read(Planning.objects.get(number=planning.number))
            assert [found.entry(place) for place in range(len(found))] == entries
            assert len(entries) == max(1, planning.number - 1), "the first job is placed at once"

    def test_a_row_of_frames_ends(self, cluster, monkeypatch):
        monkeypatch.setattr(decisions, "LONGEST", 3)
        assert [planning.keyframe for planning, _ in self.plannings(cluster, 7)] == [None, 1, 1, None, 4, 4, None]

    def test_what_is_kept_can_be_read_when_the_old_ones_are_gone(self, cluster, monkeypatch):
        monkeypatch.setattr(decisions, "LONGEST", 3)
        made = self.plannings(cluster, 6)
        Planning.objects.filter(number__lte=5).update(started_at=timezone.now() - timedelta(days=8))
        expire()
        assert set(Planning.objects.values_list("number", flat=True)) == {4, 5, 6}, "6 is told by 4 and 5"
        decisions._recent.clear()
        found = decisions_read(Planning.objects.get(number=6))
        assert [found.entry(place) for place in range(len(found))] == made[5][1]
        Planning.objects.filter(number=6).update(keyframe=None)
        expire()
        assert set(Planning.objects.values_list("number", flat=True)) == {6}

    def test_of_one_whose_base_is_gone_nothing_is_made_up(self, cluster):
        self.plannings(cluster, 3)
        Planning.objects.filter(number=2).delete()
        decisions._recent.clear()
        with pytest.raises(FrameError, match="The decisions of planning 3 cannot be read") as found:
            decisions_read(Planning.objects.get(number=3))
        assert found.value.why == "it follows planning 2, which is gone"

    def test_reading_takes_one_query(self, cluster, django_assert_num_queries):
        self.plannings(cluster, 5)
        last = Planning.objects.get(number=5)
        decisions._recent.clear()
        with django_assert_num_queries(1):
            decisions_read(last)
        with django_assert_num_queries(0):
            decisions_read(last)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=8), st.booleans())
def test_columns_are_what_each_decision_says(seeds, shared):
    """Standings and figures are one object for many jobs: jobs that share one have the same cell, and no other."""
    kinds = [
        Standing("gpu-small", Side.OUTSIDE),
        Standing("gpu-large", Side.FRONT, 2),
        Standing("cpu", Side.FRONT),
        None,
    ]
    figures = [{}, {"binding": {"node": "n1"}}, {"binding": {"node": "n2"}}, {"binding": None}]
    decisions = []
    for number, seed in enumerate(seeds):
        standing, told = kinds[seed % 4], figures[seed // 4 % 4]
        ratio, age = (None, 1.5)[seed // 16 % 2], (None, 600.0)[seed // 32 % 2]
        decisions.append(
            Decision(
                number,
                list(Result)[seed // 64 % 3],
                [None, *Reason][seed // 256 % 5],
                told if shared else dict(told),
                rank=number or None,
                latency_ratio=ratio,
                wait_s=float(seed % 7),
                age_s=age,
                age_source="ab"[seed % 2],
                eligible=bool(seed % 3),
                standing=standing,
            )
        )
    found = columns_of(decisions)
    at = found.values
    for place, each in enumerate(decisions):
        standing = each.standing
        assert found.arrays[at["array"][place]] == (standing.array if standing else "")
        assert SIDES[at["side"][place]] == (str(standing.side) if standing else "")
        assert at["turn"][place] == ((standing.turn or 0) if standing else 0)
        assert found.sources[at["source"][place]] == each.age_source
        assert at["binding"][place] == (zlib.crc32(name.encode()) if (name := binding_node(each)) else 0)
        assert (RESULTS[at["result"][place]], REASONS[at["reason"][place]]) == (each.result, each.reason or "")
        assert (at["job"][place], at["rank"][place], at["eligible"][place]) == (each.job, each.rank or 0, each.eligible)
        for name, value in (("latency_ratio", each.latency_ratio), ("age_s", each.age_s)):
            assert np.isnan(at[name][place]) if value is None else at[name][place] == value
        assert np.isnan(at["wait_s"][place]) if each.latency_ratio is None else at["wait_s"][place] == each.wait_s
