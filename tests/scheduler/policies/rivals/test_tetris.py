"""Policy `tetris` (Grandl et al., SIGCOMM '14), by section."""

from functools import partial

from scheduler.model import Tenant
from tests.scheduler.builders import job, make_plan, node, running, where

planned = partial(make_plan, policy="tetris")


def test_the_job_whose_demand_aligns_with_what_is_idle_comes_first():
    """3.2: idle are 8 of 8 GPUs and 4 of 16 cores: a = 2/8 + 4/16 * 4/16 and 4/8 + 4/16 * 4/16; p is 300 for both."""
    jobs = [job(1, 2, cores=2, age_s=600), job(2, 4, cores=1, age_s=400)]
    assert where(planned([node(1, 8, cores=16, idle_cores=4)], jobs)) == {2: {1: 4}}


def test_of_equal_demands_the_one_with_less_remaining_work_comes_first():
    """3.3: a - (mean a / mean p) * p, with the same a."""
    jobs = [job(1, 4, age_s=900), job(2, 4, age_s=100), job(3, 4, age_s=900, done_fraction=0.95)]
    assert where(planned([node(1, 4)], jobs)) == {3: {1: 4}}


def test_little_work_wins_over_alignment_when_it_is_little_enough():
    """3.3: on 4 GPUs and 32 cores a = 0.84 and 0.56, p = 844 and 5.6, so that the second scores more."""
    jobs = [job(1, 3, age_s=1000), job(2, 2, age_s=10)]
    assert where(planned([node(1, 4)], jobs)) == {2: {1: 2}}


def test_only_tenants_furthest_below_their_share_are_looked_at_unless_nothing_of_theirs_fits():
    """3.4, f = 0.25: of four tenants the one that holds most waits, though its job aligns best."""
    live = [running(90, 4, 2, gpus=4, cores=4)]
    nodes = [node(1, 4), node(2, 4, idle=0, idle_cores=28)]
    jobs = [job(1, 1, tenant=1), job(2, 1, tenant=2), job(3, 1, tenant=3), job(4, 4, tenant=4)]
    assert where(planned(nodes, jobs, running=live)) == {1: {1: 1}, 2: {1: 1}, 3: {1: 1}}
    assert where(planned(nodes, jobs[3:], running=live)) == {4: {1: 4}}


def test_a_demand_is_met_in_full_or_not_on_this_machine():
    """3.2: peak demands only. Cores that no node has are no demand."""
    assert where(planned([node(1, 4, cores=8, idle_cores=3), node(2, 4, cores=8)], [job(1, 1, cores=4)])) == {1: {2: 1}}
    assert where(planned([node(1, 4, cores=8)], [job(1, 4, cores=4)])) == {1: {1: 4}}


def test_jobs_larger_than_a_node_are_spread_last_and_quotas_hold():
    jobs = [job(1, 8), job(2, 1, tenant=2)]
    assert where(planned([node(1, 4), node(2, 4)], jobs[:1])) == {1: {1: 4, 2: 4}}
    assert where(planned([node(1, 4), node(2, 4)], jobs)) == {2: {1: 1}}
    assert where(planned([node(1, 4)], [job(1, 2), job(2, 2)], tenants=[Tenant(1, gpu_quota=2)])) == {1: {1: 2}}
