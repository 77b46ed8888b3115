"""Arrays and what people do to jobs: hold, release, cancel, requeue, priority."""

import time

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.foundation.errors import BerthError
from portal.work.jobs.models import Job
from portal.work.jobs.services import reconciling
from portal.work.jobs.services.arrays import TASKS_AHEAD
from portal.work.jobs.services.control import job_cancel, job_hold, job_priority_set, job_release, job_requeue
from portal.work.jobs.services.reconciling import reconcile
from tests.portal import given


@pytest.fixture
def big(cluster):
    cluster.node = given.node_make("big", gpus=0, cores=400)
    return cluster


def tasks(parent, state=None):
    found = Job.objects.filter(array=parent).order_by("array_index")
    return found if state is None else found.filter(state=state)


def start_task(cluster, parent):
    return cluster.start(tasks(parent, "PENDING").first(), gpus=0)


def fresh(job):
    return Job.objects.get(pk=job.pk)


@pytest.mark.slow
def test_a_hundred_thousand_tasks_are_few_rows_and_fast(big):
    began = time.process_time()
    with CaptureQueriesContext(connection) as queries:
        parent = big.submit(gpus=0, array={"size": 100_000})
    assert time.process_time() - began < 1.0
    assert len(queries) < 40
    assert tasks(parent).count() == TASKS_AHEAD
    assert fresh(parent).array_counts == {"PENDING": TASKS_AHEAD}


def test_tasks_are_made_as_others_start(big):
    parent = big.submit(gpus=0, array={"size": TASKS_AHEAD + 2})
    for expected in (TASKS_AHEAD + 1, TASKS_AHEAD + 2, TASKS_AHEAD + 2):
        attempt = start_task(big, parent)
        assert tasks(parent).count() == expected
    big.report(attempt, "running")
    assert fresh(parent).state == "RUNNING"
    assert not given.violations()


def test_the_concurrency_cap_bounds_all_that_have_not_ended(big):
    parent = big.submit(gpus=0, array={"size": 7, "concurrency": 3})
    most, ended = 0, 0
    while tasks(parent, "PENDING").exists():
        attempt = start_task(big, parent)
        big.report(attempt, "running")
        most = max(most, tasks(parent).exclude(state="COMPLETED").count())
        big.end(attempt)
        ended += 1
    assert (most, ended) == (3, 7)
    assert (fresh(parent).state, fresh(parent).array_counts) == ("COMPLETED", {"COMPLETED": 7})
    assert fresh(parent).ended_at is not None


def counting(queries):
    return [each["sql"] for each in queries if "GROUP BY" in each["sql"] and "COUNT(" in each["sql"]]


def test_a_tasks_moves_are_counted_without_counting_all(big):
    parent = big.submit(gpus=0, array={"size": 8})
    with CaptureQueriesContext(connection) as queries:
        attempts = [start_task(big, parent) for _ in range(3)]
        for attempt in attempts[:2]:
            big.report(attempt, "running")
        big.end(attempts[0])
        big.end(attempts[1], exit_code=1)
        job_hold(job=tasks(parent, "PENDING").first(), actor=big.owner)
    assert not counting(queries)
    assert fresh(parent).array_counts == {"COMPLETED": 1, "FAILED": 1, "HELD": 1, "PENDING": 4, "STARTING": 1}
    assert not given.violations()


@pytest.mark.parametrize("wrong", [{}, {"PENDING": 900}, {"RUNNING": 8}])
def test_counts_that_cannot_be_are_recounted_at_the_next_move(big, wrong):
    parent = big.submit(gpus=0, array={"size": 8})
    Job.objects.filter(pk=parent.pk).update(array_counts=wrong)
    start_task(big, parent)
    assert fresh(parent).array_counts == {"PENDING": 7, "STARTING": 1}


def test_counts_hold_when_tasks_move_at_once(shared_cluster):
    cluster = shared_cluster
    cluster.node = given.node_make("big", gpus=0, cores=40)
    parent = cluster.submit(gpus=0, array={"size": 12})
    attempts = [start_task(cluster, parent) for _ in range(6)]
    results = given.race(*[lambda a=a: cluster.report(a, "running") for a in attempts], reconciling._arrays_refresh)
    assert not [each for each in results if isinstance(each, BaseException)], results
    assert fresh(parent).array_counts == {"PENDING": 6, "RUNNING": 6}


def test_an_array_ends_with_the_worst_of_its_tasks(big):
    parent = big.submit(gpus=0, array={"size": 2})
    for exit_code in (1, 0):
        big.end(start_task(big, parent), exit_code=exit_code)
    assert fresh(parent).state == "FAILED"
    with pytest.raises(BerthError) as error:
        job_cancel(job=parent, actor=big.owner)
    assert error.value.code == "terminal_state"


