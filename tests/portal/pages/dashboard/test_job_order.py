"""The job list's pages, however sorted, are the whole list cut up; their keys come only from indexes, from the nearer end."""

import itertools
import random
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.operate.health import prometheus
from portal.pages.dashboard.jobs.order import NAMED, SORTS, jobs_ordered, page_by_state, page_sorted
from portal.pages.dashboard.jobs.query import GROUPS, ListQuery
from portal.people.tenants.models import Membership, Tenant, User
from portal.work.jobs.models import Job
from portal.work.jobs.queue_counts import queue_counts
from portal.work.jobs.states import FINAL, JobState
from tests.portal import given

SIZE = 7


@pytest.fixture
def filled(cluster):
    """Some ninety jobs of three tenants and four owners in every state, with and without moments, and an array with tasks."""
    rng, now = random.Random(7), timezone.now()
    tenants = [cluster.tenant, *(Tenant.objects.create(name=name) for name in ("a", "z"))]
    owners = [cluster.owner, *(User.objects.create(username=name) for name in ("bo", "al", "cy"))]
    Membership.objects.create(user=owners[1], tenant=tenants[1])
    moments = [now - timedelta(hours=hours) for hours in (3, 2, 1)]

    def job(**more):
        state = rng.choice(JobState.values)
        ended = rng.choice(moments) if state in FINAL else None
        started = rng.choice([*moments, None]) if ended else None
        fields = {
            "tenant": rng.choice(tenants),
            "owner": rng.choice(owners),
            "state": state,
            "waited_s": rng.choice([0, 0, 5, 9]),
        }
        return Job(**fields, name="j", gpus=[1], submitted_at=now, ended_at=ended, started_at=started, **more)

    Job.objects.bulk_create(job() for _ in range(90))
    array = Job.objects.create(
        tenant=tenants[0], owner=owners[0], name="sweep", gpus=[1], submitted_at=now, array_size=3, array_made=3
    )
    Job.objects.bulk_create(job(array=array, array_index=place) for place in range(3))
    return cluster


def by_state(jobs):
    return Counter(jobs.order_by().values_list("state", flat=True))


def by_name(jobs, sort):
    name = sort.removeprefix("-")
    return Counter(jobs.order_by().values_list(name, flat=True)) if name in NAMED else {}


def page_of(jobs, sort, first, whole):
    if sort:
        return page_sorted(jobs, sort, first, SIZE, total=len(whole), named=by_name(jobs, sort))
    return page_by_state(jobs, GROUPS, by_state(jobs), first, SIZE)


@pytest.mark.slow
def test_pages_are_the_list_cut_up(filled):
    users = [filled.owner, User.objects.get(username="bo"), given.operator()]
    for user, sort in itertools.product(users, ["", *SORTS, *(f"-{name}" for name in SORTS)]):
        jobs = Job.objects.visible_to(user).select_related("tenant", "owner").top_level()
        whole = [each.pk for each in jobs_ordered(jobs, sort, GROUPS)]
        places = range(0, len(whole) + 2 * SIZE, SIZE)
        found = [[each.pk for each in page_of(jobs, sort, first, whole)] for first in places]
        assert found == [whole[first : first + SIZE] for first in places], (user, sort)


def test_jobs_of_each_state_are_counted_without_arrays_parents(filled):
    Job.objects.filter(array_size__isnull=False).update(state=JobState.COMPLETED, ended_at=timezone.now())
    done = {"name": "sweep", "owner": filled.owner, "gpus": [1], "array_size": 1, "submitted_at": timezone.now()}
    for name, state in (("a", JobState.COMPLETED), ("z", JobState.RUNNING)):
        Job.objects.create(tenant=Tenant.objects.get(name=name), state=state, **done)
    expected = by_state(Job.objects.runnable())
    assert +prometheus._states(queue_counts(now=timezone.now())) == expected


def test_no_page_costs_more_queries_than_another(filled):
    jobs = Job.objects.top_level()
    most = {"job": 2, "tenant": 3, "owner": 3, "-start": 5, "end": 5}
    for (sort, count), first in itertools.product(most.items(), [0, 40, 84]):
        named = by_name(jobs, sort)
        with CaptureQueriesContext(connection) as captured:
            page_sorted(jobs, sort, first, SIZE, total=91, named=named)
        assert len(captured) <= count, (sort, [each["sql"] for each in captured])


def plan_of(statement):
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {statement}")
        return [row[3] for row in cursor.fetchall()]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a plan of Postgres depends on the tables' sizes")
def test_the_keys_of_a_page_come_from_an_index_alone(filled):
    """The rows are wide, and a tenant's lie all over the table: reading them took most of 200 ms of 150 000 jobs."""
    own, every = Job.objects.top_level().filter(tenant=filled.tenant), Job.objects.top_level()
    counts, operator = by_state(every), given.operator()
    cases = [
        lambda: page_by_state(every, GROUPS, counts, 30, SIZE),
        lambda: page_by_state(own, GROUPS, by_state(own), 20, SIZE),
        lambda: page_by_state(every.filter(owner=filled.owner), GROUPS, counts, 0, SIZE),
        lambda: page_sorted(every, "tenant", 0, SIZE, total=91, named=by_name(every, "tenant")),
        lambda: page_sorted(every, "-owner", 0, SIZE, total=91, named=by_name(every, "owner")),
        lambda: page_sorted(every, "-start", 0, SIZE, total=91, named={}),
        lambda: page_sorted(every, "-end", 0, SIZE, total=91, named={}),
        lambda: ListQuery().counts(user=operator),
        lambda: ListQuery(sort="-owner").counts(user=operator),
        lambda: ListQuery(owner="mine").counts(user=operator),
    ]
    for case in cases:
        with CaptureQueriesContext(connection) as captured:
            case()
        keys = [
            each["sql"]
            for each in captured
            if '"reason_figures"' not in each["sql"] and 'FROM "jobs_job"' in each["sql"]
        ]
        assert keys
        for step in itertools.chain.from_iterable(plan_of(each) for each in keys):
            assert "jobs_job" not in step or "COVERING INDEX" in step, (step, keys)


def test_the_last_page_is_read_from_the_end(filled):
    jobs = Job.objects.top_level()
    with CaptureQueriesContext(connection) as captured:
        rows = page_sorted(jobs, "job", 84, SIZE, total=91, named={})
    assert len(rows) == SIZE
    assert not [each["sql"] for each in captured if "OFFSET" in each["sql"]]
