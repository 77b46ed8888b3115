"""A restored database does no harm: errands and messages are taken back, and jobs that may run elsewhere are not started."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db.models import F
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services import node_declare_dead
from portal.foundation.environment import env
from portal.foundation.events.models import OutboxMessage
from portal.operate.backups.models import Backup
from portal.operate.backups.restoring import database_settle
from portal.people.tenants.models import AuditEvent
from portal.planning.rounds.models import ErrandLease, PlanningLease
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Allocation, Job
from portal.work.jobs.services.leases import leases_expire
from portal.work.jobs.services.reconciling import silent_starts_lose
from tests.portal import given

A_DAY = timedelta(days=1)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "backup"
    path.write_bytes(b"x" * 10)
    return path


def settle(file):
    return database_settle(made_at=timezone.now() - A_DAY, path=file)


def unknown(node):
    """Parts of a node that are no attempt of this database."""
    return {"attempt": "f" * 32, "epoch": 1, "rank": 0, "cores_sequence": 0}


def report(node, *holding):
    node.refresh_from_db()
    return given.heard(node=node, reports=[], holding=list(holding))


def reason(job):
    return Job.objects.values_list("state", "reason").get(pk=job.pk)


def test_errands_messages_and_sessions_of_the_lost_time_are_gone(cluster, file):
    PlanningLease.objects.update_or_create(pk=1, defaults={"holder": "x", "until": timezone.now() + A_DAY, "number": 7})
    ErrandLease.objects.create(name="rounds.forecast", holder="x", until=timezone.now() + A_DAY)
    Session.objects.create(session_key="k", session_data="", expire_date=timezone.now() + A_DAY)
    cluster.submit()
    assert OutboxMessage.objects.exists()
    settle(file)
    assert not OutboxMessage.objects.exists()
    assert not Session.objects.exists()
    assert not ErrandLease.objects.exclude(until=None).exists()
    assert PlanningLease.objects.values_list("holder", "until", "number").get() == ("", None, 7)
    assert (Backup.objects.get().kind, Backup.objects.get().size_bytes) == ("restored", 10)
    assert AuditEvent.objects.filter(action="backup.restore").exists()


def test_leases_are_believed_renewed_until_the_restore(cluster, file):
    attempt = cluster.running(restartable=True)
    Allocation.objects.update(lease_until=timezone.now() - A_DAY, missed_at=timezone.now() - A_DAY)
    settle(file)
    assert leases_expire(grace_s=0) == 0
    assert silent_starts_lose(limit_s=5) == 0
    assert Allocation.objects.get(attempt=attempt).lease_until > timezone.now() + timedelta(seconds=880)


def test_numbers_that_people_may_hold_are_not_given_again(cluster, file):
    last = cluster.submit().pk
    settle(file)
    assert cluster.submit().pk == (last // 1000 + 2) * 1000 + 1


def test_old_jobs_wait_until_every_node_has_said_what_runs_there_and_new_ones_do_not(cluster, file):
    other = given.node_make("n2")
    old = cluster.submit()
    settled = settle(file)
    assert (settled.waiting, settled.running, settled.nodes) == (1, 0, 2)
    new = cluster.submit()
    planning_run()
    assert reason(old) == ("PENDING", "restored")
    assert Job.objects.get(pk=old.pk).reason_figures["nodes"] == ["n1", "n2"]
    assert reason(new)[0] == "STARTING"
    report(cluster.node)
    planning_run()
    assert reason(old) == ("PENDING", "restored")
    answer = report(other, unknown(other))
    assert [each["attempt"] for each in answer["stop"]] == [unknown(other)["attempt"]]
    planning_run()
    assert reason(old) == ("PENDING", "restored"), "what it runs is being killed, and may be this very job"
    report(other)
    planning_run()
    assert reason(old)[0] == "STARTING"
    assert not Node.objects.exclude(unsettled_since=None).exists()


def test_a_job_that_loses_its_attempt_after_the_restore_waits_too(cluster, file):
    """It may have been started anew in the lost time, on a node that has not spoken."""
    given.node_make("n2")
    attempt = cluster.running(restartable=True)
    settle(file)
    cluster.node.refresh_from_db()
    cluster.end(attempt, reason="lost", exit_code=None)
    planning_run()
    assert reason(attempt.job) == ("PENDING", "restored")


def test_a_silent_node_keeps_requeueable_jobs_for_a_lease_and_others_until_it_is_declared_dead(cluster, file):
    silent = given.node_make("n2")
    leased, rigid = cluster.submit(restartable=True), cluster.submit()
    settle(file)
    report(cluster.node)
    Node.objects.filter(pk=silent.pk).update(last_contact_at=timezone.now() - A_DAY)
    planning_run()
    assert [reason(job) for job in (leased, rigid)] == [("PENDING", "restored")] * 2
    over = timedelta(seconds=env("BERTH_LEASE_S") + env("BERTH_LEASE_GRACE_S") + 1)
    Node.objects.filter(pk=silent.pk).update(unsettled_since=F("unsettled_since") - over)
    Job.objects.update(submitted_at=F("submitted_at") - 2 * over)
    planning_run()
    assert [reason(job)[0] for job in (leased, rigid)] == ["STARTING", "PENDING"]
    silent.refresh_from_db()
    node_declare_dead(node=silent, actor=None, reason="gone")
    planning_run()
    assert reason(rigid)[0] == "STARTING"
