"""A job's detail is kept when its reason, its side of the window or its binding node changes, and only then (section 8)."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.planning.rounds.models import Explanation, Planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read.explained import explanation
from portal.planning.rounds.record.decisions import decisions_before, decisions_pack
from portal.planning.rounds.record.explanations import (
    explanations_expire,
    explanations_make,
    explanations_of,
    explanations_store,
)
from portal.planning.rounds.record.packing import columns_of
from portal.work.jobs.models import Job
from scheduler.model import Reason, Side
from tests.portal import given
from tests.portal.planning.rounds.record.test_decisions import Made, waiting

pytestmark = pytest.mark.django_db


class Plannings:
    """Applies made-up plannings one after another; each call returns how many details it stored."""

    def __init__(self):
        self.number = 0

    def __call__(self, *decisions, budget_s=10):
        self.number += 1
        record = given.planning_record(self.number, timezone.now())
        details = explanations_make(
            made=Made(decisions),
            columns=columns_of(decisions),
            before=decisions_before(self.number),
            record=record,
            budget_s=budget_s,
        )
        explanations_store(details)
        record.status = Planning.Status.APPLIED
        record.decisions = decisions_pack(Made(decisions), details.marks).bytes
        record.save()
        return len(details.rows)


def inside(job, reason=Reason.GPUS_SCATTERED, node="", **more):
    figures = {"binding": {"node": node, "resource": "gpus"}} if node else {}
    return waiting(
        job.pk, 1, inside_window=True, side=more.pop("side", Side.FRONT), turn=1, reason=reason, figures=figures, **more
    )


def test_what_does_not_change_is_stored_once(cluster):
    job, plan = cluster.submit(gpus=4), Plannings()
    assert plan(inside(job)) == 1
    assert plan(inside(job, latency_ratio=7.0)) == 0, "another latency ratio is in the planning's columns"
    assert plan(inside(job, Reason.NOT_ENOUGH_IDLE_GPUS)) == 1
    assert plan(inside(job, Reason.NOT_ENOUGH_IDLE_GPUS, side=Side.BACKFILL)) == 1
    assert plan(inside(job, Reason.LOST_TO_HIGHER_PRIORITY, "n1", side=Side.BACKFILL)) == 1
    assert plan(inside(job, Reason.LOST_TO_HIGHER_PRIORITY, "n2", side=Side.BACKFILL)) == 1
    assert plan(inside(job, Reason.LOST_TO_HIGHER_PRIORITY, "n2", side=Side.BACKFILL)) == 0


def test_figures_alone_are_refreshed_in_place(cluster):
    job, plan = cluster.submit(gpus=4), Plannings()
    plan(inside(job))
    first = Explanation.objects.get()
    scattered = inside(job)
    scattered.figures["idle"] = 3
    assert plan(scattered) == 0
    told = explanations_of([job.pk])[job.pk]
    assert (told["figures"], told["planning"], Explanation.objects.get().pk) == ({"idle": 3}, 2, first.pk)
    plan(scattered)
    assert explanations_of([job.pk])[job.pk]["planning"] == 2, "the same figures are not written again"


def test_outside_the_window_nothing_is_stored_but_the_step_out_of_it(cluster):
    job, plan = cluster.submit(), Plannings()
    assert plan(waiting(job.pk, 5)) == 0
    assert plan(inside(job)) == 1
    assert plan(waiting(job.pk, 5)) == 1
    assert plan(waiting(job.pk, 6)) == 0


def test_the_rows_of_one_page_count_what_was_idle_at_one_time(cluster):
    """A job of the sweep, outside the window, named 5 idle GPUs beside one of the window that named 2."""
    first, second, plan = cluster.submit(gpus=4), cluster.submit(gpus=4), Plannings()
    for idle in (5, 2):
        swept = waiting(second.pk, 2, reason=Reason.NOT_ENOUGH_IDLE_GPUS, figures={"idle": idle})
        head = inside(first, Reason.NOT_ENOUGH_IDLE_GPUS)
        head.figures["idle"] = idle
        plan(head, swept)
    assert [told["figures"]["idle"] for told in explanations_of([first.pk, second.pk]).values()] == [2, 2]


def test_what_one_planning_has_no_time_for_the_next_ones_make(cluster):
    jobs, plan = [cluster.submit() for _ in range(3)], Plannings()
    assert [plan(*map(inside, jobs), budget_s=0) for _ in range(4)] == [1, 1, 1, 0]
    assert [row.job_id for row in Explanation.objects.order_by("pk")] == [job.pk for job in jobs]


def test_detail_is_read_as_it_stood_then(cluster):
    job, plan = cluster.submit(), Plannings()
    plan(inside(job, Reason.LOST_TO_HIGHER_PRIORITY, "n1"))
    plan(inside(job, Reason.LOST_TO_HIGHER_PRIORITY, "n1"))
    plan(inside(job, Reason.GPUS_SCATTERED))
    assert explanations_of([job.pk], number=2)[job.pk]["figures"]["binding"]["node"] == "n1"
    assert explanations_of([job.pk], number=2)[job.pk]["planning"] == 1
    assert explanations_of([job.pk])[job.pk]["reason"] == "gpus-scattered"


def test_old_details_go_but_for_the_one_in_force_of_a_waiting_job(cluster):
    waits, ended, plan = cluster.submit(), cluster.submit(), Plannings()
    plan(inside(waits), inside(ended))
    plan(inside(waits, Reason.NOT_ENOUGH_CORES), inside(ended))
    Job.objects.filter(pk=ended.pk).update(state="CANCELLED", ended_at=timezone.now(), waiting_since=None)
    Explanation.objects.update(at=timezone.now() - timedelta(days=6))
    assert explanations_expire() == 0
    Explanation.objects.update(at=timezone.now() - timedelta(days=8))
    assert explanations_expire() == 2
    assert [row.reason for row in Explanation.objects.all()] == ["not-enough-cores"]


def test_storing_costs_the_same_number_of_queries_for_three_jobs_and_for_three_hundred(cluster):
    template, plan, costs = cluster.submit(), Plannings(), []
    fields = {f.name: getattr(template, f.name) for f in Job._meta.concrete_fields if f.name != "id"}
    for count in (3, 60):
        jobs = Job.objects.bulk_create(Job(**fields) for _ in range(count))
        with CaptureQueriesContext(connection) as queries:
            plan(*(inside(job) for job in jobs))
        costs.append(sum("rounds_explanation" in query["sql"] or "decisions" in query["sql"] for query in queries))
    assert costs[0] == costs[1]


def test_a_waiting_job_says_where_it_stands(cluster):
    given.node_make("n2", gpus=2)
    cluster.started(gpus=1)
    large, small = cluster.submit(gpus=4), cluster.submit(gpus=[1, 2])
    planning_run()
    large.refresh_from_db()
    told = explanation(large)
    assert told["reason"] in {"not-enough-idle-gpus", "gpus-scattered"}
    assert (told["array"], told["side"], told["ahead"], told["place"]) == ("gpu-small", "front", 0, 1)
    assert told["figures"]["needs"]["min_gpus"] == 4
    assert (told["chosen"], told["candidates"], told["formulation"]) == (None, [], "none")
    small.refresh_from_db()
    placed = explanation(small)
    assert (placed["state"], placed["reason"], placed["ahead"]) == ("STARTING", None, None)
    assert placed["sentence"].startswith("Placed on n")
    assert placed["placement"][0]["gpus"]
    assert placed["chosen"]["gpus"] in {1, 2}
