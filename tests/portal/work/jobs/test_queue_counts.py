"""The queue in figures: counted by the database, equal to a count by hand, however many jobs wait."""

import random
from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from statistics import fmean

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.pages.dashboard.overview.tiles import tile_contexts
from portal.pages.dashboard.parts.snapshot import Snapshot
from portal.work.jobs.models import Job
from portal.work.jobs.queue_counts import demand_by_types, first_in_order, queue_counts
from tests.portal.given import multiply, statements

MANY = 20_050
REASONS = ("", "gpus-scattered", "tenant-quota", "dependency")
JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "state": st.sampled_from(["PENDING", "PENDING", "HELD", "RUNNING", "COMPLETED"]),
            "reason": st.sampled_from(REASONS),
            "gpus": st.sampled_from([[0], [1], [2, 4], [4], [8]]),
            "waits_s": st.none() | st.integers(0, 10**6),
            "waited_s": st.floats(0, 10**5),
            "age_s": st.none() | st.floats(1, 10**5),
            "cancelled": st.booleans(),
            "array_size": st.sampled_from([None, None, None, 10]),
        }
    ),
    max_size=25,
)


def write(cluster, rows, now):
    """Write jobs as they may stand in the database; past the services, which would not make every mixture at once."""
    Job.objects.all().delete()
    Job.objects.bulk_create(
        Job(
            tenant=cluster.tenant,
            owner=cluster.owner,
            name="job",
            state=row["state"],
            reason=row["reason"],
            gpus=row["gpus"],
            waited_s=row["waited_s"],
            age_s=row["age_s"],
            submitted_at=now,
            waiting_since=_since(row, now),
            cancel_requested_at=now if row["cancelled"] else None,
            array_size=row["array_size"],
            ended_at=now if row["state"] == "COMPLETED" else None,
        )
        for row in rows
    )


def _since(row, now):
    waits = row["state"] == "PENDING" and row["waits_s"] is not None
    return now - timedelta(seconds=row["waits_s"]) if waits else None


@pytest.mark.django_db
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=JOBS)
def test_the_database_counts_as_one_would_by_hand(cluster, rows):
    now = timezone.now()
    with transaction.atomic():
        write(cluster, rows, now)
        with statements(1):
            counts = queue_counts(now=now)
        with statements(1):
            numbers = queue_counts(now=None)
    untold = {"longest_s": 0.0, "ratios": 0, "ratio_sum": None, "ratio_max": None}
    assert [asdict(group) for group in numbers.groups] == [asdict(group) | untold for group in counts.groups]
    queued = [
        row for row in rows if row["state"] in {"PENDING", "HELD"} and not row["cancelled"] and not row["array_size"]
    ]
    eligible = [row for row in queued if row["state"] == "PENDING" and row["waits_s"] is not None]
    waited = [row["waited_s"] + row["waits_s"] for row in eligible]
    ratios = [w / row["age_s"] for row, w in zip(eligible, waited, strict=True) if row["age_s"]]
    assert counts.jobs == len(eligible)
    assert counts.gpus == sum(min(row["gpus"]) for row in eligible)
    assert counts.oldest_s == pytest.approx(max(waited), abs=0.01) if waited else counts.oldest_s is None
    assert (
        counts.ratio_mean == pytest.approx(fmean(ratios), rel=1e-3, abs=0.01) if ratios else counts.ratio_mean is None
    )
    assert counts.ratio_max == pytest.approx(max(ratios), rel=1e-3, abs=0.01) if ratios else counts.ratio_max is None
    aside = Counter("held" if row["state"] == "HELD" else row["reason"] for row in queued if row not in eligible)
    assert counts.aside() == aside
    assert counts.by_size(counts.eligible) == Counter(min(row["gpus"]) for row in eligible if row["gpus"] != [0])


def many(cluster, count):
    now, rng = timezone.now(), random.Random(7)
    Job.objects.bulk_create(
        Job(
            tenant=cluster.tenant,
            owner=cluster.owner,
            name="job",
            gpus=[rng.choice([1, 2, 4])],
            age_s=100.0,
            submitted_at=now,
            waiting_since=now - timedelta(seconds=200),
            reason="outside-window",
            gpu_types=rng.choice([[], ["A100"]]),
        )
        for _ in range(50)
    )
    multiply(Job, count // 50)


def test_no_job_is_left_out_of_the_figures_of_a_long_queue(cluster):
    many(cluster, MANY)
    tiles = {tile["label"]: tile for tile in tile_contexts(Snapshot(cluster.owner))}
    assert tiles["Waiting"]["figure"].replace("\u202f", "") == str(MANY)
    demand = demand_by_types()
    assert sum(jobs for *_, jobs in demand) == MANY
    assert {tuple(types) for _, types, _ in demand} == {(), ("A100",)}


def test_who_is_first_is_found_without_reading_the_queue(cluster):
    many(cluster, 3000)
    ids = list(Job.objects.order_by("-pk").values_list("pk", flat=True))
    gone, ranked, late = ids[0], ids[:2000], ids[-1]
    Job.objects.filter(pk=gone).update(state="CANCELLED", waiting_since=None, ended_at=timezone.now())
    with statements(2):
        found = first_in_order(ranked, count=5)
    assert [job.pk for job, _ in found] == ids[1:6]
    assert [job.pk for job, _ in first_in_order([gone], count=1)] == [late], "those that were not planned, oldest first"


def test_an_arrays_tasks_are_one_row_at_the_place_of_the_first(cluster):
    array = cluster.submit(array={"size": 3000}, gpus=1)
    single = cluster.submit(gpus=1)
    tasks = Job.objects.filter(array=array).order_by("pk")
    now = timezone.now()
    Job.objects.filter(array_size=None).update(waiting_since=now)
    shown = [(job.pk, times) for job, times in first_in_order(tasks.values_list("pk", flat=True), count=5)]
    assert shown == [(tasks.first().pk, tasks.count()), (single.pk, 1)]


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="tests/postgres runs this file again")
def test_postgres_counts_by_the_index_alone(shared_cluster):
    many(shared_cluster, 20_000)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE jobs_job")
        cursor.execute("SET enable_seqscan = off")  # so few rows are read faster as a whole
        cursor.execute(
            "EXPLAIN SELECT state, reason, gpus_least, waiting_since IS NULL, count(*), sum(waited_s / age_s) FROM jobs_job "
            "WHERE array_size IS NULL AND cancel_requested_at IS NULL AND ended_at IS NULL "
            "AND state IN ('PENDING', 'HELD') GROUP BY 1, 2, 3, 4"
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
        cursor.execute("RESET enable_seqscan")
    assert "Index Only Scan using job_unfinished_counts" in plan
