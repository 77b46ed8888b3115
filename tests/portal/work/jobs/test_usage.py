"""Who used how many GPU hours, how many of them idle (story 16): REST, CSV and what was held say the same."""

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.people.tenants.models import Tenant, User
from portal.planning.estimation.distilling import attempts_distil
from portal.work.jobs.held_time import gpu_held_s
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.use import HOURS, usage_of
from tests.portal import given
from tests.portal.planning.estimation.test_distilling import LENGTH_S, START, ran

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def held(cluster, *, user=None, since_h=3.0, hours=1.0, busy=None, gpus=2, cores=1, category=None, **fields):
    """An attempt that held GPUs from so long ago for so long; of `hours` None it runs."""
    job = cluster.submit(gpus=gpus, category=category, **({"user": user} if user else {}), **fields)
    attempt = cluster.start(job, gpus=gpus, cores=cores)
    began = timezone.now() - timedelta(hours=since_h)
    Attempt.objects.filter(pk=attempt.pk).update(created_at=began, gpu_busy=busy)
    if hours is not None:
        cluster.end(attempt, at=(began + hours * HOUR).timestamp())
    attempt.refresh_from_db()
    return attempt


def client_of(user):
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_the_sum_of_the_csv_is_that_of_rest_and_the_page_shows_it(cluster):
    """Story 16."""
    odd = given.member("+tim", cluster.tenant)
    held(cluster, hours=1.37, busy=0.25, category="cv")
    held(cluster, hours=0.77, busy=0.5, category="cv", gpus=1)
    held(cluster, user=odd, hours=1.2, category="nlp", gpus=1)
    held(cluster, user=odd, hours=1.0, gpus=0, cores=3)
    held(cluster, since_h=0.5, hours=None, gpus=1)
    foreign = Tenant.objects.create(name="foreign")
    held(cluster, user=given.member("zoe", foreign), tenant="foreign", hours=1.0, gpus=1)
    client = client_of(cluster.owner)
    told = client.get("/api/v1/tenants/vision-lab/usage").json()
    answer = client.get("/api/v1/tenants/vision-lab/usage?format=csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert answer.headers["Content-Type"].startswith("text/csv")
    for name in HOURS[:3]:
        assert sum(float(row[name]) for row in rows) == pytest.approx(told["total"][name], abs=1e-3), name
    assert {row["user"] for row in rows} == {"lena", "'+tim"}, "no formula, and nobody of another tenant"
    by = {(row["user"], row["category"]): row for row in told["rows"]}
    assert by["lena", "cv"]["gpu_hours"] == pytest.approx(2 * 1.37 + 0.77, abs=1e-3)
    assert by["lena", "cv"]["idle_gpu_hours"] == pytest.approx(2 * 1.37 * 0.75 + 0.77 * 0.5, abs=1e-3)
    assert by["lena", None]["unmeasured_gpu_hours"] == pytest.approx(0.5, abs=1e-3), "it runs"
    assert (by["+tim", None]["gpu_hours"], by["+tim", None]["core_hours"]) == (0.0, pytest.approx(3.0, abs=1e-3))
    assert told["total"]["attempts"] == 5
    page = client.get("/tenants/vision-lab/usage").content.decode()
    assert "zoe" not in page
    assert "3.51" in page


def test_hours_count_within_the_stretch_alone(cluster):
    held(cluster, since_h=3, hours=2, busy=0.5, gpus=1)
    now = timezone.now()
    found = usage_of(cluster.tenant, since=now - 2 * HOUR, until=now - 1.5 * HOUR).total
    assert (found.gpu_hours, found.idle_gpu_hours) == (pytest.approx(0.5, abs=1e-3), pytest.approx(0.25, abs=1e-3))
    assert usage_of(cluster.tenant, since=now - 0.5 * HOUR).total.gpu_hours == 0


def test_it_is_what_the_gpus_were_held_for(cluster):
    for gpus in (1, 2, 1):
        attempt = cluster.running(gpus=gpus)
        cluster.end(attempt, at=timezone.now().timestamp())
    now = timezone.now()
    by_gpus = sum(gpu_held_s(hours=1, now=now).values()) / 3600
    assert usage_of(cluster.tenant).total.gpu_hours == pytest.approx(by_gpus, abs=2e-3)


@pytest.mark.parametrize(("compute", "use", "busy"), [(None, 50.0, 0.5), (0.25, 10.0, 0.4), (0.25, 90.0, 1.0)])
def test_what_computed_is_measured_when_an_attempt_has_ended(cluster, compute, use, busy):
    """Of a part of a GPU: against that part. A job without a model's name is measured too."""
    attempt = ran(cluster, model="", gpus=1, use=use, own={"gpu_utilisation": [use] * LENGTH_S})
    if compute:
        Attempt.objects.filter(pk=attempt.pk).update(gpu_compute=int(compute * 1000))
    Job.objects.update(state="COMPLETED", ended_at=START)
    assert attempts_distil() == 1
    attempt.refresh_from_db()
    assert attempt.gpu_busy == pytest.approx(busy)


def test_without_telemetry_nothing_is_said_to_be_idle(cluster):
    attempt = held(cluster, since_h=2, hours=1)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=attempt.created_at)
    attempts_distil()
    total = usage_of(cluster.tenant).total
    assert (total.idle_gpu_hours, total.unmeasured_gpu_hours) == (0, pytest.approx(2, abs=1e-3))


@pytest.mark.parametrize("ends", [(1, 2), (500, 0), (-1, None)])
def test_a_wrong_stretch_is_refused(cluster, ends):
    since, until = (None if each is None else timezone.now() - timedelta(days=each) for each in ends)
    with pytest.raises(BerthError) as refused:
        usage_of(cluster.tenant, since=since, until=until)
    assert refused.value.field == "since"


@pytest.mark.parametrize("query", ["since=x", "since=2026-01-01T00:00:00", "format=xml", "what=1", "until=2026-13-01"])
def test_a_wrong_question_is_answered_with_the_field(cluster, query):
    answer = client_of(cluster.owner).get(f"/api/v1/tenants/vision-lab/usage?{query}")
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, query.partition("=")[0])


def test_months_and_the_csv_are_in_the_readers_zone(cluster):
    User.objects.filter(pk=cluster.owner.pk).update(time_zone="Asia/Tokyo")
    client = client_of(cluster.owner)
    held(cluster, hours=1)
    text = client.get("/api/v1/tenants/vision-lab/usage?format=csv&until=2026-11-01T00:00:00Z").content.decode()
    assert text.startswith("tenant,user,category,attempts,gpu_hours")
    row = next(csv.DictReader(io.StringIO(client.get("/api/v1/tenants/vision-lab/usage?format=csv").content.decode())))
    assert row["until"].endswith("+09:00")
    page = client.get("/tenants/vision-lab/usage?range=before").content.decode()
    first = datetime.now(UTC) + timedelta(hours=9)
    assert f"until={first:%Y-%m}-01T00%3A00%3A00%2B09%3A00" in page
    jobs = client.get("/jobs/csv").getvalue().decode().splitlines()[1]
    assert "+09:00" in jobs


def test_many_jobs_take_one_query(cluster, django_assert_max_num_queries):
    for _ in range(5):
        held(cluster, hours=1, gpus=1)
    with django_assert_max_num_queries(1):
        usage_of(cluster.tenant)
