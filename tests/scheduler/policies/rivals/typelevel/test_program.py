"""Sia 3.4: the normalised goodput matrix, the restart factor, the fairness power and the allocation incentive."""

from itertools import product

import numpy as np
import pytest

from scheduler.policies.rivals.typelevel.program import Bucket, Kind, Row, restart_factor, solve

A, B = Bucket("a", 4), Bucket("b", 4)


def a(gpus):
    return Kind(A, gpus)


def b(gpus):
    return Kind(B, gpus)


def solved(rows, gpus):
    return solve(rows, gpus, time_limit_s=60.0, seed=1)


class TestValues:
    def test_are_of_the_goodput_relative_to_the_rows_smallest_times_the_fewest_gpus(self):
        """A = 1 * (3, 6, 12) / 3; what taking it is worth is 1.1 - A^-0.5."""
        values = Row(1, 1, {a(1): 3.0, a(2): 6.0, b(1): 12.0}).values()
        assert values == pytest.approx({a(1): 1.1 - 1, a(2): 1.1 - 2**-0.5, b(1): 1.1 - 4**-0.5})
        assert Row(1, 4, {a(4): 5.0}).values() == pytest.approx({a(4): 1.1 - 4**-0.5})

    def test_are_smaller_by_the_restart_factor_but_for_the_present_configuration(self):
        values = Row(1, 1, {a(1): 1.0, a(4): 4.0}, present=a(1), restart_factor=0.5).values()
        assert values == pytest.approx({a(1): 1.1 - 1, a(4): 1.1 - 2**-0.5})

    def test_are_nothing_where_all_time_went_into_restarts(self):
        assert Row(1, 1, {a(1): 1.0, a(4): 4.0}, present=a(1), restart_factor=0.0).values()[a(4)] == -np.inf


class TestRestartFactor:
    def test_is_the_part_of_the_time_that_was_not_lost_after_one_restart_more(self):
        """The factor r = (T - N*S) / (T + S)."""
        assert restart_factor(950.0, 3, 50.0) == (950 - 150) / 1000
        assert restart_factor(100.0, 3, 50.0) == 0.0

    def test_is_one_for_the_first_restart_cost(self):
        assert restart_factor(49.0, 0, 50.0) == 1.0
        assert restart_factor(10.0, 3, 0.0) == 1.0


class TestProgram:
    def test_shares_out_by_the_worked_example(self):
        """Four GPUs of a and one of b. Values 1.1 - A^-0.5: J1 has 0.6 on b; J2 0.393 on two of a and 0.6 on four;
        J3 0.284 on two. Two and two (1.276 in all) is better than four for J2 and none for J3 (1.2).
        """
        rows = [
            Row(1, 1, {a(1): 1.0, b(1): 4.0}),
            Row(2, 1, {a(1): 1.0, a(2): 2.0, a(4): 4.0, b(1): 1.1}),
            Row(3, 1, {a(1): 1.0, a(2): 1.5, b(1): 1.0}),
        ]
        taken = solved(rows, {A: 4, B: 1})
        assert taken.kinds == {1: b(1), 2: a(2), 3: a(2)}
        assert taken.objective == pytest.approx(0.6 + 1.1 - 2**-0.5 + 1.1 - 1.5**-0.5)
        assert taken.gap == 0.0

    def test_gives_everybody_one_rather_than_somebody_many(self):
        """The allocation incentive: 0.1 for each more than the gain from four times as much."""
        rows = [Row(number, 1, {a(1): 1.0, a(4): 1.2}) for number in range(1, 5)]
        assert set(solved(rows, {A: 4}).kinds.values()) == {a(1)}

    def test_leaves_a_running_job_alone_for_its_equal_that_was_stopped(self):
        stopped, running = Row(1, 1, {a(2): 2.0}, None, 0.9), Row(2, 1, {a(2): 2.0}, a(2), 0.9)
        assert solved([stopped, running], {A: 2}).kinds == {2: a(2)}

    def test_leaves_ties_to_the_queues_order(self):
        rows = [Row(number, 1, {a(1): 1.0}) for number in (7, 3, 5)]
        assert solved(rows, {A: 2}).kinds == {7: a(1), 3: a(1)}

    def test_finds_what_trying_everything_finds(self):
        rng = np.random.default_rng(5)
        for _ in range(8):
            sizes = [Kind(bucket, gpus) for bucket in (A, B) for gpus in (1, 2, 4)]
            rows = [
                Row(n, 1, {kind: float(rng.uniform(1, 9)) for kind in sizes}, sizes[int(rng.integers(6))], 0.7)
                for n in range(3)
            ]
            best = max(
                sum(row.values()[kind] for row, kind in zip(rows, choice, strict=True) if kind is not None)
                for choice in product([None, *sizes], repeat=3)
                if all(sum(kind.gpus for kind in choice if kind and kind.bucket == each) <= 3 for each in (A, B))
            )
            assert solved(rows, {A: 3, B: 3}).objective == pytest.approx(best, rel=2e-4)

    def test_of_nobody_is_nothing(self):
        assert solved([], {A: 4}).kinds == {}
