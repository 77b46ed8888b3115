"""Sia's program from prices: as good as trying everything, and as a general solver within the gap."""

import numpy as np
import pytest

from scheduler.placement.matrix import solve_matrix
from scheduler.policies.rivals.typelevel import balance, program
from scheduler.policies.rivals.typelevel.balance import Option, loses_least, solve
from scheduler.policies.rivals.typelevel.program import Bucket, Kind


def planned(jobs, gpus, prices, *, gap=0.0):
    return solve(jobs, gpus, prices, [loses_least(options, prices) for options in jobs], gap=gap)


def best_of_all(jobs, gpus):
    """By trying everything that fits."""
    if not jobs:
        return 0.0
    own, *others = jobs
    found = [best_of_all(others, gpus)]
    for option in own:
        left = [count - option.gpus * (kind == option.gpu_type) for kind, count in enumerate(gpus)]
        if min(left) >= 0:
            found.append(option.value + best_of_all(others, left))
    return max(found)


def drawn(rng, jobs, types, sizes=(1, 2, 3, 5)):
    return [
        [
            Option(float(rng.uniform(0.05, 0.2)) * size**0.6, kind, size)
            for kind in range(types)
            for size in sizes
            if rng.random() < 0.7
        ]
        for _ in range(jobs)
    ]


def rows_drawn(rng, jobs):
    """As in Hops' workload: up to eight sizes of 1 to 16 GPUs on three types; some of the jobs run."""
    buckets = [Bucket(name, 8) for name in "abc"]
    rows = []
    for number in range(jobs):
        sizes = sorted(int(each) for each in rng.choice(16, int(rng.integers(1, 9)), replace=False) + 1)
        speed = rng.uniform(1, 3, 3)
        goodput = {Kind(each, size): float(speed[k]) * size**0.9 for k, each in enumerate(buckets) for size in sizes}
        present = list(goodput)[int(rng.integers(len(goodput)))] if rng.random() < 0.6 else None
        rows.append(program.Row(number, sizes[0], goodput, present, float(rng.uniform(0.5, 1))))
    return rows, dict(zip(buckets, (16, 16, 32), strict=True))


