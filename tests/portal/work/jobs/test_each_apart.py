"""A mistake of ours at one of many (a report, a lost part, a repair) keeps none of the others from being done."""

from datetime import timedelta

import pytest
from django.db import DataError, InterfaceError, OperationalError
from django.utils import timezone

from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Allocation
from portal.work.jobs.services import parts, placing, reconciling
from portal.work.jobs.services.reconciling import reconcile
from tests.portal import given


def failing_at(monkeypatch, module, name, *, attempt=None, error=None):
    """Let a function of a module fail, for one attempt or always."""
    own = getattr(module, name)

    def function(**arguments):
        if attempt is None or arguments["attempt"].pk == attempt.pk:
            raise error or KeyError("a mistake")
        return own(**arguments)

    monkeypatch.setattr(module, name, function)


def running(attempt):
    return given.report(given.key_of(attempt), "running", pid=5)


@pytest.fixture
def two(cluster):
    """Attempts of two jobs that may run again, on one node."""
    return [cluster.started(restartable=True) for _ in range(2)]


def test_a_report_that_we_fail_over_is_sent_again_and_holds_back_no_other_nor_a_lease(
    cluster, two, monkeypatch, caplog
):
    bad, good = two
    Allocation.objects.update(lease_until=timezone.now())
    message = {"reports": [running(bad), running(good)], "holding": [given.held(bad), given.held(good)]}
    with monkeypatch.context() as patched:
        failing_at(patched, parts, "restart_measure", attempt=bad)
        answer = given.heard(node=cluster.node, **message)
    assert [each["attempt"] for each in answer["accepted"]] == [good.key]
    assert answer["refused"] == []
    assert {each["attempt"] for each in answer["leases"]} == {bad.key, good.key}
    assert f"a report of n1 about attempt {bad.key}" in caplog.text
    assert "KeyError: 'a mistake'" in caplog.text
    assert bad.allocations.get().sequence == 0, "nothing of it was taken"
    again = given.heard(node=cluster.node, reports=[running(bad)], holding=[])
    assert [each["attempt"] for each in again["accepted"]] == [bad.key]


def test_without_a_database_nothing_is_taken(cluster, two, monkeypatch):
    failing_at(monkeypatch, parts, "restart_measure", error=OperationalError("gone"))
    with pytest.raises(OperationalError):
        given.heard(node=cluster.node, reports=[running(each) for each in two], holding=[])


def test_a_loss_that_we_fail_over_keeps_no_other_part_from_being_lost(two, monkeypatch):
    Allocation.objects.update(lease_until=timezone.now() - timedelta(hours=1))
    failing_at(monkeypatch, parts, "attempt_settle", attempt=two[0])
    assert reconciling.leases_expire(grace_s=5) == 1
    assert [each.allocations.get().released_at is None for each in two] == [True, False]


def test_a_repair_that_fails_keeps_no_other_from_its_work(cluster, monkeypatch):
    monkeypatch.setattr(reconciling, "drain", lambda: 0)
    failing_at(monkeypatch, reconciling, "leases_expire")
    job = cluster.submit()
    type(job).objects.filter(pk=job.pk).update(cancel_requested_at=timezone.now())
    found = reconcile()
    assert (found["cancelled"], "expired_leases" in found) == (1, False)
    job.refresh_from_db()
    assert job.state == "CANCELLED"


@pytest.mark.parametrize("error", [KeyError("a mistake"), DataError("out of range")])
def test_a_job_that_we_fail_to_place_keeps_no_other_from_starting(cluster, monkeypatch, caplog, error):
    bad, good = cluster.submit(), cluster.submit()
    own = placing.attempts_create

    def create(started, *rest):
        if any(job.pk == bad.pk for _, job in started):
            raise error
        return own(started, *rest)

    monkeypatch.setattr(placing, "attempts_create", create)
    record = planning_run()
    assert (record.status, record.placed, record.dropped) == ("applied", 1, 1)
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.state, good.state) == ("PENDING", "STARTING")
    assert f"job {bad.pk} could not be placed, which is a fault of Berth" in caplog.text


@pytest.mark.parametrize("error", [OperationalError("locked"), InterfaceError("closed")])
def test_a_database_that_fails_is_no_fault_of_a_job(cluster, monkeypatch, error):
    cluster.submit()
    cluster.submit()

    def create(*_):
        raise error

    monkeypatch.setattr(placing, "attempts_create", create)
    with pytest.raises(type(error)):
        planning_run()
    assert Planning.objects.get().status == "failed"
