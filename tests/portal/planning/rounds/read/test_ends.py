"""When running jobs end, from ended ones to pages and REST: the middle, the range given the run so far, and the source."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.read.ends import expected_end, source_words
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, Job
from scheduler.estimator.lengths import Length

NOW = timezone.now()


def run(cluster, *, ran_s, **fields):
    """Let the planner start a job, as it does, and its node tell of it."""
    job = cluster.submit(gpus=1, **fields)
    planning_run()
    attempt = Attempt.objects.get(job=job)
    cluster.report(attempt, "running", pid=7)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=timezone.now() - timedelta(seconds=ran_s))
    return Attempt.objects.select_related("job").get(pk=attempt.pk)


def card(cluster, attempt):
    client = Client()
    client.force_login(cluster.owner)
    return client.get(reverse("job-fragment", args=[attempt.job.number, "over"])).content.decode()


def explained(cluster, attempt):
    client = Client()
    client.force_login(cluster.owner)
    return client.get(f"/api/v1/jobs/{attempt.job.number}/explain").json()["expected_end"]


def test_a_job_like_30_others_has_their_range_given_how_long_it_runs(cluster):
    for place in range(30):
        cluster.ran(3600.0 + 60 * place, ago_s=1000 - place)
    attempt = run(cluster, ran_s=600.0)
    job = attempt.job
    assert (job.age_runs, job.age_source) == (30, "owner's jobs of the size")
    assert 0 < job.age_spread < 0.7
    text = card(cluster, attempt)
    assert "Over at" in text
    assert "between" in text
    assert "from 30 runs like it." in text
    told = explained(cluster, attempt)
    assert told["runs"] == 30
    assert told["earliest_at"] < told["median_at"] < told["latest_at"]
    late = expected_end(job, attempt, None, timezone.now() + timedelta(hours=6))
    assert late.median_at > timezone.now() + timedelta(hours=6), "the longer it ran, the later"
    (live,) = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current())).running
    assert live.spread == 0.7, "a guess never counts as known where it decides"


def test_a_job_that_nobody_knows_has_no_clock_time(cluster):
    attempt = run(cluster, ran_s=600.0)
    assert "Runs since" in card(cluster, attempt)
    assert "Nobody knows." in card(cluster, attempt)
    assert explained(cluster, attempt) == {
        **dict.fromkeys(("median_at", "earliest_at", "latest_at")),
        "source": "assumed",
        "runs": 0,
        "words": "nobody knows",
    }


def test_runs_of_ten_minutes_and_of_nine_hours_are_told_as_nobody_knows(cluster):
    for place in range(8):
        cluster.ran(600.0 if place % 2 else 9 * 3600.0, ago_s=1000 - place)
    attempt = run(cluster, ran_s=60.0)
    text, told = card(cluster, attempt), explained(cluster, attempt)
    assert (told["median_at"], told["runs"], told["words"]) == (None, 8, "nobody knows")
    assert "Runs since" in text
    assert "Nobody knows; 8 runs like it took " in text


@pytest.mark.parametrize(
    ("took_s", "count", "words"),
    [
        (3500.0, 6, "declared, and its owner is usually right"),
        (3500.0, 4, "declared"),
        (1200.0, 6, "declared"),
    ],
    ids=["right", "few", "a third of it"],
)
def test_an_owner_is_usually_right_only_by_the_record(cluster, took_s, count, words):
    for place in range(count):
        cluster.ran(took_s, ago_s=1000 - place, expected_duration_s=3600.0)
    attempt = run(cluster, ran_s=60.0, expected_duration_s=3600.0)
    assert f", {words}." in card(cluster, attempt)
    assert attempt.job.age_runs == count


def test_a_limit_ends_it_and_the_words_say_so(cluster):
    for place in range(30):
        cluster.ran(3600.0, ago_s=1000 - place)
    attempt = run(cluster, ran_s=60.0, time_limit_s=1800)
    end = expected_end(attempt.job, attempt, None, timezone.now())
    assert end.median_at == end.latest_at == attempt.started_at + timedelta(seconds=1800)
    assert source_words(end) == "its time limit ends it"


def test_a_limit_is_of_each_attempt_and_the_length_of_all(cluster):
    """It ran three hours, and has four for each attempt: not one of its five is over by then."""
    job = Job(age_s=5 * 3600.0, age_source="declared", age_spread=0.1, ran_s=3 * 3600.0, checkpointable=True)
    job.time_limit_s = 4 * 3600
    end = expected_end(job, Attempt(job=job, started_at=NOW), None, NOW)
    assert end.median_at > NOW + timedelta(hours=1.9)


def test_a_job_that_began_from_zero_again_has_all_of_its_time_before_it(cluster):
    job = Job(age_s=3600.0, age_source="declared", age_spread=0.1, age_runs=9, ran_s=3000.0, checkpointable=False)
    attempt = Attempt(job=job, started_at=NOW)
    assert (expected_end(job, attempt, None, NOW).median_at - NOW).total_seconds() == pytest.approx(3600.0)
    job.checkpointable = True
    rest_s = Length(3600.0, "declared", 0.1).quantile(0.5, 3000.0) - 3000.0
    assert (expected_end(job, attempt, None, NOW).median_at - NOW).total_seconds() == pytest.approx(rest_s)


def test_a_job_of_an_earlier_version_is_as_sure_as_its_source(cluster):
    job = Job(age_s=3600.0, age_source="declared", checkpointable=False)
    attempt = Attempt(job=job, started_at=NOW)
    assert expected_end(job, attempt, None, NOW).latest_at > NOW + timedelta(hours=1)
    job.age_source = "jobs of the cluster"
    assert expected_end(job, attempt, None, NOW).median_at is None
