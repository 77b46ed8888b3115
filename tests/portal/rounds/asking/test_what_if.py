"""What would make a waiting job start, asked through the portal: REST, page, one at a time, nothing changed (section 7)."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from portal.errors import BerthError
from portal.jobs.models import Job
from portal.rounds.asking import whatif
from portal.rounds.models import StartForecast
from portal.rounds.planning.run import planning_run
from tests.portal import given

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(cluster):
    """A job of 4 on a node of which 2 GPUs are held."""
    cache.clear()
    cluster.started(gpus=2)
    job = cluster.submit(gpus=4)
    planning_run()
    job.refresh_from_db()
    return job


def test_a_smaller_size_would_start(waiting):
    before = list(Job.objects.order_by("pk").values())
    found = whatif.remedies(waiting)
    smaller = next(each for each in found if each["change"] == "size" and each["value"] == 2)
    assert (smaller["starts"], smaller["nodes"]) == (True, {"n1": 2})
    assert "2 GPUs" in smaller["sentence"]
    assert found[0]["starts"] is True, "those that start come first"
    assert list(Job.objects.order_by("pk").values()) == before


def test_a_smaller_size_says_where_it_gains_nothing(cluster, waiting):
    """By the start range that the job's page shows."""
    now = timezone.now()
    at = {name: now + timedelta(minutes=10) for name in ("earliest_at", "median_at", "latest_at")}
    first = {f"first_{name}": moment for name, moment in at.items()} | {"first_at": now}
    StartForecast.objects.update_or_create(job=waiting, defaults={"epoch": 0, "at": now, **at, **first})
    for changes, told in (
        ({"expected_duration_s": 60}, None),
        ({"expected_duration_s": 86_400}, "later than as it stands"),
        ({"expected_duration_s": 60, "time_limit_s": 90}, "time limit"),
        ({"expected_duration_s": None, "time_limit_s": None}, "nobody knows"),
    ):
        Job.objects.filter(pk=waiting.pk).update(**changes)
        waiting.refresh_from_db()
        smaller = next(each for each in whatif.remedies(waiting) if each["value"] == 2)
        assert smaller["starts"]
        assert (told in smaller["sentence"]) if told else (smaller["no_gain"] is None)


def test_a_job_that_runs_needs_nothing(cluster):
    assert whatif.remedies(cluster.started().job) == []


def test_one_at_a_time(waiting):
    with whatif._working, pytest.raises(BerthError) as refused:
        whatif.remedies(waiting)
    assert (refused.value.code, refused.value.status) == ("busy", 429)
    assert whatif.remedies(waiting)


def test_the_page_asks_and_says_a_refusal_in_place(client, waiting, cluster):
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    page = client.get(f"/jobs/{waiting.pk}/").content.decode()
    assert f"/jobs/{waiting.pk}/what-if" in page
    told = client.get(f"/jobs/{waiting.pk}/what-if").content.decode()
    assert "b-whatif-starts" in told
    with whatif._working:
        assert "ask again" in client.get(f"/jobs/{waiting.pk}/what-if").content.decode()
    client.force_login(
        given.member("otto", cluster.tenant.__class__.objects.create(name="other")),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    assert client.get(f"/jobs/{waiting.pk}/what-if").status_code == 404
