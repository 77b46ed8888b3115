"""The queue's order (algorithms.md section 3; a tenant's own priority, section 1)."""

from scheduler.fairness.lrf import Age
from scheduler.fairness.priorities import PRIORITIES, order
from tests.scheduler.builders import job


def ids(jobs, kind="lrf", now_s=1000.0):
    queue = order(jobs, PRIORITIES[kind], now_s, lambda each: Age(each.age_s, "test"))
    assert [ranked.rank for ranked in queue] == list(range(1, len(queue) + 1))
    return [ranked.job.id for ranked in queue]


def test_fifo_is_by_submission_then_id():
    assert ids([job(3, 1), job(1, 1), job(2, 1, submitted_s=1.0)], "fifo") == [1, 2, 3]


def test_lrf_puts_the_longest_wait_for_its_length_first():
    jobs = [job(1, 1, wait_s=100, age_s=1000), job(2, 1, wait_s=50, age_s=100), job(3, 1, wait_s=500, age_s=2000)]
    assert ids(jobs) == [2, 3, 1]


def test_ties_go_to_the_earliest_submission_then_the_lowest_id():
    jobs = [job(1, 1, submitted_s=9.0), job(3, 1, submitted_s=2.0), job(2, 1, submitted_s=2.0)]
    assert ids(jobs) == [2, 3, 1]


def test_a_tenants_priority_orders_its_own_jobs_and_moves_nobody_else():
    jobs = [
        job(1, 1, wait_s=500),
        job(2, 1, wait_s=400, tenant=2),
        job(3, 1, wait_s=300),
        job(4, 1, wait_s=200, tenant=2),
        job(5, 1, wait_s=100, priority=100),
    ]
    assert ids(jobs) == [5, 2, 1, 4, 3]


def test_the_weight_belongs_to_the_place_the_latency_ratio_to_the_job():
    queue = order(
        [job(1, 1, wait_s=600), job(2, 1, wait_s=60, priority=1)], PRIORITIES["lrf"], 0.0, lambda _: Age(600.0, "test")
    )
    assert [(each.job.id, each.prior, each.latency_ratio) for each in queue] == [(2, 1.0, 0.1), (1, 0.1, 1.0)]
