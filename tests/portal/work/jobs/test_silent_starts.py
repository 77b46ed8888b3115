"""A node in contact that does not say that it begins: the part is lost after BERTH_START_LIMIT_S, and cancel ends it."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services.contact import node_seen
from portal.cluster.services.joining import node_hello
from portal.foundation.environment import env
from portal.work.jobs.models import Allocation, Attempt, Job
from portal.work.jobs.services.control import job_cancel
from portal.work.jobs.services.parts import FORGOTTEN_S
from portal.work.jobs.services.reconciling import reconcile, silent_starts_lose
from tests.portal import given

LIMIT_S = 300


def passes(seconds):
    """Let so much time pass: what is remembered is so much older. Nodes stay in contact."""
    ago = timedelta(seconds=seconds)
    Allocation.objects.update(missed_at=F("missed_at") - ago)
    Attempt.objects.update(created_at=F("created_at") - ago, stop_at=F("stop_at") - ago)


def state(attempt):
    return Job.objects.values_list("state", flat=True).get(pk=attempt.job_id)


def test_the_reconciler_heeds_the_setting(cluster, broker_settings, monkeypatch):
    assert env("BERTH_START_LIMIT_S") == LIMIT_S
    cluster.started()
    passes(65)
    assert reconcile()["silent_starts"] == 0
    monkeypatch.setenv("BERTH_START_LIMIT_S", "60")
    assert reconcile()["silent_starts"] == 1


@pytest.mark.parametrize(("fields", "then"), [({}, "NODE_FAIL"), ({"restartable": True}, "PENDING")])
def test_a_start_without_a_sign_of_life_is_lost_by_the_requeue_rules(cluster, fields, then):
    attempt = cluster.started(**fields)
    passes(LIMIT_S - 5)
    assert (silent_starts_lose(limit_s=LIMIT_S), state(attempt)) == (0, "STARTING")
    passes(10)
    assert (silent_starts_lose(limit_s=LIMIT_S), state(attempt)) == (1, then)
    assert "305 s" in Attempt.objects.get(pk=attempt.pk).end_detail
    assert silent_starts_lose(limit_s=LIMIT_S) == 0
    assert given.violations() == []


def test_a_part_that_is_named_begins(cluster):
    attempt = cluster.started()
    passes(LIMIT_S + 5)
    given.heard(node=cluster.node, reports=[], holding=[given.held(attempt)])
    assert (silent_starts_lose(limit_s=LIMIT_S), state(attempt)) == (0, "STARTING")


def test_what_has_reported_is_no_silent_start(cluster):
    other = given.node_make("n2")
    attempt = cluster.started(cluster.node, other)
    cluster.report(attempt, "prepared", rank=0)
    cluster.report(attempt, "prepared", rank=1)
    passes(LIMIT_S + 5)
    assert (silent_starts_lose(limit_s=LIMIT_S), state(attempt)) == (0, "STARTING")


def test_one_silent_part_ends_the_attempt_of_several_nodes(cluster):
    other = given.node_make("n2")
    attempt = cluster.started(cluster.node, other)
    cluster.report(attempt, "prepared", rank=0)
    passes(LIMIT_S + 5)
    assert silent_starts_lose(limit_s=LIMIT_S) == 1
    assert Attempt.objects.get(pk=attempt.pk).stop_reason == "partner"
    cluster.end(attempt, reason="stopped", exit_code=None)
    assert state(attempt) == "NODE_FAIL"


def test_nothing_follows_from_the_silence_of_a_node_without_contact(cluster):
    attempt = cluster.started()
    passes(10 * LIMIT_S)
    Node.objects.update(last_contact_at=timezone.now() - timedelta(seconds=31))
    assert (silent_starts_lose(limit_s=LIMIT_S), state(attempt)) == (0, "STARTING")


@pytest.mark.parametrize("how", ["seen", "hello"])
def test_a_node_that_comes_back_has_the_whole_limit_again(cluster, how):
    attempt = cluster.started()
    passes(10 * LIMIT_S)
    Node.objects.update(last_contact_at=timezone.now() - timedelta(seconds=10 * LIMIT_S))
    cluster.node.refresh_from_db()
    if how == "seen":
        node_seen(node=cluster.node)
    else:
        node_hello(node=cluster.node, inventory=given.inventory(cluster.node))
    assert (silent_starts_lose(limit_s=LIMIT_S), state(attempt)) == (0, "STARTING")
    passes(LIMIT_S + 5)
    assert silent_starts_lose(limit_s=LIMIT_S) == 1


def test_the_same_holds_of_what_ran_there_without_a_lease(cluster):
    attempt = cluster.running()
    given.heard(node=cluster.node, reports=[], holding=[])
    passes(10 * LIMIT_S)
    Node.objects.update(last_contact_at=timezone.now() - timedelta(seconds=10 * LIMIT_S))
    cluster.node.refresh_from_db()
    node_seen(node=cluster.node)
    given.heard(node=cluster.node, reports=[], holding=[])
    assert state(attempt) == "RUNNING"


def test_cancel_of_such_a_job_ends_it(cluster):
    attempt = cluster.started()
    passes(60)
    job_cancel(job=attempt.job, actor=cluster.owner)
    assert (silent_starts_lose(limit_s=LIMIT_S), state(attempt)) == (0, "STARTING"), "its node has a while to answer"
    passes(FORGOTTEN_S + 1)
    assert (silent_starts_lose(limit_s=LIMIT_S), state(attempt)) == (1, "CANCELLED")
    assert given.violations() == []
