"""The queue's order (algorithms.md section 3; a tenant's own priority, section 1)."""

import pytest

from scheduler.fairness.lrf import Age
from scheduler.fairness.priorities import PRIORITIES, Moment, order
from tests.scheduler.builders import job, make_plan, node, where


def ids(jobs, kind="lrf", now_s=1000.0, **more):
    queue = order(jobs, PRIORITIES[kind], Moment(now_s, **more), lambda each: Age(each.age_s, "test"))
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
        [job(1, 1, wait_s=600), job(2, 1, wait_s=60, priority=1)],
        PRIORITIES["lrf"],
        Moment(0.0),
        lambda _: Age(600.0, "test"),
    )
    assert [(each.job.id, each.prior, each.latency_ratio) for each in queue] == [(2, 1.0, 0.1), (1, 0.1, 1.0)]


def test_sjf_looks_at_the_length_and_srtf_at_what_is_left_of_it():
    jobs = [job(1, 1, age_s=1000, done_fraction=0.9), job(2, 1, age_s=300), job(3, 1, age_s=500, done_fraction=0.3)]
    assert ids(jobs, "sjf") == [2, 3, 1]
    assert ids(jobs, "srtf") == [1, 2, 3]


def test_las_puts_the_least_served_first():
    jobs = [job(1, 8, attained_gpu_s=100.0), job(2, 1, attained_gpu_s=90.0), job(3, 1)]
    assert ids(jobs, "las") == [3, 2, 1]


def test_finish_time_fairness_is_shared_time_over_the_time_on_an_equal_part():
    """Submitted 400 s ago, 600 s of work on 2 GPUs left: T_shared 1000. On 8/8 = 1 GPU it takes 1200 s, on 2 600 s."""
    rho = PRIORITIES["ftf"]
    asked = job(1, 2, submitted_s=600.0, age_s=600.0)
    assert rho(asked, Moment(1000.0, gpus=8, jobs=8), 600.0) == pytest.approx(1000 / 1200)
    assert rho(asked, Moment(1000.0, gpus=64, jobs=2), 600.0) == pytest.approx(1000 / 600)
    assert rho(job(2, submitted_s=600.0), Moment(1000.0, gpus=0, jobs=0), 600.0) == pytest.approx(1000 / 600)
    late, early = job(3, 1, submitted_s=0.0, age_s=100), job(4, 1, submitted_s=0.0, age_s=5000)
    assert ids([early, late], "ftf") == [3, 4]


def test_the_priority_is_a_knob_of_hops():
    jobs = [job(1, 2, wait_s=900, age_s=9000), job(2, 2, wait_s=90, age_s=90)]
    nodes = [node(1, 2)]
    assert list(where(make_plan(nodes, jobs))) == [2]
    assert list(where(make_plan(nodes, jobs, priority="fifo"))) == [1]


def test_lr_is_capped_at_100_in_the_objective_and_nowhere_else():
    """Section 3: the order and the pages keep the true ratio; other priorities are no ratios and are not capped."""
    jobs = [
        job(1, 1, wait_s=20_000, age_s=100),
        job(2, 1, wait_s=500_000, age_s=100),
        job(3, 1, wait_s=5000, age_s=100),
    ]

    def queue(kind):
        return order(jobs, PRIORITIES[kind], Moment(10_000.0), lambda each: Age(each.age_s, "test"))

    assert [(each.job.id, each.prior, each.latency_ratio) for each in queue("lrf")] == [
        (2, 100.0, 5000.0),
        (1, 100.0, 200.0),
        (3, 50.0, 50.0),
    ]
    assert [each.prior for each in queue("fifo")] == [9999.0, 9998.0, 9997.0]


def test_who_waited_longer_outweighs_under_fifo_whatever_the_hours():
    """All waited for more than 100 s: the weights must still tell them apart (an LR cap on seconds would not)."""
    first, last = job(1, 4, submitted_s=0.0), job(2, 1, 4, submitted_s=9000.0)  # of 4 GPUs the last one gains more
    made = make_plan([node(1, 4)], [first, last], now_s=10_000.0, policy="hops", priority="fifo", window_size=2.0)
    assert where(made) == {1: {1: 4}}
