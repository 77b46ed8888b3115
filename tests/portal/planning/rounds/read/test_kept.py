"""Invariant 8 for stops and reservations of plannings: another tenant's job has neither number nor name, on any page."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.pages.dashboard.templatetags.berth import INSTANT
from portal.planning.rounds.models import Planning, StartForecast
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read.explained import explanation
from portal.planning.rounds.read.kept import kept_now
from portal.planning.rounds.read.outcomes import planning_outcomes, stop_sentence
from portal.work.jobs.models import Job, Promise
from scheduler import model
from tests.portal import given
from tests.portal.planning.rounds.planning.test_stops import applied, elastic, promise, stop

FOREIGN = {"number": None, "name": "a job of another tenant"}


@pytest.fixture
def outsider(cluster):
    return given.member("otto", given.Tenant.objects.create(name="other-lab"))


@pytest.fixture
def resized(cluster):
    """A planning that resizes one job, reserves a node for another, and promises it to the first."""
    attempt, waits = elastic(cluster, name="mine"), cluster.submit(gpus=4, name="also-mine")
    until = timezone.now() + timedelta(minutes=5)
    kept = model.Kept(waits.pk, (cluster.node.pk,), until.timestamp())
    record = applied(stops=[stop(attempt)], promises=[promise(attempt.job_id, cluster.node)], reservations=[kept])
    return attempt, waits, record


def test_the_owner_reads_for_whom_and_until_when(cluster, resized):
    attempt, waits, record = resized
    first, second = kept_now(user=cluster.owner)
    assert (first.number, first.nodes, first.gpus, first.cause, first.until) == (
        str(attempt.job_id),
        ("n1",),
        4,
        "resize",
        Promise.objects.get().given_at + timedelta(minutes=10),
    )
    assert (second.number, second.nodes, second.cause) == (str(waits.pk), ("n1",), "reservation")
    assert second.until > timezone.now()
    shown = planning_outcomes(record, cluster.owner)
    assert shown["stops"][0]["job"] == {"number": str(attempt.job_id), "name": "mine"}
    assert stop_sentence(shown["stops"][0]) == "resized from 1 to 4 GPUs"
    assert shown["promises"][0]["shares"] == [{"node": "n1", "gpus": 4, "cores": 4, "memory_mib": 0}]


def test_a_foreign_reader_sees_that_something_is_kept_but_not_for_whom(resized, outsider):
    assert {(each.number, each.name, each.nodes) for each in kept_now(user=outsider)} == {
        (None, "a job of another tenant", ("n1",))
    }
    shown = planning_outcomes(resized[2], outsider)
    assert shown["stops"][0]["job"] == shown["promises"][0]["job"] == shown["reservations"][0]["job"] == FOREIGN


def test_pages_and_rest_say_it_and_give_nothing_away(client, cluster, resized, outsider):
    attempt, waits, record = resized
    paths = [f"/rounds/plannings/{record.number}/", "/cluster/", "/cluster/n1/", f"/api/v1/plannings/{record.number}"]
    for reader, sees in ((cluster.owner, True), (outsider, False)):
        client.force_login(reader)
        for path in paths:
            page = client.get(path)
            assert page.status_code == 200, path
            text = re.sub(r'class="[^"]*"', "", page.content.decode())
            assert ("mine" in text or f"/jobs/{attempt.job_id}" in text) is sees, path
            assert "another tenant" in text or sees, path
            assert path.startswith("/api/") or not INSTANT.search(re.sub(r"<[^>]*>", "", text)), (
                path
            )  # a time is given in the reader's zone
    client.force_login(cluster.owner)
    assert "nothing placed, 1 stopped" in client.get("/rounds/").content.decode()
    assert (
        "Kept for it: n1 until it starts, when what runs there has ended: by about <time datetime="
        in client.get(f"/jobs/{waits.pk}/").content.decode()
    )
    cluster.end(attempt, reason="stopped", exit_code=143)
    page = client.get(f"/jobs/{attempt.job_id}/").content.decode()
    assert "Stopped to go on with 4 GPUs in place of 1" in page
    assert "Kept for it: 4 GPUs on n1 until it starts, at the latest <time datetime=" in page
    told = client.get(f"/api/v1/jobs/{attempt.job_id}").json()["attempts"][0]
    assert (told["stop_cause"], told["stop_to_gpus"], told["stop_for"]) == ("resize", 4, None)


def test_a_reservation_ends_with_its_jobs_waiting_or_the_next_planning(cluster, resized):
    cluster.start(resized[1], gpus=1)
    assert [each.cause for each in kept_now(user=cluster.owner)] == ["resize"]
    Planning.objects.update(reservations=[])
    assert len(kept_now(user=cluster.owner)) == 1


def kept_out(cluster, holder, **fields):
    """A job that the last planning kept out: the idle GPUs of n1 were kept for `holder` until nine minutes past."""
    told = {"job": holder.pk, "nodes": ["n1"], "gpus": 2, "until_s": 540.0, "cause": "reservation"}
    figures = {"needs": {"min_gpus": 1}, "kept_for": "job", "keepers": [told], "more": 0}
    job = cluster.submit(gpus=1, name="kept-out", **fields)
    Job.objects.filter(pk=job.pk).update(reason="reserved", reason_figures=figures)
    job.refresh_from_db()
    return job


def reserve(job, node, minutes=5):
    until = timezone.now().replace(second=0, microsecond=0) + timedelta(minutes=minutes)
    applied(reservations=[model.Kept(job.pk, (node.pk,), until.timestamp())])
    return f"{until:%Y-%m-%dT%H:%MZ}"


def test_a_job_that_is_kept_out_is_told_for_whom_and_until_when_as_of_now(client, cluster):
    """Its stored figures are as old as its reason: the nodes are kept for another job by now, until another time."""
    first, task = cluster.submit(gpus=4), cluster.submit(gpus=4, array={"size": 3})
    job, task = kept_out(cluster, first), Job.objects.get(array=task, array_index=2)
    until = reserve(task, cluster.node)
    assert explanation(job)["sentence"] == (
        f"The 2 idle GPUs on n1 are kept for job {task.number} until about {until}. "
        f"Job {task.number} has waited long for its length and should start there then. "
        "Only a job that should end before that time may use them."
    )
    client.force_login(cluster.owner)
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    assert f'Kept for #{task.number} until <time datetime="{until}" data-format="clock">' in page
    assert client.get(f"/api/v1/jobs/{job.pk}/explain").json()["figures"]["keepers"][0]["job"] == task.number


def test_another_tenants_job_for_whom_it_is_kept_has_no_number(client, cluster):
    other = given.Tenant.objects.create(name="other-lab")
    foreign = cluster.submit(gpus=4, name="secret-name", user=given.member("otto", other))
    job = kept_out(cluster, cluster.submit(gpus=4))
    until = reserve(foreign, cluster.node)
    told = explanation(job)
    assert told["sentence"].startswith(
        f"The 2 idle GPUs on n1 are kept for a job of another tenant until about {until}."
    )
    assert told["figures"]["keepers"][0]["job"] is None
    client.force_login(cluster.owner)
    for path in (f"/jobs/{job.pk}/", f"/api/v1/jobs/{job.pk}/explain", "/queue/"):
        assert "secret-name" not in client.get(path).content.decode(), path


def test_a_time_that_is_past_is_not_told(cluster):
    """The reservation is over and the next planning has not said what holds the job now."""
    assert explanation(kept_out(cluster, cluster.submit(gpus=4)))["sentence"].startswith(
        "The 2 idle GPUs on n1 are kept for job"
    )
    assert "until" not in explanation(Job.objects.get(name="kept-out"))["sentence"]


def test_a_name_that_looks_like_a_time_is_a_name(client, cluster):
    job = cluster.submit(gpus=4, name="2026-99-99T99:99Z")
    reserve(job, cluster.node)
    client.force_login(cluster.owner)
    assert ">2026-99-99T99:99Z</a>" in client.get("/queue/").content.decode()
    client.force_login(given.operator())
    kept = "2026-99-99T99:99Z: n1, until it starts, when what runs there has ended: by about <time"
    assert kept in client.get("/queue/").content.decode()


def test_a_job_has_one_estimate_of_its_start(client, cluster):
    """A reservation counts with the expected ends of the jobs there, a start range with how such ends came true."""
    job = cluster.submit(gpus=4, name="large")
    reserve(job, cluster.node, minutes=30)
    now = timezone.now()
    early, late = now + timedelta(minutes=20), now + timedelta(minutes=24)
    moments = {"earliest_at": early, "median_at": early, "latest_at": late}
    first = {f"first_{name}": at for name, at in moments.items()}
    StartForecast.objects.create(job=job, epoch=0, first_at=now, at=now, **moments, **first)
    (kept,) = kept_now(user=cluster.owner)
    assert kept.until_words == f"until it starts, probably from {early:%Y-%m-%dT%H:%MZ} to {late:%Y-%m-%dT%H:%MZ}"
    client.force_login(cluster.owner)
    assert f">{kept.until:%H:%M}<" not in client.get("/queue/").content.decode()
    StartForecast.objects.update(latest_at=now - timedelta(minutes=1))
    (kept,) = kept_now(user=cluster.owner)
    assert kept.until_words.startswith("until it starts, when what runs there has ended: by about ")


def test_a_plannings_page_tells_times_in_the_readers_zone(client, cluster):
    running, job = cluster.started(gpus=2), cluster.submit(gpus=4, expected_duration_s=60)
    Job.objects.filter(pk=running.job_id).update(expected_duration_s=600)
    Job.objects.filter(pk=job.pk).update(waiting_since=timezone.now() - timedelta(hours=1))
    planning = planning_run()
    client.force_login(cluster.owner)
    page = client.get(f"/rounds/plannings/{planning.number}/").content.decode()
    assert "when what runs there has ended: by about <time datetime=" in page
