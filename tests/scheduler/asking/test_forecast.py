"""Predicted starts (algorithms.md section 7): ranges from simulating the queue forward, and how they fared."""

import math

import numpy as np
import pytest

from scheduler.asking.forecast import Reach, forecast
from scheduler.asking.starts.ranges import LONGEST_S, Accuracy, StartRange, accuracy
from scheduler.estimator.measured import cell_key
from scheduler.model import ClusterState, GpuPart, Reason, Running, Tenant
from scheduler.model.speeds import Cell, Knowledge
from scheduler.parameters import Parameters
from tests.scheduler.builders import NOW_S, job, node, running, ticking


def predicted(nodes, jobs, *, live=(), tenants=(), seed=1, clock=None, limit_s=20.0, **more):
    """{job: (earliest, median, latest)} in seconds from now, as drawn, before calibration; None = beyond the horizon."""
    given = {"horizon_s": more.pop("horizon_s", 86_400), "draws": more.pop("draws", 5), "jobs": more.pop("follow", 99)}
    reach = Reach(**given)
    state = ClusterState(nodes, jobs, live, tenants)
    knobs, rng = Parameters(policy=more.pop("policy", "berth"), **more), np.random.default_rng(seed)
    found = forecast(state, NOW_S, knobs, rng, clock or ticking(), limit_s=limit_s, reach=reach)
    return {
        number: (None, None, None)
        if it.drawn is None
        else tuple(None if each >= LONGEST_S else each for each in (it.drawn.low_s, it.drawn.middle_s, it.drawn.high_s))
        for number, it in found.items()
    }


def held(number, where, gpus, *, started_s=NOW_S - 1, end_s=NOW_S + 600, tenant=9):
    return Running(
        number, tenant, running(0, tenant, where, gpus, gpus).pieces, started_s, (gpus,), expected_end_s=end_s
    )


@pytest.mark.parametrize("absurd", [5e-324, math.nan, -1.0, 0.0])
def test_absurd_speeds_of_one_label_take_no_forecast_from_others(absurd):
    cells = {cell_key("tenant:1:x", kind, 1, 1): Cell(1, mean) for kind, mean in (("a", 1e8), ("b", absurd))}
    nodes = [node(1, 4, gpu_type="a"), node(2, 4, gpu_type="b")]
    state = ClusterState(nodes, [job(1, 1, 2, model_label="x"), job(2, 1, tenant=2)], knowledge=Knowledge(cells))
    found = forecast(state, NOW_S, Parameters(), np.random.default_rng(1), ticking(), reach=Reach(draws=1))
    assert found.keys() == {1, 2}


@pytest.mark.parametrize("policy", ["fifo", "hops", "berth", "coda"])
def test_a_job_that_fits_starts_now_and_the_next_after_it(policy):
    jobs = [job(1, 4, age_s=1000.0, wait_s=100.0), job(2, 4, age_s=1000.0, wait_s=10.0)]
    found = predicted([node(1, 4)], jobs, policy=policy)
    assert found[1] == (0.0, 0.0, 0.0)
    earliest, middle, latest = found[2]
    assert 0 < earliest < middle < latest
    assert 500 < middle < 2000  # about the 1000 s that job 1 is expected to run, by log-normal factors


@pytest.mark.parametrize("policy", ["fifo", "hops", "berth", "coda"])
def test_no_start_is_foretold_on_gpus_that_close_too_soon(policy):
    nodes = [node(1, 4, closes_s=NOW_S + 900.0), node(2, 4, idle=0, idle_cores=28)]
    found = predicted(nodes, [job(1, 4, age_s=7200.0)], live=[held(90, 2, 4)], policy=policy)
    assert found[1][0] > 100, "only when the job on the other node has ended"
    assert predicted(nodes, [job(1, 4, age_s=300.0)], live=[held(90, 2, 4)], policy=policy)[1] == (0.0, 0.0, 0.0)


def test_ends_of_what_runs_and_their_spread():
    """Just started, 600 s expected: the draws spread log-normally about it."""
    earliest, middle, latest = predicted([node(1, 4, idle=0, idle_cores=28)], [job(1, 4)], live=[held(90, 1, 4)])[1]
    assert 200 < earliest < middle < latest < 3000


def test_a_run_that_has_lasted_longer_than_expected_ends_after_now_all_the_same():
    live = [held(90, 1, 4, started_s=NOW_S - 9000, end_s=NOW_S - 3000)]
    earliest, _, latest = predicted([node(1, 4, idle=0, idle_cores=28)], [job(1, 4)], live=live)[1]
    assert 0 < earliest <= latest < 30_000


def test_an_attempt_that_is_being_stopped_is_gone_after_a_restart_cost():
    live = [Running(90, 9, running(0, 9, 1, 4, 4).pieces, NOW_S - 1, (4,), expected_end_s=NOW_S + 9e5, stopping=True)]
    assert predicted([node(1, 4, idle=0, idle_cores=28)], [job(1, 4)], live=live)[1] == (60.0, 60.0, 60.0)


def test_beyond_the_horizon_is_none_and_some_draws_may_reach():
    jobs = [job(number, 4, age_s=1000.0, wait_s=100.0 - number) for number in range(1, 7)]
    found = predicted([node(1, 4)], jobs, horizon_s=2500)
    assert found[1] == (0.0, 0.0, 0.0)
    assert found[6] == (None, None, None)
    assert any(first is not None and last is None for first, _, last in found.values())


