"""Invariant 8 for what plannings stop and keep: another tenant's job has neither number nor name, on any page."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.rounds.models import Planning
from portal.rounds.read.kept import kept_now
from portal.rounds.read.outcomes import planning_outcomes, stop_sentence
from scheduler import model
from tests.portal import given
from tests.portal.rounds.planning.test_stops import applied, elastic, promise, stop

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
        str(attempt.job_id), ("n1",), 4, "resize", None,
    )  # fmt: skip
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
            text = page.content.decode()
            assert ("mine" in text or f"/jobs/{attempt.job_id}" in text) is sees, path
            assert "another tenant" in text or sees, path
    client.force_login(cluster.owner)
    assert "nothing placed, 1 stopped" in client.get("/rounds/").content.decode()
    assert "Kept for it: n1 until about" in client.get(f"/jobs/{waits.pk}/").content.decode()
    cluster.end(attempt, reason="stopped", exit_code=143)
    page = client.get(f"/jobs/{attempt.job_id}/").content.decode()
    assert "Stopped to go on with 4 GPUs in place of 1" in page
    assert "Kept for it: 4 GPUs on n1 until it starts" in page
    told = client.get(f"/api/v1/jobs/{attempt.job_id}").json()["attempts"][0]
    assert (told["stop_cause"], told["stop_to_gpus"], told["stop_for"]) == ("resize", 4, None)


def test_a_reservation_ends_with_its_jobs_waiting_or_the_next_planning(cluster, resized):
    cluster.start(resized[1], gpus=1)
    assert [each.cause for each in kept_now(user=cluster.owner)] == ["resize"]
    Planning.objects.update(reservations=[])
    assert len(kept_now(user=cluster.owner)) == 1
