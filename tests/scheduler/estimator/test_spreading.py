"""What runs over several nodes tell: the speed of that size, the price of spreading (Hops 3.3, eq. 10; section 2)."""

import numpy as np
import pytest

from scheduler.estimator.estimator import estimator_for
from scheduler.estimator.layers import ASSUMED_RHO
from scheduler.estimator.measured import cell_key, record
from scheduler.estimator.mixture import absorb
from scheduler.model import ClusterState
from scheduler.model.speeds import Cell, CellKey, Knowledge, Link, Loading, Profile
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from tests.scheduler.builders import job, node, ticking

A1, A2, A3, B1 = node(1, gpu_type="a"), node(2, gpu_type="a"), node(3, gpu_type="a"), node(4, gpu_type="b")
NODES = [A1, A2, A3, B1]
STEADY = Profile(0.1, 0.2, 0.1, batch_size=40, parameters=1e7, loading=absorb(Loading(), [0.01] * 20))
NAME = "job:1"


def measured(*runs, **profiles):
    """Knowledge of job 1 from runs (GPU type, GPUs, nodes, per-GPU samples/s), one measurement each."""
    return Knowledge(
        {cell_key(NAME, kind, gpus, nodes): Cell().add(speed) for kind, gpus, nodes, speed in runs},
        {(NAME, kind): profile for kind, profile in profiles.items()},
        {"a": Link(1e9, 1e8)},
    )


def unknown_size(kind, nodes, speed):
    """As measured before the number of GPUs was kept."""
    return Knowledge({CellKey(NAME, kind, nodes=nodes): Cell().add(speed)})


def rho(knowledge):
    return estimator_for(knowledge, {}, NODES).sensitivity(job(1, 1))


def answer(knowledge, gpus, nodes, on=A1):
    found = estimator_for(knowledge, {"a": 1.0}, NODES).per_gpu(job(1, gpus), on, gpus, nodes)
    return found.source, found.per_gpu


class TestSpeed:
    def test_of_a_size_is_not_taken_from_another_size_on_as_many_nodes(self):
        known = measured(("a", 2, 2, 50.0), ("a", 16, 2, 20.0))
        assert answer(known, 2, 2) == ("type", 50)
        assert answer(known, 16, 2) == ("type", 20)

    def test_is_the_nodes_own_where_it_was_measured_there(self):
        cells = record({}, NAME, [(1, "a"), (2, "a")], 16, 20.0)
        cells |= record(cells, NAME, [(2, "a"), (3, "a")], 16, 30.0)
        assert answer(Knowledge(cells), 16, 2) == ("entity", 20)
        assert answer(Knowledge(cells), 16, 2, A2) == ("entity", 25)

    def test_is_modelled_rather_than_taken_from_another_size(self):
        source, speed = answer(measured(("a", 2, 2, 1.0), a=STEADY), 16, 2)
        assert (source, speed) == ("theory", pytest.approx(40 / (0.2 + 0.2 * 0.1 + 0.1 + 0.1)))

    def test_is_that_of_the_nearest_size_by_ratio_before_it_is_assumed(self):
        known = measured(("a", 1, 1, 60.0), ("a", 2, 2, 50.0), ("a", 16, 2, 20.0))
        assert answer(known, 12, 2) == ("nodes", pytest.approx(20 * (12 / 16) ** -0.1))
        assert answer(known, 4, 2) == ("nodes", pytest.approx(50 * (4 / 2) ** -0.1))
        assert answer(known, 24, 3) == ("nodes", pytest.approx(20 * (24 / 16) ** -0.1)), "two nodes are near three"

    def test_of_equally_near_sizes_is_that_of_the_smaller(self):
        assert answer(measured(("a", 2, 2, 50.0), ("a", 8, 2, 20.0)), 4, 2) == ("nodes", pytest.approx(50 * 2**-0.1))

    def test_measured_on_an_unknown_number_of_gpus_serves_when_nothing_else_is_known_of_so_many_nodes(self):
        old = unknown_size("a", 2, 30.0)
        assert answer(old, 16, 2) == answer(old, 2, 2) == ("nodes", 30)
        known = Knowledge({**old.cells, **measured(("a", 8, 2, 40.0)).cells})
        assert answer(known, 8, 2) == ("type", 40)
        assert answer(known, 16, 2) == ("nodes", pytest.approx(40 * 2**-0.1))


