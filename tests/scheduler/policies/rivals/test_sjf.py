"""Policy `sjf`: shortest expected run time first (algorithms.md section 12)."""

from dataclasses import replace

import numpy as np

from scheduler.model import ClusterState, Tenant
from scheduler.parameters import Parameters
from scheduler.planning.plan import plan
from scheduler.policies.rivals.sjf import POLICY
from scheduler.simulator.rivals import policy_named
from tests.scheduler.builders import NOW_S, check_invariants, job, node, ticking, where


def planned(nodes, jobs, tenants=()):
    state = ClusterState(nodes, jobs, tenants=tenants)
    parameters = replace(Parameters(), policy="sjf")
    made = plan(state, NOW_S, parameters, np.random.default_rng(1), ticking(), policy=POLICY)
    check_invariants(made, state)
    return made


def test_the_shortest_goes_first_and_who_does_not_fit_is_passed():
    jobs = [job(1, 2, age_s=900), job(2, 4, age_s=60), job(3, 2, age_s=300), job(4, 1, age_s=30)]
    assert where(planned([node(1, 4)], jobs)) == {4: {1: 1}, 3: {1: 2}}


def test_cpu_jobs_stand_in_the_same_queue():
    jobs = [job(1, 1, cores=2, least_cores=2, age_s=100), job(2, cores=3, age_s=50)]
    assert where(planned([node(1, 4, cores=4)], jobs)) == {2: {1: 0}}


def test_a_tenants_quota_stops_its_own_jobs_alone():
    jobs = [job(1, 2, age_s=10), job(2, 2, age_s=20, tenant=2)]
    assert where(planned([node(1, 4)], jobs, [Tenant(1, gpu_quota=1)])) == {2: {1: 2}}


def test_it_is_a_simulation_policy():
    assert policy_named("sjf") is POLICY
