"""Decisions as the difference to the planning before: read back they are what was packed, and they are short."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.planning.rounds.record.frames import FrameError, frame_alone, frame_pack, frame_read

HEAD = {"arrays": ["gpu-small", "cpu"], "sources": ["declared", ""], "last": 2, "placements": {}}
NAMES = ("job", "rank", "turn", "age_s", "binding", "result", "reason", "array", "side", "eligible", "source", "detail")


@dataclass
class Queue:
    """A made-up queue that goes on: time passes, jobs come and go, a few figures change."""

    random: np.random.Generator
    size: int
    now_s: float = 1_790_000_000.0
    next_job: int = 1

    def __post_init__(self):
        self.since, self.age, self.held = {}, {}, set()
        self.come(self.size)

    def come(self, count):
        for _ in range(count):
            self.since[self.next_job] = self.now_s - float(self.random.exponential(3600))
            self.age[self.next_job] = float(self.random.choice([600.0, 3600.0, self.random.uniform(60, 90000)]))
            self.next_job += int(self.random.integers(1, 3))

    def passes(self, *, gone=0, come=0, passed_s=30.123456):
        self.now_s += passed_s
        for job in self.random.permutation(list(self.since))[:gone].tolist():
            del self.since[job], self.age[job]
            self.held.discard(job)
        self.come(come)

    def columns(self, *, by_ratio=True):
        random, jobs = self.random, np.array(sorted(self.since), np.int64)
        wait_s = np.array([self.now_s - self.since[job] for job in jobs.tolist()])
        age_s = np.array([self.age[job] for job in jobs.tolist()])
        eligible = np.array([job not in self.held for job in jobs.tolist()], np.uint8)
        ratio = wait_s / age_s
        order = np.lexsort((jobs, -ratio if by_ratio else jobs % 97, 1 - eligible))
        rank = np.where(eligible[order] > 0, np.arange(1, len(jobs) + 1), 0)
        placed = rank <= min(3, len(jobs) // 50)
        told = {
            "job": jobs,
            "wait_s": wait_s,
            "age_s": age_s,
            "eligible": eligible,
            "latency_ratio": ratio.astype(np.float32),
            "array": (jobs % 2).astype(np.uint8),
            "reason": (jobs % 5).astype(np.uint8),
            "side": np.ones(len(jobs), np.uint8),
            "source": (jobs % 2).astype(np.uint8),
            "detail": np.zeros(len(jobs), np.uint32),
            "binding": random.integers(0, 2**32, len(jobs)).astype(np.uint32) * (jobs % 61 == 0),
            "turn": np.zeros(len(jobs), np.int32),
        }
        told = {name: values[order] for name, values in told.items()}
        return told | {"rank": rank.astype(np.int32), "result": (placed & (rank > 0)).astype(np.uint8)}


def same(frame, columns):
    for name in NAMES:
        read = (frame.jobs if name == "job" else frame.columns[name])[frame.rows]
        assert np.array_equal(read, columns[name].astype(read.dtype), equal_nan=read.dtype.kind == "f"), name
    ratios = frame.columns["latency_ratio"][frame.rows]
    assert np.allclose(ratios, columns["latency_ratio"], rtol=1e-3, equal_nan=True)


def follow(queue, before, number, **how):
    columns = queue.columns(**how)
    packed, frame = frame_pack(columns, HEAD, number=number, now_s=queue.now_s, before=before)
    read = frame_read(packed, before)
    same(frame, columns)
    same(read, columns)
    assert (read.number, read.key, read.depth, read.mark) == (frame.number, frame.key, frame.depth, frame.mark)
    return packed, read


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 120), st.booleans())
def test_what_is_read_is_what_was_packed_over_any_course(seed, size, by_ratio):
    queue, before = Queue(np.random.default_rng(seed), size), None
    for number in range(1, 6):
        _, before = follow(queue, before, number, by_ratio=by_ratio)
        assert (before.key, before.depth) == (1, number - 1)
        here = min(len(queue.since), int(queue.random.integers(0, 20)))
        queue.held ^= set(queue.random.permutation(list(queue.since))[: here // 3].tolist())
        queue.passes(gone=here, come=int(queue.random.integers(0, 20)))
    same(frame_read(frame_alone(before), None), {n: _decided(before, n) for n in (*NAMES, "latency_ratio")})


def _decided(frame, name):
    return (frame.jobs if name == "job" else frame.columns[name])[frame.rows]


def test_what_no_rule_foretells_is_kept_too():
    """Ratios without an age, an order of rows that is none, figures that are not known."""
    columns = Queue(np.random.default_rng(3), 6).columns()
    columns = {name: values[::-1].copy() for name, values in columns.items()}
    columns["latency_ratio"][:] = [1.5, np.nan, 0, 7, 8, 9]
    columns["age_s"][:3], columns["wait_s"][2:4] = np.nan, np.nan
    packed, frame = frame_pack(columns, HEAD, number=9, now_s=1e9, before=None)
    same(frame_read(packed, None), columns)
    again, _ = frame_pack(columns, HEAD, number=10, now_s=1e9 + 5, before=frame)
    same(frame_read(again, frame), columns)


def test_new_words_stand_behind_the_old_ones():
    queue = Queue(np.random.default_rng(4), 5)
    _, before = follow(queue, None, 1)
    columns = queue.columns()
    head = HEAD | {"arrays": ["", "cpu", "gpu-small"]}
    packed, _ = frame_pack(columns, head, number=2, now_s=queue.now_s, before=before)
    read = frame_read(packed, before)
    words = [read.head["arrays"][code] for code in _decided(read, "array")]
    assert words == [head["arrays"][code] for code in columns["array"]]


def test_it_follows_its_own_frame_alone():
    queue = Queue(np.random.default_rng(5), 10)
    _, first = follow(queue, None, 1)
    queue.passes(come=1)
    packed, _ = follow(queue, first, 2)
    other = Queue(np.random.default_rng(6), 10)
    for wrong in (None, follow(other, None, 1)[1]):
        with pytest.raises(FrameError) as found:
            frame_read(packed, wrong)
        assert found.value.why == "planning 2 follows planning 1, which is another one or gone"


@pytest.mark.parametrize(("by_ratio", "share"), [(True, 0.04), (False, 0.2)])
def test_a_long_queue_costs_little_from_the_second_planning_on(by_ratio, share):
    queue = Queue(np.random.default_rng(7), 20_000)
    whole, before = follow(queue, None, 1, by_ratio=by_ratio)
    queue.passes(gone=40, come=40)
    short, _ = follow(queue, before, 2, by_ratio=by_ratio)
    print(f"by ratio {by_ratio}: key frame {len(whole)}, then {len(short)} bytes for 20 000 jobs")
    assert len(short) < share * len(whole)
