"""Profiles as attempts (algorithms.md sections 2 and 7): the job waits, its state does not change, the invariants hold."""

import re
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.cluster.models import GpuType
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import JobProfile, JobProgress
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update
from portal.work.jobs.models import Attempt, GpuAllocation, Job
from portal.work.jobs.selectors import part_spec, parts_wanted
from portal.work.jobs.services.control import job_cancel, job_hold
from portal.work.jobs.services.parts import node_parts_lose
from portal.work.jobs.services.placing import DoesNotFit, attempts_start
from portal.work.jobs.services.placings import Placing, Profile
from portal.work.jobs.services.profiling import profiles_end_late
from portal.work.jobs.use import tenants_use
from tests.portal import given
from tests.portal.planning.estimation.test_records import known, record, send

ROWS = [[0.01, 0.1, 0.2, 0.05, None, None, 0.36]] * 16


@pytest.fixture(autouse=True)
def nothing_wrong(cluster):
    yield
    assert given.violations() == []


def elastic(cluster, **fields):
    return cluster.submit(gpus=[1, 2], instrumented=True, **({"model": "vgg", "cores_per_gpu": 1} | fields))


def profile(cluster, job=None):
    """The one live profile, after a planning."""
    job = job or elastic(cluster)
    planning_run()
    return job, Attempt.objects.profiles().live().get(job=job)


def fresh(job):
    return Job.objects.get(pk=job.pk)


def live_runs():
    return set(Attempt.objects.runs().live().values_list("job_id", flat=True))


def earlier(attempt, seconds):
    Attempt.objects.filter(pk=attempt.pk).update(created_at=timezone.now() - timedelta(seconds=seconds))


class TestItBegins:
    def test_the_job_goes_on_waiting_and_says_why(self, cluster):
        job, attempt = profile(cluster)
        now = fresh(job)
        assert (now.state, now.reason, now.epoch, now.started_at) == ("PENDING", "profiling", 0, None)
        assert now.waiting_since is not None
        assert now.reason_figures["on"] == [{"gpu_type": "A100", "node": "n1"}]
        assert (attempt.kind, attempt.epoch, attempt.gpus) == ("profile", 1, 1)
        assert (attempt.profile_of, attempt.time_limit_s) == (f"tenant:{cluster.tenant.pk}:vgg", 60)
        assert attempt.lease_s, "it may be repeated, so silence may end it"
        assert [event.text for event in job.events.filter(kind="profiled")] == [
            "Profiled on n1: 1 GPU and 4 cores, for 60 s at most, planning 1."
        ]
        assert Planning.objects.get().profiles == [
            {"job": job.pk, "gpu_type": "A100", "node": cluster.node.pk, "limit_s": 60, "begun": True}
        ]

    def test_its_gpu_counts_in_its_tenants_use_and_is_nobody_elses(self, cluster):
        _, attempt = profile(cluster)
        assert tenants_use(Tenant.objects.all())[cluster.tenant.pk].gpus == 1
        taken = GpuAllocation.objects.get(allocation__attempt=attempt).gpu.index
        other = cluster.submit()
        part = given.Part(node_id=cluster.node.pk, gpu_indices=(taken,), core_ids=(7,), memory_mib=0)
        assert isinstance(attempts_start(placings=[Placing(other.pk, [part])], planning_number=9)[other.pk], DoesNotFit)

    def test_the_node_is_told_what_it_is_and_how_long(self, cluster):
        job, attempt = profile(cluster, elastic(cluster, time_limit_s=40))
        spec = part_spec(node=cluster.node, key=attempt.key)
        assert (spec["profile"], spec["time_limit_s"], spec["job"], spec["epochs_before"]) == (True, 40, job.pk, 0)
        assert spec["world"]["gpus_total"] == 1
        (wanted,) = parts_wanted(node_id=cluster.node.pk)["attempts"]
        assert (wanted["action"], wanted["go"], wanted["grace_s"]) == ("run", True, 2)

    def test_one_at_a_time_of_a_signature_and_type_in_the_database_too(self, cluster):
        profile(cluster)
        other = elastic(cluster)
        again = Profile(f"tenant:{cluster.tenant.pk}:vgg", "A100", 60)
        placing = Placing(other.pk, [given.free_part(cluster.node)], profile=again)
        refused = attempts_start(placings=[placing], planning_number=9)
        assert "constraint" in str(refused[other.pk])

    def test_an_attempt_says_what_it_profiles_or_is_a_run(self, cluster):
        attempt = cluster.started()
        for wrong in ({"kind": "profile"}, {"time_limit_s": 60}, {"profile_of": "x"}):
            with pytest.raises(IntegrityError), transaction.atomic():
                Attempt.objects.filter(pk=attempt.pk).update(**wrong)

    def test_a_job_that_is_not_instrumented_starts_at_once(self, cluster):
        job = cluster.submit(gpus=[1, 2])
        planning_run()
        assert live_runs() == {job.pk}

    def test_several_jobs_and_types_at_once(self, cluster):
        given.node_make("v1", gpus=4, gpu_type=GpuType.objects.create(name="V100"))
        settings_update(actor=None, profile_share=0.5)
        jobs = [elastic(cluster, model=name) for name in ("vgg", "bert")]
        planning_run()
        found = Attempt.objects.profiles().live().values_list("job_id", "profile_type__name", "epoch")
        assert sorted(found) == sorted(
            (job.pk, name, 1 + (name == "V100")) for job in jobs for name in ("A100", "V100")
        )

    def test_a_later_profile_of_the_job_is_named_as_well(self, cluster):
        job, _ = profile(cluster)
        settings_update(actor=None, profile_share=0.5)
        given.node_make("v1", gpus=4, gpu_type=GpuType.objects.create(name="V100"))
        planning_run()
        assert [each["gpu_type"] for each in fresh(job).reason_figures["on"]] == ["A100", "V100"]


