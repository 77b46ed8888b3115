"""`start_after`: a job waits for its time, says so everywhere, and starts then."""

from datetime import UTC, datetime, timedelta

import pytest
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.pages.dashboard.submit.form import initial_of
from portal.pages.dashboard.submit.reading import description_read
from portal.planning.rounds.asking.dryrun import dry_run
from portal.planning.rounds.asking.forecasting import forecasts_refresh
from portal.planning.rounds.planning.queued import jobs_blocked
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read.needs import start_need
from portal.work.jobs.description import description_parse
from portal.work.jobs.imports import text_import
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.services.control import job_requeue

pytestmark = pytest.mark.django_db(transaction=True)
PAST = "2020-01-01T08:00:00+01:00"


def later(hours=2):
    return (timezone.now() + timedelta(hours=hours)).replace(microsecond=0)


def test_it_waits_with_its_reason_while_others_start_and_starts_at_its_time(cluster):
    at = later()
    job, other = cluster.submit(start_after=at.isoformat()), cluster.submit()
    planning_run()
    job.refresh_from_db()
    assert [each.job_id for each in Attempt.objects.all()] == [other.pk]
    assert (job.reason, job.reason_figures["until_s"], job.waiting_since) == ("dependency", at.timestamp(), None)
    assert start_need(job.reason, job.reason_figures) == f"its time, {at:%Y-%m-%d %H:%M:%S} UTC"
    Job.objects.update(start_after=timezone.now() - timedelta(seconds=1))
    planning_run()
    assert Attempt.objects.filter(job=job).exists()


def test_its_range_and_its_dry_run_begin_at_its_time(cluster):
    at = later(1)
    job = cluster.submit(start_after=at.isoformat())
    planning_run()
    assert forecasts_refresh() == 1
    early = job.start_forecast.earliest_at
    assert timedelta(0) <= early - at < timedelta(minutes=10)
    asked = description_parse({"command": "true", "gpus": 1, "start_after": at.isoformat()})
    told = dry_run(description=asked, tenant=cluster.tenant, user=cluster.owner)
    assert (told["placeable"], told["reason"]) == (False, "dependency")
    assert "It waits for its time" in str(told["sentence"])
    assert told["start"]["earliest_at"] >= at


def test_a_planning_makes_texts_of_times_only_for_jobs_that_changed(cluster):
    at = later(1)
    cluster.submit(start_after=at.isoformat())
    last = cluster.submit(start_after="9999-12-31T23:59:59.999999Z")
    assert list(jobs_blocked().values()) == [(pytest.approx(at.timestamp()),), (pytest.approx(253402300800),)], (
        "bare seconds"
    )
    planning_run()
    last.refresh_from_db()
    assert last.reason_figures["until"] == "9999-12-31 23:59:59 UTC"


def test_a_time_that_has_passed_means_nothing(cluster):
    job = cluster.submit(start_after=PAST)
    planning_run()
    assert Attempt.objects.filter(job=job).exists()


@pytest.mark.parametrize("value", ["2026-12-01T08:00", "2026-12-01", "tomorrow", "", 5, "0001-01-01T00:00+14:00"])
def test_what_is_no_time_with_a_zone_is_refused(value):
    with pytest.raises(BerthError) as error:
        description_parse({"command": "true", "start_after": value})
    assert (error.value.status, error.value.field) == (400, "start_after")
    assert error.value.code == ("wrong_type" if value == 5 else "invalid")


def test_requeue_tasks_and_relaunch_keep_it(cluster, client):
    attempt = cluster.running(start_after=PAST, checkpointable=True)
    job_requeue(job=attempt.job, actor=cluster.owner)
    assert Job.objects.get().start_after == datetime(2020, 1, 1, 7, tzinfo=UTC)
    array = cluster.submit(start_after=PAST, array={"size": 2})
    assert Job.objects.filter(array=array, start_after__isnull=False).count() == 2
    client.force_login(cluster.owner)
    page = client.get(reverse("job-submit") + f"?from={array.pk}")
    assert page.context["fields"]["start_after"]["value"] == PAST


def test_form_page_rest_yaml_and_console_show_it(cluster, client):
    read = description_read(QueryDict("command=true&gpu_mode=cpu&start_after=2030-12-01T08:00%2B01:00"))
    assert (read.problems, read.description["start_after"]) == ([], "2030-12-01T08:00+01:00")
    assert initial_of(read.description)["start_after"] == "2030-12-01T08:00+01:00"
    found = text_import("command: x\ngpus: 0\nstart_after: 2030-12-01T08:00:00+01:00\n", gpu_types=[])
    job = cluster.submit(**found.description)
    client.force_login(cluster.owner)
    assert client.get(f"/api/v1/jobs/{job.pk}").json()["start_after"] == "2030-12-01T07:00:00Z"
    assert "2030-12-01 07:00:00 UTC" in client.get(reverse("job-detail", args=[job.pk])).content.decode()
