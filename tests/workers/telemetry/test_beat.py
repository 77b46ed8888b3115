"""The heartbeat's ring: means, percentile, highest and last readings; a driver that hangs or raises takes nothing with it."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.conftest import wait_until
from workers.telemetry.beat import LAST, RING, Beat, percentile
from workers.telemetry.sampler import GpuDetails, GpuSample, GpuTrouble


class Given:
    """GPU 0 with these readings, one after the other; then it repeats the last."""

    def __init__(self, *uses):
        self.uses, self.looks = list(uses), 0
        self.troubles = ()

    def sample(self, parts):
        use = self.uses.pop(0) if len(self.uses) > 1 else self.uses[0]
        return {0: GpuSample(use, 100.0, None)}

    def read_details(self, parts):
        self.looks += 1
        troubles, self.troubles = self.troubles, ()
        return GpuDetails({0: GpuSample(None, None, None, temperature_c=50.0)}, {}, troubles)


def read(beat, count):
    for _ in range(count):
        beat.read()


def test_at_a_heartbeat_of_a_second_the_readings_travel_as_they_are():
    beat = Beat(Given(10.0, 20.0))
    beat.read_details()
    beat.read()
    taken = beat.take()
    assert taken.gpus == {0: GpuSample(10.0, 100.0, None, temperature_c=50.0)}
    assert (taken.high, taken.most, taken.last) == ({}, {}, {})


def test_below_a_second_the_mean_the_percentile_the_highest_and_the_last_travel():
    beat = Beat(Given(*map(float, range(100))), period_s=0.01)
    read(beat, 100)
    taken = beat.take()
    assert taken.gpus[0].utilisation == 49.5
    assert taken.high[0, "utilisation"] == 79.0
    assert taken.most[0, "utilisation"] == 99.0
    assert taken.last[0, "utilisation"] == [float(use) for use in range(100 - LAST, 100)]
    assert taken.last[0, "power_w"] == [None] * LAST
    assert (0, "power_w") not in taken.high, "what was not measured has no percentile"


def test_the_ring_forgets_the_oldest():
    beat = Beat(Given(0.0, *[1.0] * RING), period_s=0.001)
    read(beat, RING + 1)
    taken = beat.take()
    assert (taken.count, taken.gpus[0].utilisation) == (RING, 1.0)


def test_a_reading_that_came_a_little_early_counts_for_this_second_too():
    beat = Beat(Given(10.0))
    read(beat, 1)
    assert beat.take().gpus[0].utilisation == beat.take().gpus[0].utilisation == 10.0
    beat.period_s = 0.0
    assert beat.take().gpus == {}, "an old reading says nothing about now"


def test_each_trouble_is_taken_once():
    gpus = Given(1.0)
    gpus.troubles = (GpuTrouble(0, "xid", "", 79),)
    beat = Beat(gpus)
    beat.read_details()
    beat.read_details()
    assert [each.code for each in beat.take().troubles] == [79]
    assert beat.take().troubles == ()


def test_the_thread_reads_by_itself_at_its_heartbeat():
    beat = Beat(Given(5.0), period_s=0.005)
    beat.start()
    try:
        wait_until(lambda: beat.take().count >= 2)
        beat.period_s = 0.001
        wait_until(lambda: beat.take().gpus)
    finally:
        beat.stop()


def test_a_driver_that_raises_is_tried_again_and_one_that_hangs_holds_up_this_thread_alone():
    class Broken(Given):
        def sample(self, parts):
            self.uses.append(0.0)
            if len(self.uses) < 3:
                raise RuntimeError("the driver's library is broken")
            return super().sample(parts)

    hang, hangs = threading.Event(), threading.Event()

    class Hanging(Given):
        def sample(self, parts):
            hangs.set()
            hang.wait(60)
            return {}

    broken, hanging = Beat(Broken(7.0)), Beat(Hanging(1.0))
    broken.start()
    hanging.start()
    try:
        hangs.wait(60)
        assert hanging.take().gpus == {}
        wait_until(lambda: broken.take().gpus)
    finally:
        broken.stop()
        hanging.stop()
        hang.set()


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.floats(0.01, 1.0))
def test_the_percentile_is_a_value_that_enough_of_them_do_not_exceed(values, share):
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


def test_the_percentile_of_ten():
    assert percentile(list(map(float, range(1, 11))), 0.8) == pytest.approx(8.0)
