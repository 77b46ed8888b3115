"""The page of a job that nobody uses, for each reader: before its end, and afterwards."""

import pytest
from django.utils import timezone

from portal.work.jobs.idle.using import ends_s, span
from portal.work.jobs.models import IdleWatch, Job, JobEvent
from portal.work.jobs.states import StopReason

pytestmark = pytest.mark.django_db


def test_a_time_in_its_two_largest_units(subtests):
    for seconds, words in [
        (0, "0 s"),
        (0.4, "0 s"),
        (42, "42 s"),
        (59.6, "1 min"),
        (80, "1 min 20 s"),
        (1800, "30 min"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (108_600, "30 h 10 min"),
        (3607, "1 h"),
    ]:
        with subtests.test(seconds=seconds, words=words):
            assert span(seconds) == words


@pytest.mark.parametrize(("warned_s", "ends"), [(80.0, 100.0), (100.0, 120.0), (0.0, 100.0), (500.0, 520.0)])
def test_whoever_is_warned_late_has_the_time_of_the_warning_all_the_same(warned_s, ends):
    assert ends_s(100.0, warned_s) == ends


@pytest.fixture
def attempt(cluster):
    return cluster.running(idle_timeout_s=60)


def page(client, cluster, user=None):
    client.force_login(user or cluster.owner)
    return client.get(f"/jobs/{Job.objects.get().number}/").content.decode()


def test_the_warning_says_what_is_left_though_the_limit_was_reached_before_it(cluster, attempt, client):
    """What was measured meanwhile came at once: 60 s of 60, and the warning's 12 s only then."""
    IdleWatch.objects.create(attempt=attempt, frame=0, used_at=timezone.now(), idle_s=60.0, warned_idle_s=60.0)
    html = page(client, cluster)
    assert "Nobody has used this job for 1 min." in html
    assert "It ends in 12 s," in html
    assert "Keep it running" in html


def test_without_a_warning_nothing_is_said(cluster, attempt, client):
    IdleWatch.objects.create(attempt=attempt, frame=0, used_at=timezone.now(), idle_s=30.0)
    assert "Nobody has used this job" not in page(client, cluster)


def test_its_end_is_not_called_a_time_limit(cluster, attempt, client):
    why = "nobody used it for 1 min, its idle time-out"
    type(attempt).objects.filter(pk=attempt.pk).update(stop_reason=StopReason.IDLE, end_detail=why)
    cluster.end(attempt, reason="stopped", exit_code=None, detail="idle")
    html = page(client, cluster)
    assert "at its time limit" not in html
    assert f": {why}." in html
    ended = JobEvent.objects.filter(job=attempt.job_id).order_by("-pk").values_list("text", flat=True)
    assert f"Attempt 1 ended: {why}." in list(ended)


def test_an_end_told_in_a_whole_sentence_has_one_full_stop(cluster, client):
    """The report of agents about software that was not ready in time."""
    attempt = cluster.running()
    cluster.end(attempt, reason="exit", exit_code=3, detail="not ready in time. Ask for less.")
    assert "Ask for less.." not in page(client, cluster)
    assert ": not ready in time. Ask for less." in page(client, cluster)
