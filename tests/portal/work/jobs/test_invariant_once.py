"""Invariants 2, 4 and 5: never twice at once, one end an attempt, and stale messages change nothing."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services.joining import join_token_create, node_hello, node_register
from portal.cluster.services.operating import node_declare_dead, node_token_revoke
from portal.foundation.errors import Conflict
from portal.work.jobs.models import Allocation, Attempt, ClockMark, Job
from portal.work.jobs.services import parts, reconciling
from portal.work.jobs.services.parts import FORGOTTEN_S
from portal.work.jobs.services.reconciling import leases_expire, leases_maintain
from tests.portal import given
from tests.real_ends import real_end

GRACE_S = 15


def lease_ended(ago_s):
    Allocation.objects.update(lease_until=timezone.now() - timedelta(seconds=ago_s))


def state(attempt):
    return Job.objects.values_list("state", flat=True).get(pk=attempt.job_id)


class TestLease:
    def test_requeued_only_after_lease_and_grace(self, cluster):
        attempt = cluster.running(restartable=True)
        assert attempt.lease_s == 900
        assert leases_expire(grace_s=GRACE_S) == 0
        lease_ended(GRACE_S - 5)
        assert leases_expire(grace_s=GRACE_S) == 0
        assert state(attempt) == "RUNNING"
        lease_ended(GRACE_S + 1)
        assert leases_expire(grace_s=GRACE_S) == 1
        assert state(attempt) == "PENDING"
        part = Allocation.objects.get()
        assert (part.state, part.end_reason, part.lease_until) == ("ended", "lost", None), "its lease ends with it"
        assert leases_expire(grace_s=GRACE_S) == 0
        assert not given.violations()

    @pytest.mark.parametrize(("lease_s", "wait_s"), [(900, reconciling.RETURN_S), (30, 30)])
    def test_a_portal_that_was_away_waits_for_its_nodes(self, cluster, settings, tmp_path, lease_s, wait_s):
        """What ended well meanwhile is not run again: its node reports when the portal answers."""
        settings.DATA_DIR = tmp_path
        attempt, silent = cluster.running(restartable=True), cluster.running(restartable=True)
        Attempt.objects.update(lease_s=lease_s)
        lease_ended(3600)
        given.portal_started(tmp_path, ago_s=wait_s - 5)
        assert leases_expire(grace_s=GRACE_S) == 0
        cluster.end(attempt)
        given.portal_started(tmp_path, ago_s=wait_s + 1)
        assert leases_expire(grace_s=GRACE_S) == 1
        assert (state(attempt), state(silent)) == ("COMPLETED", "PENDING")

    @pytest.mark.parametrize(("lease_s", "wait_s"), [(900, reconciling.RETURN_S), (30, 30)])
    def test_repairs_that_did_not_come_wait_for_nodes_too(self, cluster, lease_s, wait_s):
        """The database was away, or the worker: the portal stood all the time, and could take no report."""
        attempt, silent = cluster.running(restartable=True), cluster.running(restartable=True)
        Attempt.objects.update(lease_s=lease_s)
        assert leases_expire(grace_s=GRACE_S) == 0
        ClockMark.objects.update(looked_at=timezone.now() - timedelta(seconds=reconciling.AWAY_S + 5))
        lease_ended(3600)
        assert leases_expire(grace_s=GRACE_S) == 0
        cluster.end(attempt)
        assert leases_expire(grace_s=GRACE_S) == 0
        ClockMark.objects.update(returned_at=timezone.now() - timedelta(seconds=wait_s + 1))
        assert leases_expire(grace_s=GRACE_S) == 1
        assert (state(attempt), state(silent)) == ("COMPLETED", "PENDING")

    @pytest.mark.parametrize(
        ("mine_ago_s", "anothers_ago_s"),
        [(reconciling.AWAY_S - 5, None), (3600, 5), (-3600, None)],
        ids=["a little late", "another machine repairs", "before the clock was set back"],
    )
    def test_repairs_that_came_spare_nobody(self, cluster, mine_ago_s, anothers_ago_s):
        cluster.running(restartable=True)
        leases_expire(grace_s=GRACE_S)
        now = timezone.now()
        ClockMark.objects.update(looked_at=now - timedelta(seconds=mine_ago_s))
        if anothers_ago_s is not None:
            looked_at = now - timedelta(seconds=anothers_ago_s)
            ClockMark.objects.create(boot="another", booted_at=now, looked_at=looked_at)
        lease_ended(GRACE_S + 1)
        assert leases_expire(grace_s=GRACE_S) == 1
        assert ClockMark.objects.get(boot=reconciling.boot_name()).looked_at <= timezone.now()

    def test_many_losses_that_take_long_are_no_time_away(self, cluster, monkeypatch):
        """A switch fails: each loss takes a while, and the repairs after them spare nobody."""
        *_, last = [cluster.running(restartable=True) for _ in range(4)]
        leases_expire(grace_s=GRACE_S)
        lease_ended(GRACE_S + 1)
        Allocation.objects.filter(attempt=last).update(lease_until=timezone.now() + timedelta(hours=1))
        original, now, passed = reconciling.part_lose, timezone.now, timedelta()

        def slowly(**keywords):
            nonlocal passed
            passed += timedelta(seconds=reconciling.AWAY_S / 2)
            return original(**keywords)

        monkeypatch.setattr(timezone, "now", lambda: now() + passed)
        monkeypatch.setattr(reconciling, "leases_follow_clock", lambda: 0.0)  # time passes, no clock is set
        monkeypatch.setattr(reconciling, "part_lose", slowly)
        assert leases_expire(grace_s=GRACE_S) == 3
        Allocation.objects.filter(attempt=last).update(lease_until=timezone.now() - timedelta(seconds=GRACE_S + 1))
        assert leases_expire(grace_s=GRACE_S) == 1

    def test_without_the_lease_check_it_would_run_twice(self, cluster, monkeypatch):
        attempt = cluster.running(restartable=True)
        leases_expire(grace_s=-1000)  # no waiting for the lease
        cluster.start(attempt.job)
        answer = given.heard(node=cluster.node, reports=[], holding=[given.held(attempt)])
        assert answer["stop"], "the first process still ran while the second was placed"

    def test_holding_renews_and_an_ended_part_is_not_renewed(self, cluster):
        attempt = cluster.running(restartable=True)
        lease_ended(GRACE_S + 1)
        answer = given.heard(node=cluster.node, reports=[], holding=[given.held(attempt)])
        assert answer["leases"] == [given.key_of(attempt) | {"lease_s": 900}]
        assert leases_expire(grace_s=GRACE_S) == 0
        lease_ended(GRACE_S + 1)
        leases_expire(grace_s=GRACE_S)
        answer = given.heard(node=cluster.node, reports=[], holding=[given.held(attempt)])
        assert (answer["leases"], answer["stop"]) == ([], [given.key_of(attempt)])

    @pytest.mark.parametrize("looked_again", [True, False])
    def test_a_renewal_at_the_last_moment_wins(self, cluster, monkeypatch, looked_again):
        attempt = cluster.running(restartable=True)
        lease_ended(GRACE_S + 1)
        original = reconciling.part_lose

        def renewed_meanwhile(*, lease_before, **keywords):
            given.heard(node=cluster.node, reports=[], holding=[given.held(attempt)])
            return original(**keywords, lease_before=lease_before if looked_again else None)

        monkeypatch.setattr(reconciling, "part_lose", renewed_meanwhile)
        leases_expire(grace_s=GRACE_S)
        assert state(attempt) == ("RUNNING" if looked_again else "PENDING")

    def test_what_may_not_be_requeued_has_no_lease_and_never_ends_for_silence(self, cluster):
        attempt = cluster.running()
        assert attempt.lease_s is None
        Node.objects.update(last_contact_at=timezone.now() - timedelta(days=365))
        assert leases_expire(grace_s=-(10**9)) == 0
        assert state(attempt) == "RUNNING"

    def test_a_maintenance_lease_is_not_shortened_by_a_renewal(self, cluster):
        attempt = cluster.running(restartable=True)
        assert leases_maintain(hours=24) == 1
        until = Allocation.objects.get().lease_until
        given.heard(node=cluster.node, reports=[], holding=[given.held(attempt)])
        assert Allocation.objects.get().lease_until == until
        assert until > timezone.now() + timedelta(hours=23)

    def test_requeues_are_counted_and_end(self, cluster):
        job = cluster.submit(restartable=True, max_requeues=1)
        for expected in ("PENDING", "NODE_FAIL"):
            attempt = cluster.start(job)
            cluster.report(attempt, "running")
            lease_ended(GRACE_S + 1)
            leases_expire(grace_s=GRACE_S)
            assert state(attempt) == expected


class TestReboot:
    def test_a_new_boot_id_ends_all_at_once(self, cluster):
        attempt, rigid = cluster.running(restartable=True), cluster.running()
        node_hello(node=cluster.node, inventory=given.inventory(cluster.node))
        assert (state(attempt), state(rigid)) == ("RUNNING", "RUNNING")
        node_hello(node=cluster.node, inventory=given.inventory(cluster.node, boot_id="boot-2"))
        assert (state(attempt), state(rigid)) == ("PENDING", "NODE_FAIL")
        assert not given.violations()

    def test_a_second_hello_of_the_same_boot_ends_nothing(self, cluster):
        stale = Node.objects.get(pk=cluster.node.pk)
        node_hello(node=cluster.node, inventory=given.inventory(cluster.node, boot_id="boot-2"))
        attempt = cluster.running(restartable=True)
        node_hello(node=stale, inventory=given.inventory(cluster.node, boot_id="boot-2"))
        assert state(attempt) == "RUNNING"

    def test_joining_again_after_a_reboot_ends_all(self, cluster):
        attempt = cluster.running(restartable=True)
        node_token_revoke(node=cluster.node, actor=None)
        _, secret = join_token_create(actor=None)
        node_register(join_secret=secret, inventory=given.inventory(cluster.node, boot_id="boot-2"))
        assert state(attempt) == "PENDING"


class TestDead:
    def test_declared_dead_gives_all_back_at_once(self, cluster):
        attempt, rigid = cluster.running(restartable=True), cluster.running()
        with pytest.raises(Conflict) as error:
            node_declare_dead(node=cluster.node, actor=None, reason="smoke")
        assert error.value.code == "node_reachable"
        Node.objects.update(last_contact_at=timezone.now() - timedelta(seconds=31))
        cluster.node.refresh_from_db()
        node_declare_dead(node=cluster.node, actor=None, reason="smoke")
        assert (state(attempt), state(rigid)) == ("PENDING", "NODE_FAIL")

    def test_it_looks_at_the_present_contact_not_at_what_the_page_showed(self, cluster):
        stale = Node.objects.get(pk=cluster.node.pk)
        stale.last_contact_at = None
        with pytest.raises(Conflict):
            node_declare_dead(node=stale, actor=None, reason="the page said so")


class TestForgotten:
    """A live agent that no longer names what it once ran."""

    def test_one_message_without_it_ends_nothing(self, cluster):
        attempts = [cluster.running(), cluster.running(restartable=True)]
        given.heard(node=cluster.node, reports=[], holding=[])  # sent before they began, and late
        assert [state(a) for a in attempts] == ["RUNNING", "RUNNING"]
        given.heard(node=cluster.node, reports=[], holding=[given.held(a) for a in attempts])
        assert not Allocation.objects.exclude(missed_at=None).exists()

    def test_a_part_without_lease_ends_when_it_stays_unnamed(self, cluster):
        attempt, leased = cluster.running(), cluster.running(restartable=True)
        given.heard(node=cluster.node, reports=[], holding=[])
        Allocation.objects.exclude(missed_at=None).update(missed_at=F("missed_at") - timedelta(seconds=FORGOTTEN_S + 1))
        given.heard(node=cluster.node, reports=[], holding=[])
        assert state(attempt) == "NODE_FAIL"
        assert state(leased) == "RUNNING", "its lease decides: the process may live on"


class TestOneEnd:
    def test_the_conditional_update_lets_one_end_win(self, cluster):
        attempt = cluster.running()
        cluster.end(attempt, exit_code=3)
        assert cluster.end(attempt, exit_code=0)["refused"][0]["code"] == "ended"
        assert state(attempt) == "FAILED"
        assert (attempt.refresh_from_db(), attempt.exit_code) == (None, 3)

    def test_the_trigger_stops_whoever_forgets_the_condition(self, cluster):
        attempt = cluster.running()
        cluster.end(attempt)
        for change in ({"state": "FAILED"}, {"ended_at": timezone.now()}, {"state": "RUNNING", "ended_at": None}):
            with pytest.raises(IntegrityError, match="attempt_ends_once"), transaction.atomic():
                Attempt.objects.filter(pk=attempt.pk).update(**change)
        Attempt.objects.filter(pk=attempt.pk).update(end_detail="may still be noted")

    def test_without_the_trigger_it_ends_twice(self, cluster):
        attempt = cluster.running()
        cluster.end(attempt)
        given.drop_trigger("attempt_ends_once", "jobs_attempt")
        assert Attempt.objects.filter(pk=attempt.pk).update(state="FAILED") == 1

    def test_an_end_needs_a_final_state_and_a_job_one_live_attempt(self, cluster):
        attempt = cluster.running()
        with pytest.raises(IntegrityError), transaction.atomic():
            Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now())
        with pytest.raises(IntegrityError), transaction.atomic():
            Attempt.objects.create(
                job=attempt.job, epoch=9, gpus=0, cores=1, rendezvous_port=1, created_at=timezone.now()
            )

    def test_two_ends_at_once(self, shared_cluster):
        cluster = shared_cluster
        attempt = cluster.running()
        calls = [
            lambda n=n: given.heard(
                node=cluster.node,
                reports=[given.report(given.key_of(attempt), "ended", sequence=10 + n, **real_end(exit_code=n % 2))],
                holding=[],
            )
            for n in range(6)
        ]
        answers = given.race(*calls)
        assert sum(len(each["accepted"]) for each in answers) == 1, answers
        winner = next(each["accepted"][0]["sequence"] for each in answers if each["accepted"])
        assert state(attempt) == ("FAILED" if winner % 2 else "COMPLETED")
        assert not given.violations()


class TestStale:
    def refused(self, cluster, answer, code):
        assert [each["code"] for each in answer["refused"]] == [code]
        assert not answer["accepted"]

    def test_stale_epoch_is_refused_and_counted(self, cluster):
        attempt = cluster.running(restartable=True)
        self.refused(cluster, cluster.end(attempt, epoch=attempt.epoch + 1), "stale_epoch")
        assert state(attempt) == "RUNNING"
        assert Node.objects.get().refused_messages == 1

    def test_without_the_epoch_check_a_stale_message_ends_the_attempt(self, cluster, monkeypatch):
        attempt = cluster.running(restartable=True)
        original = parts.attempt_lock

        def any_epoch(**keywords):
            found = original(**keywords)
            found.epoch = attempt.epoch + 1
            return found

        monkeypatch.setattr(parts, "attempt_lock", any_epoch)
        cluster.end(attempt, epoch=attempt.epoch + 1)
        assert state(attempt) == "COMPLETED"

    def test_the_ended_attempts_messages_do_not_touch_the_next(self, cluster):
        old = cluster.running(restartable=True)
        lease_ended(GRACE_S + 1)
        leases_expire(grace_s=GRACE_S)
        new = cluster.start(old.job)
        self.refused(cluster, cluster.end(old, sequence=99), "ended")
        cluster.report(new, "running")
        assert state(new) == "RUNNING"

    def test_repeated_and_overtaken_sequences_are_refused(self, cluster):
        attempt = cluster.started()
        cluster.report(attempt, "running", sequence=5, pid=7)
        for sequence in (5, 4):
            self.refused(cluster, cluster.end(attempt, sequence=sequence), "stale_sequence")
        assert state(attempt) == "RUNNING"
        assert Node.objects.get().refused_messages == 2

    def test_without_the_fence_an_overtaken_message_counts(self, cluster):
        attempt = cluster.started()
        cluster.report(attempt, "running", sequence=5, pid=7)
        Allocation.objects.update(sequence=0)  # what the fence remembers
        cluster.end(attempt, sequence=4)
        assert state(attempt) == "COMPLETED"

    def test_another_nodes_part_is_unknown(self, cluster):
        attempt = cluster.running()
        self.refused(cluster, cluster.end(attempt, node=given.node_make("n2")), "unknown_part")
        assert state(attempt) == "RUNNING"

    def test_unknown_things_held_are_to_be_stopped(self, cluster):
        attempt = cluster.running()
        stranger = {"attempt": f"{attempt.pk + 77}", "epoch": 1, "rank": 0}
        wrong_epoch = given.key_of(attempt) | {"epoch": 9}
        answer = given.heard(node=cluster.node, reports=[], holding=[stranger, wrong_epoch, given.held(attempt)])
        assert answer["stop"] == [stranger, wrong_epoch]