class TestItEnds:
    def test_its_reports_move_nothing_of_the_job_and_then_it_is_placed(self, cluster):
        job, attempt = profile(cluster)
        cluster.report(attempt, "running", pid=5)
        attempt.refresh_from_db()
        assert (attempt.state, fresh(job).state) == ("RUNNING", "PENDING")
        planning_run()
        assert (live_runs(), fresh(job).reason) == (set(), "profiling")
        send(attempt, record(rows=ROWS))
        cluster.end(attempt)
        now = fresh(job)
        assert (now.state, now.epoch, now.ran_s, now.attained_gpu_s, now.checkpoint_domain) == ("PENDING", 0, 0, 0, "")
        text = job.events.filter(kind="profile-ended").get().text
        assert re.fullmatch(r"Profile on A100 ended after \d+ s: completed\.", text)
        planning_run()
        now = fresh(job)
        assert (now.state, now.epoch, live_runs()) == ("STARTING", 1, {job.pk})
        assert Attempt.objects.runs().get(job=job).epoch == 1

    def test_section_2_what_it_records_is_known_and_the_next_job_of_the_model_needs_none(self, cluster):
        job, attempt = profile(cluster)
        assert send(attempt, record(rows=ROWS, done=10.0, total=20.0, parameters=10**6))["code"] is None
        cluster.end(attempt)
        found = JobProfile.objects.get()
        assert (found.modules, found.forward_s, found.backward_s) == (16, pytest.approx(0.1), pytest.approx(0.2))
        assert known(job).profiles
        assert not JobProgress.objects.exists(), "what it did in scratch is none of the job's work"
        other = elastic(cluster)
        planning_run()
        assert live_runs() == {job.pk, other.pk}

    @pytest.mark.parametrize(
        ("end", "state"), [({"exit_code": 1}, "FAILED"), ({"reason": "time_limit", "exit_code": None}, "TIMEOUT")]
    )
    def test_a_failure_is_recorded_counts_as_no_retry_and_is_not_repeated_for_a_while(self, cluster, end, state):
        job, attempt = profile(cluster, elastic(cluster, retries=2))
        cluster.end(attempt, **end)
        attempt.refresh_from_db()
        assert (attempt.state, fresh(job).state, fresh(job).failures) == (state, "PENDING", 0)
        other = elastic(cluster)
        planning_run()
        assert live_runs() == {job.pk, other.pk}
        earlier(attempt, 3601)
        third = elastic(cluster)
        given.node_make("n2")
        planning_run()
        assert Attempt.objects.profiles().live().get().job == third

    def test_one_that_its_node_lost_says_nothing_against_another_try(self, cluster):
        job, attempt = profile(cluster)
        node_parts_lose(node=cluster.node, detail="rebooted")
        attempt.refresh_from_db()
        assert (attempt.state, fresh(job).state, fresh(job).requeues) == ("NODE_FAIL", "PENDING", 0)
        planning_run()
        assert Attempt.objects.profiles().live().get().epoch == 2

    def test_invariants_4_and_5_it_ends_once_and_stale_agents_change_nothing(self, cluster):
        _, attempt = profile(cluster)
        stale = cluster.report(attempt, "running", epoch=2)
        assert [each["code"] for each in stale["refused"]] == ["stale_epoch"]
        cluster.end(attempt, exit_code=1)
        again = cluster.end(attempt)
        assert [each["code"] for each in again["refused"]] == ["ended"]
        attempt.refresh_from_db()
        assert attempt.state == "FAILED"


class TestItsMinute:
    def test_section_7_after_it_the_job_is_placed_whatever_came(self, cluster):
        job, attempt = profile(cluster)
        earlier(attempt, 61)
        planning_run()
        assert live_runs() == {job.pk}
        cluster.end(attempt, exit_code=1)
        assert fresh(job).state == "STARTING"

    def test_the_server_ends_what_its_node_does_not(self, cluster):
        _, attempt = profile(cluster)
        earlier(attempt, 63)
        assert profiles_end_late() == 0
        earlier(attempt, 66)
        assert (profiles_end_late(), profiles_end_late()) == (1, 0)
        (wanted,) = parts_wanted(node_id=cluster.node.pk)["attempts"]
        assert (wanted["action"], wanted["stop_reason"]) == ("stop", "limit")
        cluster.end(attempt, reason="stopped", exit_code=None, signal=15)
        attempt.refresh_from_db()
        assert attempt.state == "TIMEOUT"


class TestPeople:
    def test_cancelling_ends_the_job_at_once_and_stops_its_profile(self, cluster):
        job, attempt = profile(cluster)
        cluster.report(attempt, "running", pid=5)
        job_cancel(job=job, actor=cluster.owner)
        assert fresh(job).state == "CANCELLED"
        (wanted,) = parts_wanted(node_id=cluster.node.pk)["attempts"]
        assert (wanted["action"], wanted["stop_reason"]) == ("stop", "cancel")
        cluster.end(attempt, reason="stopped", exit_code=None)
        attempt.refresh_from_db()
        assert (attempt.state, fresh(job).state) == ("CANCELLED", "CANCELLED")
        other, again = profile(cluster)
        assert again.job == other, "a cancelled profile says nothing against another"

    def test_holding_lets_it_go_on(self, cluster):
        job, attempt = profile(cluster)
        job_hold(job=job, actor=cluster.owner)
        planning_run()
        cluster.end(attempt)
        assert (fresh(job).state, fresh(job).reason) == ("HELD", "held")
