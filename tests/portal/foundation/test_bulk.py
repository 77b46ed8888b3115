"""Many rows in one statement: the values that arrive are those that were sent, of every kind of column."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from portal.foundation import bulk
from portal.foundation.bulk import INSERTED_FROM, among, rows_insert, rows_update
from portal.foundation.events.models import OutboxMessage
from portal.work.jobs.models import Job, JobEvent
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
        rows_insert(model=JobEvent, fields=["job"], rows=[])


@pytest.mark.parametrize("count", [1, INSERTED_FROM, 3 * INSERTED_FROM])
def test_rows_inserted_are_those_that_were_sent(cluster, count):
    job, at = cluster.submit(), timezone.now()
    JobEvent.objects.all().delete()
    sent = [(job.pk, at, f'it\'s; "q" \\ %s \t\n \\N é {k}', k if k % 2 else None) for k in range(count)]
    with given.statements(1):
        rows_insert(model=JobEvent, fields=["job", "at", "kind", "epoch"], rows=sent)
    assert list(JobEvent.objects.order_by("pk").values_list("job", "at", "kind", "epoch")) == sent
    assert set(JobEvent.objects.values_list("text", "actor_name")) == {("", "")}, "defaults"


def test_documents_and_moments_arrive(cluster):
    at, payload = timezone.now(), {"topic": "job", "id": 3, "odd": [None, "\\N\t"]}
    rows_insert(
        model=OutboxMessage,
        fields=["topic", "stream", "payload", "created_at"],
        rows=[("event", f"job:{k}", payload | {"id": k}, at) for k in range(INSERTED_FROM)],
    )
    stored = OutboxMessage.objects.filter(stream__startswith="job:", payload__has_key="odd").order_by("pk")
    assert [each.payload["id"] for each in stored] == list(range(INSERTED_FROM))
    assert {str(each.payload["odd"]) for each in stored} == {str(payload["odd"])}


def test_what_a_constraint_refuses_is_an_integrity_error(cluster):
    rows = [(10**9 + k, timezone.now(), "k") for k in range(INSERTED_FROM)]
    with pytest.raises(IntegrityError), transaction.atomic():
        rows_insert(model=JobEvent, fields=["job", "at", "kind"], rows=rows)
        connection.check_constraints()


@pytest.mark.parametrize("count", [0, 2, 40_000])
def test_among_any_number_of_ids(cluster, count):
    jobs = {cluster.submit().pk, cluster.submit().pk}
    wanted = [*jobs, *range(10**6, 10**6 + count)][:count]
    assert set(Job.objects.filter(pk__in=among(wanted)).values_list("pk", flat=True)) == set(wanted) & jobs
