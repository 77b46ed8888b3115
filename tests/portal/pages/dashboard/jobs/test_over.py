"""The card of a running job, and the strip of one that is done: each figure is measured or said, never invented."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.pages.dashboard.jobs.metrics import Told, figures_of, is_lower_better, ordered, told_of, value_words
from portal.pages.dashboard.jobs.over import has_range, over_make
from portal.pages.dashboard.jobs.results import results_make, strip_make
from portal.planning.estimation.models import JobProgress
from portal.planning.rounds.read.ends import Expected
from portal.work.artefacts.services import removing, taking
from portal.work.jobs.listing import attempts_of
from portal.work.jobs.models import Attempt, Job, JobPayload
from tests.portal.work.artefacts.conftest import at_once
from tests.portal.work.artefacts.sending import Sender

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _store(settings, tmp_path, monkeypatch):
    settings.DATA_DIR = tmp_path
    assert taking is not removing
    at_once(monkeypatch)


@pytest.fixture
def lena(cluster):
    client = Client()
    client.force_login(cluster.owner)
    return client


def fresh(attempt):
    job = Job.objects.get(pk=attempt.job_id)
    return job, list(attempts_of(job))


def over(attempt):
    return over_make(*fresh(attempt))


def since(attempt, **ago):
    Attempt.objects.filter(pk=attempt.pk).update(started_at=timezone.now() - timedelta(**ago))


def shown(client, attempt, name="over"):
    return client.get(reverse("job-fragment", args=[attempt.job_id, name])).content.decode()


def test_a_guess_of_its_length_is_no_expected_end(lena, cluster):
    attempt = cluster.running()
    Job.objects.update(age_s=3600.0, age_source="assumed")
    found = over(attempt)
    assert (found["at"], found["percent"]) == (None, None)
    text = shown(lena, attempt)
    assert "Runs since" in text
    assert "<progress" not in text
    assert "Over at" not in text


def test_its_declared_length_gives_an_end_and_a_bar(lena, cluster):
    attempt = cluster.running(expected_duration_s=3600)
    since(attempt, minutes=15)
    Job.objects.update(age_s=3600.0, age_source="declared")
    found = over(attempt)
    assert round(found["percent"]) == 25
    assert found["of"] == " of the expected 1\u00a0h"
    text = shown(lena, attempt)
    assert "Over at" in text
    assert '<progress class="b-done-bar" max="100" value="25.' in text


@pytest.mark.parametrize(
    ("early", "late", "shown"), [(0, 59, False), (0, 60, True), (None, 60, False), (0, None, False)]
)
def test_a_range_has_two_ends_that_are_not_the_same_minute(early, late, shown):
    start = datetime(2026, 11, 30, 6, 40, tzinfo=UTC)
    ends = [None if seconds is None else start + timedelta(seconds=seconds) for seconds in (early, late)]
    assert has_range(Expected("declared", 3, start, *ends)) is shown


def test_its_own_word_counts_before_all_others(cluster):
    attempt = cluster.running()
    since(attempt, minutes=30)
    JobProgress.objects.create(
        job=attempt.job, epoch=1, samples_done=830, samples_total=1000, fraction=0.83, at=timezone.now()
    )
    assert (over(attempt)["percent"], over(attempt)["of"]) == (83.0, ", 830 of 1\u202f000 samples")
    assert over(attempt)["at"] is not None
    JobPayload.objects.filter(job=attempt.job).update(description={"command": "true", "epochs": 30})
    assert over(attempt)["of"] == ", epoch 25 of 30"


def test_a_job_that_is_being_started_has_no_time_yet(lena, cluster):
    attempt = cluster.started()
    assert "Being started" in shown(lena, attempt)
    assert over(attempt)["at"] is None


def test_other_numbers_of_gpus_than_before_are_said(cluster):
    first = cluster.running(gpus=2, checkpointable=True)
    Attempt.objects.filter(pk=first.pk).update(stop_cause="resize")
    cluster.end(first, reason="stopped", exit_code=0)
    Job.objects.update(state="PENDING")
    second = cluster.start(Job.objects.get(pk=first.job_id), gpus=1)
    cluster.report(second, "running", pid=7)
    (words,) = over(second)["said"]
    assert words.startswith("It runs on 1 GPU since 20")
    assert words.endswith("Z, before on 2.")


def metrics(count):
    rows = (
        {"step": step, "lr": 2e-4, "loss": 3 - 0.02 * step, "val top-1": min(0.8, step / 50)} for step in range(count)
    )
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_what_it_wrote_is_told_while_it_runs_and_best_and_last_when_it_is_done(lena, cluster):
    attempt = cluster.running()
    Sender(cluster, attempt).send("metrics.jsonl", metrics(61))
    assert over(attempt)["metric"] == ("loss", "1.80")
    since(attempt, hours=2)
    cluster.end(attempt, exit_code=0)
    Attempt.objects.update(gpu_busy=0.25)
    job, attempts = fresh(attempt)
    cells = strip_make(job, attempts, results_make(job))
    assert [cell["label"] for cell in cells] == ["val top-1", "loss", "GPUs busy", "Results"]
    assert [cell["value"] for cell in cells[:3]] == ["0.800", "1.80", "25\u00a0%"]
    assert cells[0]["note"].startswith("best, step ")
    assert cells[1]["note"] == "last, step 60"
    assert cells[2] | {"note": "0.5 of 2 GPU hours", "lazy": True} == cells[2]
    page = lena.get(reverse("job-detail", args=[job.number])).content.decode()
    assert page.index('id="strip"') < page.index('id="curves"') < page.index('id="log"')
    assert page.index('id="artefacts"') < page.index('id="ran"'), "results come first"


def test_without_metrics_the_strip_says_how_long_it_took(cluster):
    attempt = cluster.running()
    cluster.end(attempt, exit_code=0)
    job, attempts = fresh(attempt)
    cells = strip_make(job, attempts, results_make(job))
    assert [cell["label"] for cell in cells] == ["Ran", "Waited", "GPUs busy", "Results"]
    assert [cell["value"] for cell in cells[2:]] == ["\u2013", "none"]
    assert cells[2]["note"] == "not measured yet"


def test_a_running_job_without_curves_is_told_how_to_write_them(lena, cluster):
    attempt = cluster.running()
    Sender(cluster, attempt).send("notes.txt", b"x")
    assert "$BERTH_ARTEFACTS/metrics.jsonl" in shown(lena, attempt, "curves")
    cluster.end(attempt, exit_code=0)
    assert "metrics.jsonl" not in shown(lena, attempt, "curves")


def test_names_say_which_way_is_better_and_which_figures_count():
    for name in ("loss", "val_loss", "train/error", "perplexity", "WER"):
        assert is_lower_better(name), name
    for name in ("accuracy", "val top-1", "f1", "mAP", "reward", "tokens"):
        assert not is_lower_better(name), name
    assert ordered(["lr", "loss", "epoch", "top5", "temperature"]) == ["top5", "loss", "temperature", "lr", "epoch"]


def test_the_best_or_the_last_value_of_a_metric():
    assert told_of("acc", [[0, 1, 2, 3], [0.1, 0.9, 0.9, None]]) == Told("acc", 0.9, 2, True)
    assert told_of("loss", [[0, 1, 2], [0.1, 0.05, 0.2]]) == Told("loss", 0.2, 2, False)
    assert told_of("loss", [[0], [None]]) is None
    assert figures_of({"a": [[], []]}, 2) == []


def test_values_have_three_figures():
    for value, words in [
        (0.70631, "0.706"),
        (4.0, "4.00"),
        (12.345, "12.3"),
        (123.0, "123"),
        (1804.2, "1\u202f804"),
        (2e-5, "2e-05"),
        (0, "0"),
    ]:
        assert value_words(value) == words
    assert value_words(1e300) == "1e+300"
