"""Policy `sjf`: shortest expected run time first (algorithms.md section 12)."""

from functools import partial

from scheduler.model import Tenant
from tests.scheduler.builders import job, make_plan, node, where

planned = partial(make_plan, policy="sjf")


def test_the_shortest_goes_first_and_who_does_not_fit_is_passed():
    jobs = [job(1, 2, age_s=900), job(2, 4, age_s=60), job(3, 2, age_s=300), job(4, 1, age_s=30)]
    assert where(planned([node(1, 4)], jobs)) == {4: {1: 1}, 3: {1: 2}}


def test_cpu_jobs_stand_in_the_same_queue():
    jobs = [job(1, 1, cores=2, least_cores=2, age_s=100), job(2, cores=3, age_s=50)]
    assert where(planned([node(1, 4, cores=4)], jobs)) == {2: {1: 0}}


def test_a_tenants_quota_stops_its_own_jobs_alone():
    jobs = [job(1, 2, age_s=10), job(2, 2, age_s=20, tenant=2)]
    assert where(planned([node(1, 4)], jobs, tenants=[Tenant(1, gpu_quota=1)])) == {2: {1: 2}}
