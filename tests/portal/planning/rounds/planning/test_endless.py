"""A job may name as much work as it likes: its expected time has a bound, and plannings go on for everybody."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from portal.planning.estimation.records import records_apply
from portal.planning.rounds.asking.forecasting import forecasts_refresh
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from scheduler.fairness.lrf import LONGEST_S
from tests.portal import given
from tests.portal.planning.estimation.test_records import record

pytestmark = pytest.mark.django_db


@pytest.fixture
def endless(cluster):
    """A job on all GPUs that has ten thousand million samples to go, at one in sixty thousand seconds; its age is fixed by them."""
    first = cluster.running(gpus=1, model="vgg")
    part = first.allocations.first()
    sent = {"attempt": first.key, "epoch": first.epoch, "rank": 0, "dropped": 0, "offset": 0, "next_offset": 9}
    records_apply(node=part.node, parts=[sent | {"records": [record(samples=1e-3, seconds=60.0)]}])
    cluster.end(first)
    job = cluster.submit(gpus=4, model="vgg", samples=10**10)
    planning_run()
    job.refresh_from_db()
    assert job.state == "STARTING"
    attempt = job.attempts.get()
    cluster.report(attempt, "running", pid=4711)
    return attempt


@pytest.mark.parametrize("stored", [None, 2e14])
def test_nodes_are_kept_for_who_waits_for_its_end(cluster, endless, stored):
    """`stored`: an age from before it had a bound."""
    if stored:
        Job.objects.filter(pk=endless.job_id).update(age_s=stored)
    waits = cluster.submit(
        gpus=4,
        expected_duration_s=3600.0,
        user=given.member("sam", given.Tenant.objects.create(name="speech")),
        tenant="speech",
    )
    Job.objects.filter(pk=waits.pk).update(waited_s=2 * 86400.0)
    made = planning_run()
    assert made.status == Planning.Status.APPLIED
    made.refresh_from_db()
    assert [each["job"] for each in made.reservations] == [waits.pk]
    assert datetime.fromisoformat(made.reservations[0]["until"]) > timezone.now() + timedelta(days=3650)
    assert forecasts_refresh() == 0, "none starts within a day"
    assert Job.objects.get(pk=endless.job_id).age_s == (stored or LONGEST_S)
