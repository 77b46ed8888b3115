"""A request is done or shown whole, or refused with its limit: never in part without a word."""

import csv

import pytest
from django.test import Client
from django.utils import timezone

from portal.cluster.models import Node
from portal.work.jobs.models import Job
from tests.portal.given import node_make, operator

MANY = 20_050
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


def signed_in(user):
    client = Client()
    client.force_login(user, backend=MODEL_BACKEND)
    return client


def text_of(answer):
    return b"".join(answer.streaming_content if answer.streaming else [answer.content]).decode()


@pytest.mark.slow
def test_the_export_holds_every_job(cluster):
    now = timezone.now()
    Job.objects.bulk_create(
        (Job(tenant=cluster.tenant, owner=cluster.owner, name="job", gpus=[1], submitted_at=now) for _ in range(MANY)),
        batch_size=2000,
    )
    rows = list(csv.DictReader(text_of(signed_in(cluster.owner).get("/jobs/csv")).splitlines()))
    assert len(rows) == MANY
    assert len({row["id"] for row in rows}) == MANY


def test_more_jobs_than_are_acted_on_at_once_are_refused_and_left_alone(cluster):
    job = cluster.submit()
    chosen = [str(job.pk), *(str(number) for number in range(10**6, 10**6 + 500))]
    answer = signed_in(cluster.owner).post("/jobs/bulk", {"action": "cancel", "job": chosen})
    assert answer.status_code == 400
    assert "501" in answer.content.decode()
    job.refresh_from_db()
    assert job.state == "PENDING"


@pytest.mark.parametrize("asked", ["by the action", "by the address"])
def test_the_console_refuses_more_than_it_does_at_once(cluster, asked):
    for number in range(500):
        node_make(f"m{number}", gpus=0)
    client = signed_in(operator())
    ids = list(Node.objects.values_list("pk", flat=True))
    assert len(ids) == 501
    if asked == "by the action":
        form = {"action": "drain", "_selected_action": ids[:1], "select_across": "1", "index": "0"}
        answer = client.post("/admin/cluster/node/", form, follow=True)
    else:
        query = "&".join(f"id={pk}" for pk in ids)
        answer = client.post(f"/admin/cluster/node/do/drain/?{query}", {"reason": "dust"}, follow=True)
    assert "501 were chosen" in answer.content.decode()
    assert not Node.objects.filter(drained_at__isnull=False).exists()
