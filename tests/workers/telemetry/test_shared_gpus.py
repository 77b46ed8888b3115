"""Several parts on one GPU: what they use adds up, each is slowed by the known law, and a grant of memory is held."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.simulator.sharing.laws import InTurns
from tests.workers.telemetry.test_telemetry import after, second_of
from workers.agent.measuring import Speeds
from workers.telemetry.beat import Readings
from workers.telemetry.owners import OUTSIDE
from workers.telemetry.sampler import GpuDetails, GpuFound, GpuProcess, GpuUse, PartUse
from workers.telemetry.sampling import Running, Sampling
from workers.telemetry.simulated import SWITCHING, SimulatedSampler, speeds_in_turns, use_parse

GPUS = [GpuFound(i, f"VIRTUAL-{i}", "A100 80 GB", 1000) for i in range(2)]


def part(attempt, busy, *, gpus=(0,), mib=100.0, use=()):
    return PartUse(gpus, busy, 0.0, mib, attempt=attempt, gpu_use=use)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_the_law_is_the_simulators(wanted):
    demands = np.array([[use, 0.0, use, 0.0] for use in wanted])
    slowed = InTurns(SWITCHING).slowdowns([""] * len(wanted), demands, np.zeros(len(wanted), dtype=int), 1)
    assert speeds_in_turns(wanted) == pytest.approx(1 / slowed)
    assert sum(own * speed for own, speed in zip(wanted, speeds_in_turns(wanted), strict=True)) <= 1 + 1e-9


def test_uses_and_memory_of_neighbours_add_up_and_stay_below_the_whole():
    sampler = SimulatedSampler(GPUS)
    parts = [part("a", 0.3), part("b", 0.4, mib=200.0, use=(0.4, 50.0)), part("c", 1.0, gpus=(1,), mib=9000.0)]
    sample = after(sampler, parts)
    assert (sample[0].utilisation, sample[0].memory_mib) == (70.0, 350.0)
    assert (sample[1].utilisation, sample[1].memory_mib) == (100.0, 1000.0)
    uses = sampler.read_details(parts).uses
    assert (uses["a"], uses["b"]) == ({0: GpuUse(100.0, 30.0)}, {0: GpuUse(250.0, 40.0)})
    assert after(sampler, [part("a", 0.8), part("b", 0.8)])[0].utilisation == 100.0


def test_who_fills_a_gpu_together_runs_at_half_speed_and_at_its_own_when_the_other_is_gone():
    """Each part's processes keep to the speed that they are left, as the demo's do."""
    sampler, speeds = SimulatedSampler(GPUS), {"a": 1.0, "b": 1.0}
    for _ in range(60):
        parts = [part(name, 1.0 * speed, use=(1.0, 0.0)) for name, speed in speeds.items()]
        sampler.sample(parts)
        speeds = sampler.speeds(parts)
    assert speeds == {"a": pytest.approx(1 / 2.05, abs=0.02), "b": pytest.approx(1 / 2.05, abs=0.02)}
    for _ in range(60):
        parts = [part("a", speeds["a"], use=(1.0, 0.0))]
        sampler.sample(parts)
        speeds = sampler.speeds(parts)
    assert speeds == {"a": 1.0}


def test_who_asks_for_little_is_hardly_slowed_beside_one_that_asks_for_all():
    sampler, speeds = SimulatedSampler(GPUS), {"a": 1.0, "b": 1.0}
    for _ in range(60):
        parts = [part("a", 0.2 * speeds["a"], use=(0.2, 0.0)), part("b", speeds["b"])]
        sampler.sample(parts)
        speeds = sampler.speeds(parts)
    assert speeds["a"] == pytest.approx(1 / 1.05, abs=0.02)
    assert speeds["b"] == pytest.approx(1 / (1 / 0.8 + 0.01), abs=0.02)


def test_what_is_no_use_is_none(subtests):
    for text in ["", "x", "0", "1.1", "-1", "nan", "0.5,-1", "0.5,inf", "0.5,1,2"]:
        with subtests.test(text=text):
            assert use_parse(text) == ()


def test_a_use_may_come_with_memory():
    assert (use_parse("0.5"), use_parse("1,2048")) == ((0.5, 0.0), (1.0, 2048.0))


def test_a_speed_is_told_once_and_a_part_alone_hears_nothing():
    speeds = Speeds()
    assert speeds.note({"a": 1.0, "b": 0.5}) == {"b": 0.5}
    assert speeds.note({"a": 1.0, "b": 0.505}) == {}
    assert speeds.note({"a": 0.9, "b": 1.0}) == {"a": 0.9, "b": 1.0}


def over_after(*memory, granted=1000):
    """What is said after these looks at one part's memory on GPU 0; a number twice is the same look seen twice."""
    sampling, looks = Sampling(host=None, owner=lambda pid, _: "a" if pid == 10 else OUTSIDE), {}
    for mib in memory:
        process = [GpuProcess(10, mib, None), GpuProcess(11, 9999.0, None)]
        look = looks.setdefault(mib, GpuDetails(processes={0: process}))
        second_of(sampling, 1.0, [Running("a", (0,), None, gpu_memory_mib=granted)], Readings(details=look))
    return sampling.grants.over


def test_a_part_above_its_grant_in_two_looks_is_over_it():
    assert over_after(1001.0, 1200.0) == {"a": "out of GPU memory: used 1200 MiB of 1000 MiB granted (gpu_memory_mib)"}


@pytest.mark.parametrize(
    "memory", [(1200.0,), (1200.0, 1200.0), (1200.0, 900.0, 1300.0), (1000.0, 999.0), (None, None)]
)
def test_one_look_a_look_seen_twice_and_what_is_not_known_end_nothing(memory):
    assert over_after(*memory) == {}


def test_whole_gpus_have_no_limit_and_a_virtual_part_has_one():
    assert over_after(1e6, 2e6, granted=None) == {}
    sampling, sampler, parts = (
        Sampling(host=None),
        SimulatedSampler(GPUS),
        [part("a", 0.1, mib=300.0, use=(0.1, 800.0))],
    )
    for _ in range(2):
        sampler.sample(parts)
        running = [Running("a", (0,), None, gpu_memory_mib=1000)]
        values = second_of(sampling, 1.0, running, Readings(details=sampler.read_details(parts)))
    assert values["attempts", "a", "gpu_memory_mib"] == 1100.0
    assert "used 1100 MiB of 1000 MiB" in sampling.grants.over["a"]
