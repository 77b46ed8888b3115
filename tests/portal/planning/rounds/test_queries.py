"""How many queries a planning and a poll cost: fixed, for any number of jobs."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.planning.rounds.planning.apply import plan_apply
from portal.planning.rounds.planning.lease import lease_take
from portal.planning.rounds.planning.queued import queue_load
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import parts_wanted
from scheduler import model
from tests.portal import given


def cost(call):
    with CaptureQueriesContext(connection) as queries:
        call()
    return len(queries)


@pytest.fixture
def wide(cluster):
    cluster.node = given.node_make("wide", gpus=64, cores=512, memory_mib=10**6)
    return cluster


def queue(cluster, count):
    template = cluster.submit(gpus=1)
    fields = {f.name: getattr(template, f.name) for f in Job._meta.concrete_fields if f.name != "id"}
    Job.objects.bulk_create(Job(**fields) for _ in range(count - 1))


def test_loading_the_snapshot(wide):
    parameters = scheduler_parameters(knobs_current())
    costs = []
    for jobs, starts in ((10, 2), (190, 20)):
        queue(wide, jobs)
        for _ in range(starts):
            wide.start(Job.objects.filter(state="PENDING").first())
        costs.append(cost(lambda: state_load(now=timezone.now(), parameters=parameters)))
    assert costs[0] == costs[1] <= 23


def decision(job, node=None, offset=0):
    placement = None
    if node is not None:
        piece = model.Piece(node=node.pk, gpus=(offset,), cores=(offset,), memory_mib=0)
        placement = model.Placement(job=job.pk, pieces=(piece,))
    return model.Decision(
        job=job.pk,
        result=model.Result.WAITING if node is None else model.Result.PLACED,
        reason=model.Reason.NOT_ENOUGH_IDLE_GPUS if node is None else None,
        figures={},
        placement=placement,
        eligible=node is None,
    )


class Made:
    def __init__(self, decisions):
        self.decisions = tuple(decisions)
        self.stops = self.promises = self.lapsed = self.reservations = self.profiles = self.harvests = ()


@pytest.mark.parametrize(("few", "many"), [(2, 12)])
def test_applying_costs_the_same_however_many_jobs_it_places(wide, few, many):
    costs, offset = {}, 0
    for count in (few, many):
        jobs = [wide.submit() for _ in range(count)]
        decisions = [decision(job, wide.node, offset + n) for n, job in enumerate(jobs)]
        decisions += [decision(wide.submit()) for _ in range(count)]
        offset += count
        number = lease_take(holder="me")
        record = given.planning_record(number, timezone.now())
        costs[count] = cost(
            lambda d=decisions, r=record: plan_apply(
                made=Made(d), record=r, holder="me", now=timezone.now(), queued=queue_load()
            )
        )
        assert record.placed == count, record.dropped
        given_back(number)
    assert costs[few] == costs[many] <= 45, costs


def given_back(number):
    from portal.planning.rounds.planning.lease import lease_release

    lease_release(holder="me", number=number)


def test_a_plan_that_places_nobody_reads_neither_jobs_nor_nodes(wide):
    """As most do: it is applied in every tick of an idle cluster, and holds the write lock meanwhile."""
    wide.started()
    record = given.planning_record(lease_take(holder="me"), timezone.now())
    with CaptureQueriesContext(connection) as queries:
        plan_apply(made=Made([]), record=record, holder="me", now=timezone.now(), queued=queue_load())
    asked = " ".join(each["sql"] for each in queries)
    assert record.status == "applied"
    assert [
        table for table in ("jobs_attempt", "jobs_allocation", "cluster_gpu", "cluster_node") if table in asked
    ] == []


def test_noting_four_hundred_waiting_jobs_is_a_handful_of_queries(wide):
    queue(wide, 400)
    decisions = [decision(job) for job in Job.objects.all()]
    record = given.planning_record(lease_take(holder="me"), timezone.now())
    assert (
        cost(
            lambda: plan_apply(
                made=Made(decisions), record=record, holder="me", now=timezone.now(), queued=queue_load()
            )
        )
        <= 20
    )
    assert set(Job.objects.values_list("reason", flat=True)) == {"not-enough-idle-gpus"}


def test_a_nodes_wanted_list_is_three_queries(wide):
    costs = []
    for count in (1, 9):
        for _ in range(count):
            wide.started()
        costs.append(cost(lambda: parts_wanted(node_id=wide.node.pk)))
    assert costs == [3, 3]
