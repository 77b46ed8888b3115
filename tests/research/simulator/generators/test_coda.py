"""CODA's cluster and jobs: the published statistics (CODA III-A, VI; algorithms.md section 13)."""

from collections import Counter

import numpy as np
import pytest

from research.simulator.generators import coda
from scheduler.simulator.world.truth import Spot

DAYS = 3.0


@pytest.fixture(scope="module")
def jobs():
    return coda.generate(np.random.default_rng(7), days=DAYS, free=coda.Free(batched=0.0))


def part(values, counts):
    return sum(map(counts, values)) / len(values)


def test_the_cluster_has_80_nodes_400_gpus_and_28_cores_a_node():
    nodes = coda.world().nodes
    assert (len(nodes), sum(each.gpus_total for each in nodes)) == (80, 400)
    assert {each.cores_total for each in nodes} == {28}


def test_a_month_has_75_000_cpu_and_25_000_gpu_jobs(jobs):
    cpu = sum(each.job.is_cpu for each in jobs)
    assert cpu == pytest.approx(75_000 * DAYS / 30, rel=0.05)
    assert len(jobs) - cpu == pytest.approx(25_000 * DAYS / 30, rel=0.07)
    assert [each.job.submitted_s for each in jobs] == sorted(each.job.submitted_s for each in jobs)


@pytest.mark.slow
def test_a_load_multiplies_the_gpu_jobs_alone():
    doubled = coda.generate(np.random.default_rng(7), days=DAYS, free=coda.Free(batched=0.0), load=2.0)
    cpu = sum(each.job.is_cpu for each in doubled)
    assert cpu == pytest.approx(75_000 * DAYS / 30, rel=0.05)
    assert len(doubled) - cpu == pytest.approx(2 * 25_000 * DAYS / 30, rel=0.07)


def test_cores_asked_and_run_times_of_gpu_jobs(jobs):
    """Fig. 2d: 76.1 % ask 1 or 2 cores, 15.3 % over 10; VI-F: 68.5 % run over one hour, 39.6 % over two, as they asked."""
    gpu = [each for each in jobs if not each.job.is_cpu]
    asked = [each.job.cores for each in gpu]
    assert part(asked, lambda cores: cores <= 2) == pytest.approx(0.761, abs=0.03)
    assert part(asked, lambda cores: cores > 10) == pytest.approx(0.153, abs=0.03)
    assert all(each.job.least_cores == each.job.cores for each in gpu)
    assert all(each.job.cores * each.job.min_gpus <= 28 for each in gpu)
    run_s = [each.work / each.law.rate([Spot(1, None, 1, each.job.cores)]) for each in gpu]
    assert part(run_s, lambda each: each > 3600) == pytest.approx(0.685, abs=0.03)
    assert part(run_s, lambda each: each > 7200) == pytest.approx(0.396, abs=0.03)


def test_tenants_15_to_20_submit_cpu_jobs_alone(jobs):
    kinds = {tenant: {each.job.is_cpu for each in jobs if each.job.tenant == tenant} for tenant in range(1, 21)}
    assert all(kinds[tenant] == {True} for tenant in range(15, 21))
    assert all(kinds[tenant] == {True, False} for tenant in range(1, 15))


def test_cpu_jobs_come_by_day_more_than_by_night(jobs):
    hours = Counter(int(each.job.submitted_s / 3600) % 24 for each in jobs if each.job.is_cpu)
    day, night = (sum(hours[h % 24] for h in span) for span in (range(12, 18), range(24, 30)))
    assert day > 3 * night


def test_batches_are_of_alike_jobs_and_leave_the_number_of_jobs():
    drawn = coda.trainings(np.random.default_rng(3), 30.0, coda.Free(batched=0.5, batch=10.0))
    assert len(drawn.at_s) == pytest.approx(25_000, rel=0.1)
    times, sizes = np.unique(drawn.at_s, return_counts=True)
    alike = drawn.at_s == times[sizes.argmax()]
    assert alike.sum() > 20
    for column in (drawn.tenant, drawn.model, drawn.gpus, drawn.asked):
        assert len(set(column[alike].tolist())) == 1
    assert len(set(drawn.run_s[alike].tolist())) > 20


def test_the_same_seed_draws_the_same_jobs():
    first, again = (coda.generate(np.random.default_rng(5), days=0.1) for _ in range(2))
    assert first == again
