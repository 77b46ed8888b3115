"""Many rows in one statement: the values that arrive are those that were sent, of every kind of column."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from portal import bulk
from portal.bulk import among, rows_update
from portal.jobs.models import Job
from tests.portal import given

FIELDS = ["reason", "reason_figures", "reason_at", "in_window", "waited_s", "age_s", "epoch", "waiting_since"]


def test_rows_get_their_own_values(cluster):
    first, second, third = (cluster.submit() for _ in range(3))
    at = timezone.now() - timedelta(hours=1)
    sent = [
        (first.pk, "held", {"a": [1, None, 'it\'s; "q" \\ %s']}, at, True, 1.5, None, 3, None),
        (second.pk, "", {}, None, None, 0.0, 7.25, 0, at),
    ]
    with given.statements(1):
        rows_update(model=Job, fields=FIELDS, rows=sent)
    stored = Job.objects.filter(pk__in=[first.pk, second.pk]).order_by("pk").values_list("pk", *FIELDS)
    assert list(stored) == sent
    assert Job.objects.get(pk=third.pk).reason == third.reason


def test_many_rows_arrive_alike(cluster, monkeypatch):
    """However they are sent: above COPIED_FROM Postgres gets them by COPY, in a fixed number of statements."""
    monkeypatch.setattr(bulk, "COPIED_FROM", 2)
    first, second, third = (cluster.submit() for _ in range(3))
    at = timezone.now() - timedelta(hours=1)
    odd = {"a": [1, None, 'it\'s; "q" \\ %s \t\n'], "at": 1.5, "deep": {"é": "\\N"}}
    sent = [
        (second.pk, "", {}, None, None, 0.0, 7.25, 0, at),
        (first.pk, "held\t\\N", odd, at, True, 1.5, None, 3, None),
    ]
    with given.statements(4 if connection.vendor == "postgresql" else 1):
        rows_update(model=Job, fields=FIELDS, rows=sent)
    stored = Job.objects.filter(pk__in=[first.pk, second.pk]).order_by("-pk").values_list("pk", *FIELDS)
    assert list(stored) == sent
    assert Job.objects.get(pk=third.pk).reason == third.reason
    rows_update(model=Job, fields=["epoch"], rows=[(first.pk, 9), (second.pk, 8)])  # in the same transaction
    assert list(Job.objects.filter(epoch__gte=8).order_by("pk").values_list("epoch", flat=True)) == [9, 8]


def test_no_rows_no_statement(cluster):
    with given.statements(0):
        rows_update(model=Job, fields=FIELDS, rows=[])


@pytest.mark.parametrize("count", [0, 2, 40_000])
def test_among_any_number_of_ids(cluster, count):
    jobs = {cluster.submit().pk, cluster.submit().pk}
    wanted = [*jobs, *range(10**6, 10**6 + count)][:count]
    assert set(Job.objects.filter(pk__in=among(wanted)).values_list("pk", flat=True)) == set(wanted) & jobs