def test_who_cannot_start_by_itself_is_not_predicted():
    jobs = [
        job(1, 1),
        job(2, 1, eligible=False, ineligible_reason=Reason.HELD),
        job(3, 99),
        job(4, 2, 1),
        job(5, 1, gpu_types=frozenset({"h100"})),
    ]
    assert set(predicted([node(1, 4), node(2, -1)], jobs)) == {1}


def test_a_quota_frees_when_the_tenants_own_jobs_end():
    tenants = [Tenant(1, gpu_quota=4)]
    found = predicted([node(1, 8)], [job(1, 4, wait_s=99.0), job(2, 4)], tenants=tenants)
    assert found[1] == (0.0, 0.0, 0.0)
    assert found[2][0] > 0


def test_nodes_of_one_tenant_at_a_time_change_hands_when_empty():
    shy = {"single_account": True, "trusts_tenants": False}
    found = predicted([node(1, 4, **shy)], [job(1, 1, wait_s=99.0), job(2, 1, tenant=2, wait_s=1.0)])
    assert found[1] == (0.0, 0.0, 0.0)
    assert found[2][0] > 0


def test_larger_placements_run_shorter():
    """Elastic job 1 gets 4 of {1, 4} GPUs: it runs (2.5/4)^0.9 of its age, and job 2 starts after that."""
    short = predicted([node(1, 4)], [job(1, 1, 4, wait_s=99.0, age_s=1000.0), job(2, 4)], draws=1)[2][1]
    long = predicted([node(1, 4)], [job(1, 4, wait_s=99.0, age_s=1000.0), job(2, 4)], draws=1)[2][1]
    assert short == pytest.approx(long * (2.5 / 4) ** 0.9)


def test_cpu_jobs_are_predicted_too():
    found = predicted([node(1, 0, cores=4)], [job(1, cores=4, wait_s=99.0), job(2, cores=4)])
    assert found[1] == (0.0, 0.0, 0.0)
    assert found[2][0] > 0


def queue():
    return [job(n, *((1,), (2, 4), (8,))[n % 3], tenant=1 + n % 2, wait_s=float(n * 37 % 500)) for n in range(1, 25)]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_ranges_and_another_seed_others():
    nodes = [node(1, 8), node(2, 8)]
    first, again, other = (predicted(nodes, queue(), seed=seed, draws=2) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_only_the_first_of_a_long_queue_are_followed():
    assert len(predicted([node(1, 8), node(2, 8)], queue(), follow=5, draws=1)) == 5


def test_time_that_is_up_leaves_fewer_draws_and_what_is_known_by_then():
    nodes, jobs = [node(1, 4)], [job(n, 4, wait_s=100.0 - n) for n in range(1, 9)]
    found = forecast(
        ClusterState(nodes, jobs), NOW_S, Parameters(), np.random.default_rng(1), ticking(1.0), limit_s=3.5
    )
    assert {each.draws for each in found.values()} == {1}
    assert found[1].median_s == NOW_S
    assert found[8].median_s is None


def test_draws_that_are_cut_off_leave_the_middle_one_and_pairs():
    """Of five draws 2, 0, 4, 1, 3 a limit leaves one, three or five: never early ones alone."""
    nodes, jobs = [node(1, 4)], [job(1, 4, wait_s=9.0, age_s=1000.0), job(2, 4, wait_s=1.0, age_s=1000.0)]
    full = predicted(nodes, jobs)[2]
    seen = {}
    for limit_s in range(2, 40, 4):
        state, knobs = ClusterState(nodes, jobs), Parameters(policy="berth")
        found = forecast(state, NOW_S, knobs, np.random.default_rng(1), ticking(1.0), limit_s=limit_s)[2]
        seen.setdefault(found.draws, found)
    assert set(seen) == {1, 3, 5}
    assert seen[3].median_s - NOW_S == pytest.approx(full[1], rel=0.5)
    assert seen[3].earliest_s < seen[3].median_s < seen[3].latest_s


def test_a_reach_of_nothing_is_refused():
    with pytest.raises(ValueError, match="draws=0"):
        predicted([node(1)], [job(1, 1)], draws=0)


def test_the_record_of_past_predictions():
    rows = [
        (StartRange(100.0, 150.0, 200.0, 5), 0.0, 180.0),  # covered, 30 s off in a wait of 180 s
        (StartRange(100.0, 150.0, 200.0, 5), 0.0, 250.0),  # late
        (StartRange(100.0, 150.0, None, 5), 50.0, 950.0),  # some draws beyond the horizon: covered
        (StartRange(None, None, None, 5), 0.0, 90.0),  # said beyond the horizon, and was not
    ]
    record = accuracy(rows)
    assert (record.jobs, record.covered, record.coverage) == (4, 2, 0.5)
    assert record.median_error_s == 100.0
    assert record.median_error_of_wait == pytest.approx(100 / 250)
    assert accuracy([]) == Accuracy(0, 0, None, None, None)
    assert not math.isnan(record.coverage)


def test_nothing_is_foretold_of_a_job_that_shares_a_gpu():
    sharer = job(2, 1, part=GpuPart(250, 1024))
    assert set(predicted([node(1, 2)], [job(1, 1), sharer])) == {1}