class TestSensitivity:
    def test_is_one_gpu_over_two_on_two_nodes(self):
        assert rho(measured(("a", 1, 1, 60.0), ("a", 2, 1, 45.0), ("a", 2, 2, 40.0))) == 1.5

    def test_is_not_one_gpu_over_many(self):
        """Sia's imagenet: 16 GPUs over two nodes lose to their number, not to the nodes. The speeds themselves decide."""
        assert rho(measured(("a", 1, 1, 60.0), ("a", 16, 2, 30.0))) == 1
        assert rho(measured(("a", 1, 1, 60.0), ("a", 2, 2, 60.0), ("a", 16, 2, 30.0))) == 1

    def test_is_else_of_the_smallest_number_of_gpus_measured_both_ways_on_the_fewest_nodes(self):
        runs = [("a", 1, 1, 99.0), ("a", 8, 1, 50.0), ("a", 4, 1, 60.0), ("a", 4, 3, 10.0), ("a", 8, 2, 5.0)]
        assert rho(measured(*runs)) == 6
        assert rho(measured(*runs, ("a", 4, 2, 40.0))) == 1.5

    def test_is_the_largest_of_the_types(self):
        a, b = [("a", 1, 1, 60.0), ("a", 2, 2, 50.0)], [("b", 4, 1, 60.0), ("b", 4, 2, 40.0)]
        assert rho(measured(*a)) == 1.2
        assert rho(measured(*a, *b)) == 1.5

    def test_does_not_compare_types(self):
        assert rho(measured(("a", 1, 1, 60.0), ("b", 2, 2, 50.0))) == ASSUMED_RHO

    def test_is_modelled_when_no_size_was_measured_both_ways(self):
        modelled = pytest.approx((0.2 + 0.2 * 0.1 + 0.2) / 0.4)
        assert rho(measured(a=STEADY)) == modelled
        assert rho(measured(("a", 1, 1, 60.0), ("a", 16, 2, 5.0), a=STEADY)) == modelled

    def test_is_unknown_where_the_spread_runs_number_of_gpus_was_not_kept(self):
        cells = {**measured(("a", 1, 1, 60.0)).cells, **unknown_size("a", 2, 30.0).cells}
        assert rho(Knowledge(cells)) == ASSUMED_RHO

    def test_is_at_most_the_scaling_loss_to_two_gpus_when_spreading_costs_nothing(self):
        """Whatever was measured: any drawn loss by the number of GPUs (5 % at two, up to all at many), none by nodes."""
        rng = np.random.default_rng(5)
        sizes = (1, 2, 3, 4, 8, 16, 24)
        known_of = 0
        for _ in range(300):
            losses = np.cumprod(np.concatenate(([1.0, rng.uniform(1 / 1.05, 1.0)], rng.uniform(0.3, 1.0, 5))))
            speed = dict(zip(sizes, 100.0 * losses, strict=True))
            shapes = [(kind, g, n) for kind in "ab" for g in sizes for n in (1, 2, 3) if n <= g]
            drawn = rng.choice(len(shapes), rng.integers(1, 12), replace=False)
            found = rho(measured(*((*shapes[k], float(speed[shapes[k][1]])) for k in drawn)))
            known_of += found != ASSUMED_RHO
            assert found <= 1.05 or found == ASSUMED_RHO
        assert known_of > 60


class TestAJobThatFitsNoNode:
    BIG = (("a", 16, 2, 20.0),)

    def test_is_spread_whatever_its_sensitivity(self):
        state = ClusterState([A1, A2], [job(1, 16)], knowledge=measured(*self.BIG))
        (placement,) = plan(state, 0.0, Parameters(), np.random.default_rng(1), ticking()).placements
        assert [len(piece.gpus) for piece in placement.pieces] == [8, 8]

    def test_has_the_speed_that_it_was_measured_with_for_its_age_and_for_assumed_types(self):
        """16 GPUs at 20 samples/s: 320 a second. It never ran on one node."""
        asked = job(1, 16, age_s=None, total_samples=32000.0, expected_duration_s=9.0)
        estimator = estimator_for(measured(*self.BIG), {"a": 2.0, "b": 4.0}, NODES)
        assert estimator.samples_per_s(asked) == {"a": 20, "b": pytest.approx(40)}
        assert estimator.per_gpu(asked, B1, 16, 2).per_gpu == pytest.approx(40), "as large, twice as fast a type"
        state = ClusterState([A1, A2], [asked], knowledge=measured(*self.BIG))
        (decision,) = plan(state, 0.0, Parameters(), np.random.default_rng(1), ticking()).decisions
        assert (decision.age_s, decision.age_source) == (100, "samples")

    def test_has_the_speed_of_another_of_its_sizes_when_that_alone_was_measured(self):
        asked = job(1, 16, 24)
        estimator = estimator_for(measured(("a", 24, 3, 20.0)), {}, NODES)
        judged = pytest.approx(20 * (16 / 24) ** -0.1)
        assert estimator.samples_per_s(asked) == {"a": judged, "b": judged}


class TestWhatOtherTypesTell:
    """A hundred samples a second a GPU on type a, alone and spread; on b known on one node alone, or not at all."""

    ON_A = (("a", 4, 1, 100.0), ("a", 4, 2, 90.0))

    def test_what_spreading_costs_on_one_type_is_what_it_costs_on_another(self):
        knowledge = measured(*self.ON_A, ("b", 4, 1, 300.0))
        assert answer(knowledge, 4, 2, on=B1) == ("assumed", pytest.approx(300 * 0.9))

    def test_without_any_type_spread_and_alone_a_type_known_alone_is_assumed_to_halve(self):
        assert answer(measured(("b", 4, 1, 300.0)), 4, 2, on=B1) == ("assumed", pytest.approx(150))

    def test_a_type_never_used_goes_by_those_that_were_spread_as_well(self):
        estimator = estimator_for(measured(*self.ON_A, ("c", 4, 1, 10.0)), {}, [*NODES, node(5, gpu_type="c")])
        assert estimator.per_gpu(job(1, 4), B1, 4, 2).per_gpu == pytest.approx(90), "and not by c's, spread as assumed"

    def test_the_age_counts_a_fast_type_for_no_more_than_its_nodes(self):
        """Measured on a alone, which is four times as fast as b: an age by a alone would be short."""
        asked = job(1, 1, age_s=None, total_samples=32000.0)
        estimator = estimator_for(measured(("a", 1, 1, 80.0)), {"a": 4.0, "b": 1.0}, NODES)
        assert estimator.samples_per_s(asked) == {"a": 80, "b": pytest.approx(20)}
