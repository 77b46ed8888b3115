"""What a job asked is kept on a node where nobody tunes its cores, also where other nodes tune."""

import pytest

from scheduler.model import Tenant
from tests.scheduler.builders import job, make_plan, node


def cores_of(made):
    return {each.job: {piece.node: len(piece.cores) for piece in each.pieces} for each in made.placements}


@pytest.mark.parametrize("policy", ["berth", "hops", "coda", "drf", "fifo"])
@pytest.mark.parametrize(
    ("asked", "tunes", "got"), [(12, False, 24), (12, True, 10), (2, False, 4), (None, False, 10), (99, False, 32)]
)
def test_the_cores_follow_the_node(policy, asked, tunes, got):
    made = make_plan([node(1, 4, cores=32, tunes=tunes)], [job(1, 2, cores=5, asked_cores=asked)], policy=policy)
    assert cores_of(made) == {1: {1: got}}
    ids = made.placements[0].pieces[0].cores
    assert len({*ids}) == len(ids)


def test_nobody_loses_cores_for_it_and_what_is_given_back_may_be_had():
    """The job that asked 1 a GPU gives back 16; the one that asked 20 gets of these, and what idles."""
    jobs = [job(1, 4, cores=5, asked_cores=1, wait_s=900.0), job(2, 2, cores=5, asked_cores=20), job(3, 2, cores=5)]
    made = make_plan([node(1, 8, cores=48, tunes=False)], jobs)
    assert cores_of(made) == {1: {1: 4}, 2: {1: 34}, 3: {1: 10}}
    ids = [core for each in made.placements for core in each.pieces[0].cores]
    assert len({*ids}) == len(ids)


def test_a_core_quota_holds():
    made = make_plan(
        [node(1, 4, cores=32, tunes=False)], [job(1, 2, cores=5, asked_cores=12)], tenants=[Tenant(1, core_quota=13)]
    )
    assert cores_of(made) == {1: {1: 13}}