def test_hold_keeps_the_rest_from_starting_while_tasks_run_on(big):
    parent = big.submit(gpus=0, array={"size": 300}, restartable=True)
    attempt = start_task(big, parent)
    job_hold(job=parent, actor=big.owner)
    assert fresh(parent).state == "HELD"
    assert not tasks(parent, "PENDING").exists()
    big.report(attempt, "running")
    reconcile_arrays()
    assert (fresh(parent).state, fresh(parent).held_by) == ("HELD", "lena")
    job_requeue(job=attempt.job, actor=big.owner)
    big.end(attempt, reason="stopped", exit_code=None)
    assert not tasks(parent, "PENDING").exists(), "a task that waits again is held with its array"
    job_release(job=parent, actor=big.owner)
    assert not tasks(parent, "HELD").exists()
    assert fresh(parent).state == "PENDING"
    assert not given.violations()


def reconcile_arrays():
    from portal.work.jobs.services.reconciling import _arrays_refresh

    _arrays_refresh()


def test_cancel_ends_waiting_tasks_at_once_and_running_ones_when_stopped(big):
    parent = big.submit(gpus=0, array={"size": 300})
    attempt = start_task(big, parent)
    big.report(attempt, "running")
    job_cancel(job=parent, actor=big.owner)
    assert fresh(parent).state == "RUNNING"
    assert not tasks(parent, "PENDING").exists()
    big.end(attempt, reason="stopped", exit_code=None)
    assert fresh(parent).state == "CANCELLED"
    assert fresh(parent).array_made <= TASKS_AHEAD + 1
    reconcile_arrays()
    assert not given.violations()


def test_reconcile_writes_nothing_for_an_array_at_rest(big):
    big.submit(gpus=0, array={"size": 300})
    with CaptureQueriesContext(connection) as queries:
        reconcile_arrays()
    assert not [q for q in queries.captured_queries if q["sql"].startswith(("UPDATE", "INSERT"))]


class TestRefusals:
    """A refused action names why and changes nothing."""

    @pytest.mark.parametrize("started", [False, True])
    def test_release_of_what_is_not_held(self, cluster, started):
        attempt = cluster.started() if started else None
        job = attempt.job if started else cluster.submit()
        if started:
            cluster.report(attempt, "running")
        self.refused(job, "not_held", lambda: job_release(job=job, actor=cluster.owner))

    def test_hold_of_what_runs(self, cluster):
        job = cluster.running().job
        self.refused(job, "not_waiting", lambda: job_hold(job=job, actor=cluster.owner))

    def test_requeue(self, cluster):
        waiting, rigid = cluster.submit(restartable=True), cluster.running().job
        array = cluster.submit(gpus=0, array={"size": 3}, restartable=True)
        self.refused(waiting, "not_running", lambda: job_requeue(job=waiting, actor=cluster.owner))
        self.refused(rigid, "not_requeueable", lambda: job_requeue(job=rigid, actor=cluster.owner))
        self.refused(array, "array", lambda: job_requeue(job=array, actor=cluster.owner))

    @pytest.mark.parametrize("verb", [job_cancel, job_hold, job_release, job_requeue])
    def test_ended(self, cluster, verb):
        attempt = cluster.running()
        cluster.end(attempt)
        self.refused(attempt.job, "terminal_state", lambda: verb(job=attempt.job, actor=cluster.owner))

    @pytest.mark.parametrize(("priority", "code"), [(1, "priority_too_high"), (-101, "out_of_range")])
    def test_priority(self, cluster, priority, code):
        job = cluster.submit()
        self.refused(job, code, lambda: job_priority_set(job=job, actor=cluster.owner, priority=priority))

    def refused(self, job, code, call):
        before = Job.objects.filter(pk=job.pk).values().get()
        with pytest.raises(BerthError) as error:
            call()
        assert error.value.code == code
        assert Job.objects.filter(pk=job.pk).values().get() == before
        assert not given.violations()


def test_hold_and_release_stop_the_waiting(cluster):
    job = cluster.submit()
    assert job.waiting_since
    job_hold(job=job, actor=cluster.owner)
    held = fresh(job)
    assert (held.state, held.waiting_since, held.reason) == ("HELD", None, "held")
    assert held.waited_s > 0
    job_release(job=job, actor=cluster.owner)
    assert (fresh(job).state, fresh(job).waited_s) == ("PENDING", held.waited_s)


def test_priority_of_an_array_reaches_its_waiting_tasks_though_some_run(big):
    parent = big.submit(gpus=0, array={"size": 3})
    running = start_task(big, parent)
    big.report(running, "running")
    job_priority_set(job=parent, actor=big.owner, priority=-5)
    assert sorted(tasks(parent).values_list("priority", flat=True)) == [-5, -5, 0]


def test_cancel_of_a_waiting_job_is_at_once_and_reconcile_finds_a_forgotten_one(cluster, broker_settings):
    job = cluster.submit()
    job_cancel(job=job, actor=cluster.owner)
    assert fresh(job).state == "CANCELLED"
    other = cluster.submit()
    Job.objects.filter(pk=other.pk).update(cancel_requested_at=other.submitted_at)
    assert reconcile()["cancelled"] == 1
    assert fresh(other).state == "CANCELLED"