class TestPlan:
    def test_of_nobody_is_nothing(self):
        assert planned([], [4], [0.1]) == balance.Plan((), 0.0, 0.0)

    def test_on_an_idle_cluster_gives_everybody_the_best(self):
        jobs = [[Option(0.1, 0, 1), Option(0.3, 0, 4)], [Option(0.2, 1, 2), Option(0.1, 0, 8)], []]
        plan = planned(jobs, [300, 40], [0.0, 0.0])
        assert plan.taken == (1, 0, None)
        assert plan.value == plan.bound == pytest.approx(0.5)

    def test_changes_a_job_where_that_leaves_fewer_gpus_idle(self):
        """Six GPUs at 0.1 each: four and four lose nothing and do not fit, four and two lose 0.05 and do."""
        jobs = [[Option(0.45, 0, 4)], [Option(0.45, 0, 4), Option(0.2, 0, 2)]]
        plan = planned(jobs, [6], [0.1])
        assert plan.taken == (0, 1)
        assert plan.value == pytest.approx(0.65)

    @pytest.mark.parametrize("types", [1, 2, 3])
    def test_is_the_best_of_all_at_any_prices(self, types):
        rng = np.random.default_rng([7, types])
        for _ in range(12):
            jobs, gpus = drawn(rng, 5, types, (1, 2, 3)), [int(each) for each in rng.integers(1, 7, types)]
            best = best_of_all(jobs, gpus)
            for prices in (rng.uniform(0, 0.2, types).tolist(), [0.0] * types):
                plan = planned(jobs, gpus, prices)
                assert plan.value == pytest.approx(best)
                assert plan.bound == pytest.approx(best)

    def test_uses_no_more_gpus_than_there_are(self):
        rng = np.random.default_rng(3)
        for _ in range(10):
            jobs, gpus = drawn(rng, 25, 3), [9, 14, 20]
            plan = planned(jobs, gpus, [0.08, 0.07, 0.06])
            taken = [options[k] for options, k in zip(jobs, plan.taken, strict=True) if k is not None]
            used = [sum(each.gpus for each in taken if each.gpu_type == kind) for kind in range(3)]
            assert all(own <= count for own, count in zip(used, gpus, strict=True))
            assert plan.value == pytest.approx(sum(each.value for each in taken))

    def test_may_be_short_of_the_best_by_the_gap_and_tells_the_bound(self):
        rng = np.random.default_rng(11)
        for _ in range(10):
            jobs, gpus, prices = drawn(rng, 20, 2), [9, 14], [0.08, 0.07]
            best, near = planned(jobs, gpus, prices), planned(jobs, gpus, prices, gap=0.03)
            assert near.value >= best.value * (1 - 0.03)
            assert near.value <= best.value + 1e-9 <= near.bound + 2e-9

    def test_is_none_when_the_states_are_too_many(self, monkeypatch):
        jobs = drawn(np.random.default_rng(2), 25, 3)
        monkeypatch.setattr(balance, "MOST_STEPS", 10)
        assert planned(jobs, [9, 14, 20], [0.08, 0.07, 0.06]) is None

    @pytest.mark.parametrize("most_steps", [20, 25, 30, 40, 60])
    def test_is_found_where_every_plan_passes_far_from_an_even_balance(self, most_steps, monkeypatch):
        """From five GPUs idle one job first takes 40 more, then another gives back 35; then some of one GPU come and go."""
        gains = [Option(39.999, 0, 40)], [Option(35.002, 0, 35)], [Option(69.0, 0, 59)]
        ones = [[Option(0.996 + 0.008 * (k % 2), 0, 1)] for k in range(6)]
        monkeypatch.setattr(balance, "MOST_STEPS", most_steps)
        monkeypatch.setattr(balance, "NEAR", (8, 4))
        plan = planned([*gains, *ones], [102], [1.0])
        if plan is None:
            assert most_steps < 40  # too many states even so: the general solver's turn
        else:
            taken = [own[k] for own, k in zip([*gains, *ones], plan.taken, strict=True) if k is not None]
            assert sum(each.gpus for each in taken) <= 102
            assert plan.value == pytest.approx(sum(each.value for each in taken))
            assert plan.value <= plan.bound + 1e-9

    def test_is_none_when_too_many_gpus_would_have_to_be_told_apart(self):
        assert planned([[Option(1.0, 0, 100)]] * 4, [100], [0.0]) is None


class TestProgram:
    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_is_as_good_as_the_general_solvers_within_the_gap(self, seed, monkeypatch):
        rows, gpus = rows_drawn(np.random.default_rng([seed, 4]), 14)
        own = program.solve(rows, gpus, time_limit_s=60.0, seed=1)
        monkeypatch.setattr(program, "GAP", 1e-6)
        monkeypatch.setattr(balance, "MOST_STEPS", 0)
        asked = []
        monkeypatch.setattr(program, "solve_matrix", lambda *a, **k: asked.append(1) or solve_matrix(*a, **k))
        best = program.solve(rows, gpus, time_limit_s=60.0, seed=1)
        assert asked
        assert best.objective * (1 - 1e-4) <= own.objective <= best.objective * (1 + 1e-6)
        assert own.gap <= 1e-4

    def test_looks_near_an_even_balance_when_the_states_are_many_and_says_how_good_that_is(self, monkeypatch):
        proven = []
        for seed in range(6):
            rows, gpus = rows_drawn(np.random.default_rng([seed, 5]), 60)
            gpus = {bucket: 4 * count for bucket, count in gpus.items()}
            best = program.solve(rows, gpus, time_limit_s=60.0, seed=1)
            with monkeypatch.context() as patched:
                patched.setattr(balance, "MOST_STEPS", 100_000)
                patched.setattr(balance, "COARSE_GAP", 0.02)
                patched.setattr(balance, "NEAR", (16, 8, 4, 2))
                patched.setattr(program, "solve_matrix", None)
                near = program.solve(rows, gpus, time_limit_s=60.0, seed=1)
            assert best.gap <= program.GAP
            assert near.gap <= 0.02
            assert near.objective <= best.objective * (1 + 1e-4)
            assert best.objective <= near.objective * (1 + near.gap) * (1 + 1e-9)
            proven.append(near.gap)
        assert max(proven) > program.GAP
