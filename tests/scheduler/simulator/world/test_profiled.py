"""Measured step and sync times, and the goodput that comes of them (Pollux 3.1, Sia 3.2)."""

import pytest

from scheduler.simulator.world.profiled import Application, Curve, Goodput, Speeds, Training
from scheduler.simulator.world.truth import Spot


def flat(step_s, sync_s=0.0, largest=100.0):
    return Curve((1.0, largest), (step_s, step_s), (sync_s, sync_s))


def spots(*gpus, gpu_type="t4", speed=1.0):
    return [Spot(number, gpu_type, each, each, speed) for number, each in enumerate(gpus)]


STEADY = Training((10.0, 20.0, 40.0), (100.0, 50.0, 40.0), 100.0)  # 40 samples: 40 iterations where 25 would be ideal


def application(**shapes):
    """Times by shape, named n1, n12 ... by the GPUs of each node."""
    by_shape = {tuple(map(int, name[1:])): curve for name, curve in shapes.items()}
    counts = {(len(shape), sum(shape)): curve for shape, curve in by_shape.items()}
    return Application("toy", STEADY, {"t4": Speeds(by_shape, counts)})


class TestTimes:
    def test_are_linear_between_measured_batch_sizes_and_constant_beyond(self):
        curve = Curve((2.0, 4.0), (1.0, 3.0), (0.5, 1.5))
        assert [curve.at(batch) for batch in (1, 3, 9)] == [(1.0, 0.5), (2.0, 1.0), (3.0, 1.5)]

    def test_of_a_shape_are_those_of_its_rotations(self):
        speeds = Speeds({(1, 2): flat(7.0)}, {(2, 3): flat(1.0)})
        assert speeds.blend((2, 1)).at(1)[0] == 7.0

    def test_of_an_unmeasured_shape_are_those_of_as_many_nodes_and_gpus(self):
        speeds = Speeds({(1, 3): flat(7.0)}, {(2, 4): flat(5.0)})
        assert speeds.blend((2, 2)).at(1)[0] == 5.0

    def test_lie_between_their_neighbours_by_gpus_and_then_by_nodes(self):
        speeds = Speeds({}, {(1, 4): flat(2.0), (2, 6): flat(4.0), (2, 8): flat(6.0), (4, 16): flat(8.0)})
        assert speeds.blend((3, 4)).at(1)[0] == 5.0  # 7 GPUs on two nodes
        assert speeds.blend((4, 4, 4)).at(1)[0] == 7.0  # 12 on three: between 8 on two and 16 on four
        assert speeds.blend((4,) * 9).at(1)[0] == 8.0


class TestGoodput:
    def test_is_the_work_over_the_iterations_of_a_training_and_their_time(self):
        # P*M0 = 1 000 samples; with B = 40 in 40 iterations of half a second.
        assert application(n4=flat(0.5)).goodput("t4", (4,), 40.0) == pytest.approx(1000 / (40 * 0.5))

    def test_lies_between_the_measured_batch_sizes(self):
        assert application(n4=flat(0.5)).goodput("t4", (4,), 30.0) == pytest.approx(1000 / (44 * 0.5), rel=0.03)

    def test_counts_accumulated_steps_without_their_synchronisation(self):
        # 40 samples on two GPUs that hold 10 each: two steps, of which one is synchronised.
        assert application(n2=flat(0.5, 0.2, 10.0)).goodput("t4", (2,), 40.0) == pytest.approx(1000 / (40 * 0.8))

    def test_accumulates_on_one_gpu_above_the_smallest_batch_size(self):
        assert application(n1=flat(0.5)).goodput("t4", (1,), 20.0) == pytest.approx(1000 / (50 * 1.0))
        assert application(n1=flat(0.5)).goodput("t4", (1,), 10.0) == pytest.approx(1000 / (100 * 0.5))

    def test_of_an_adaptive_job_is_that_of_the_best_batch_size(self):
        toy = application(n4=Curve((1.0, 5.0, 10.0), (0.5, 0.5, 5.0), (0.0, 0.0, 0.0)))
        assert toy.goodput("t4", (4,), None) == pytest.approx(1000 / (50 * 0.5), rel=0.02)

    def test_is_divided_by_the_slowdown(self):
        toy = application(n4=flat(0.5))
        slower = Application("toy", STEADY, toy.speeds, slowdown=2.0)
        assert slower.goodput("t4", (4,), 40.0) == toy.goodput("t4", (4,), 40.0) / 2


class TestLaw:
    def test_goes_at_the_pace_of_the_slowest_node(self):
        law = Goodput(application(n11=flat(0.5)), 40.0)
        slow = [*spots(1), *spots(1, speed=0.5)]
        assert law.rate(slow) == law.rate(spots(1, 1)) / 2

    def test_leaves_out_nodes_without_gpus(self):
        law = Goodput(application(n2=flat(0.5)), 40.0)
        assert law.rate(spots(2, 0)) == law.rate(spots(2))

    def test_says_where_it_was_not_measured(self):
        with pytest.raises(ValueError, match="toy was not measured on GPU type h100, only on t4"):
            Goodput(application(n2=flat(0.5)), 40.0).rate(spots(2, gpu_type="h100"))

    def test_tells_goodput_per_gpu_on_nodes_filled_in_turn_and_spread_over_more(self):
        law = Goodput(application(n1=flat(0.5), n2=flat(0.5), n11=flat(0.9), n12=flat(0.6), n22=flat(0.5)), 40.0)
        assert law.known([4, 1, 2, 3]) == {
            ("t4", 1, 1): law.rate(spots(1)),
            ("t4", 2, 1): law.rate(spots(2)) / 2,
            ("t4", 2, 2): law.rate(spots(1, 1)) / 2,
            ("t4", 3, 2): law.rate(spots(2, 1)) / 3,
            ("t4", 4, 2): law.rate(spots(2, 2)) / 4,
        }

    def test_tells_no_more_of_spreading_than_was_measured(self):
        law = Goodput(application(n2=flat(0.5), n22=flat(0.5), n11=flat(0.7)), 40.0)
        assert list(law.known([6, 3])) == [("t4", 3, 2), ("t4", 6, 3)]
