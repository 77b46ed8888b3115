"""The scheduler's input: every field that a policy reads comes from the database."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.services import gpu_type_upsert
from portal.planning.estimation.models import JobProgress
from portal.planning.rounds.models import Round
from portal.planning.rounds.planning.past import array_history_now, array_history_read
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Attempt, Job
from tests.portal import given


def snapshot():
    return state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))


@pytest.mark.parametrize(
    ("fields", "movable"), [({}, False), ({"restartable": True}, True), ({"checkpointable": True}, True)]
)
def test_a_job_that_may_run_again_is_movable(cluster, fields, movable):
    """Section 4: checkpointable or restartable jobs may always borrow."""
    cluster.submit(model="charlm", **fields)
    job = snapshot().jobs[0]
    assert (job.movable, job.model_label) == (movable, "charlm")
    cluster.start(Job.objects.get())
    assert snapshot().running[0].movable is movable


def test_gpu_seconds_are_counted_over_all_attempts(cluster):
    attempt = cluster.running(gpus=2, cores=2, restartable=True)
    now = timezone.now()
    Attempt.objects.update(created_at=now - timedelta(seconds=99), started_at=now - timedelta(seconds=50))
    cluster.end(attempt, reason="lost", exit_code=None, at=now.timestamp())
    assert snapshot().jobs[0].attained_gpu_s == pytest.approx(100.0, abs=0.1)
    assert Job.objects.get().ran_s == pytest.approx(50.0, abs=0.1)


class TestExpectedEnd:
    def end_after_s(self, cluster, **job):
        """Seconds from its start to its expected end."""
        attempt = cluster.running(
            checkpointable=job.pop("checkpointable", False), time_limit_s=job.pop("limit_s", None)
        )
        Job.objects.update(**job)
        attempt.refresh_from_db()
        end_s = snapshot().running[0].expected_end_s
        return None if end_s is None else end_s - attempt.started_at.timestamp()

    def test_by_its_expected_run_time(self, cluster):
        assert self.end_after_s(cluster, age_s=600.0) == pytest.approx(600.0)

    def test_at_its_time_limit_at_the_latest(self, cluster):
        assert self.end_after_s(cluster, age_s=600.0, limit_s=90) == pytest.approx(90.0)

    def test_unknown_without_either(self, cluster):
        assert self.end_after_s(cluster, age_s=None) is None

    @pytest.mark.parametrize(("checkpointable", "expected_s"), [(True, 200.0), (False, 600.0)])
    def test_what_a_checkpoint_kept_is_not_run_again(self, cluster, checkpointable, expected_s):
        found = self.end_after_s(cluster, age_s=600.0, ran_s=400.0, checkpointable=checkpointable)
        assert found == pytest.approx(expected_s)


def test_a_running_elastic_job_is_described_as_if_it_waited(cluster):
    cluster.running(gpus=1, checkpointable=True)
    live = snapshot().running[0]
    assert (live.elastic, live.description) == (False, None), "a rigid job is never resized"
    job = cluster.submit(gpus=[1, 2], checkpointable=True)
    cluster.start(job)
    live = next(each for each in snapshot().running if each.job == job.pk)
    assert live.elastic
    assert (live.description.id, live.description.requirement, live.description.eligible) == (job.pk, (1, 2), True)
    assert live.description.checkpoint_domain == "node:n1", "its checkpoint is written where it runs now"


def test_a_job_that_starts_from_zero_is_not_resized(cluster):
    job = cluster.submit(gpus=[1, 2], restartable=True)
    cluster.start(job)
    live = snapshot().running[0]
    assert (live.movable, live.elastic, live.description) == (True, False, None)


def test_the_operators_weights_of_gpu_types(cluster):
    assert snapshot().gpu_weights == {"A100": 1.0}
    gpu_type_upsert(name="A100", share_weight=2.5)
    assert snapshot().gpu_weights == {"A100": 2.5}


class TestArrayHistory:
    """Section 4: the most GPUs that jobs of 4 or more held plus queued at one time in the last week."""

    def job(self, cluster, gpus, since_h, until_h=None):
        now = timezone.now()
        job = cluster.submit(gpus=gpus)
        ended = None if until_h is None else now - timedelta(hours=until_h)
        state = "PENDING" if until_h is None else "COMPLETED"
        Job.objects.filter(pk=job.pk).update(
            submitted_at=now - timedelta(hours=since_h), ended_at=ended, state=state, waiting_since=None
        )

    def test_the_peak_of_large_jobs(self, cluster):
        given.node_make("big", gpus=8, cores=64)
        assert array_history_read(now=timezone.now())["large_gpus_peak"] is None
        self.job(cluster, [0], since_h=9)
        assert array_history_read(now=timezone.now())["large_gpus_peak"] is None, "no GPU job is known"
        self.job(cluster, [1, 8], since_h=200, until_h=190)
        assert array_history_read(now=timezone.now())["large_gpus_peak"] is None, "none of the last week"
        self.job(cluster, [1, 8], since_h=30, until_h=20)
        assert array_history_read(now=timezone.now())["large_gpus_peak"] == 0, "small ones alone"
        self.job(cluster, [4, 8], since_h=30, until_h=20)
        self.job(cluster, [8], since_h=25, until_h=10)
        self.job(cluster, [4], since_h=9)
        self.job(cluster, [1, 2], since_h=25)  # small
        self.job(cluster, [8], since_h=200, until_h=190)  # before last week
        assert array_history_read(now=timezone.now())["large_gpus_peak"] == 12

    def test_a_round_keeps_it_so_that_no_border_moves_within_it(self, cluster):
        self.job(cluster, [4], since_h=1)
        planning_run()
        assert array_history_now().large_gpus_peak == 4
        self.job(cluster, [4], since_h=1)
        planning_run()
        assert snapshot().array_history.large_gpus_peak == 4
        Round.objects.update(started_at=timezone.now() - timedelta(hours=1))
        planning_run()
        assert snapshot().array_history.large_gpus_peak == 8


def test_what_a_running_job_says_is_done_tells_when_it_ends(cluster):
    job = cluster.submit(gpus=[1, 2], checkpointable=True, expected_duration_s=1000)
    cluster.start(job)
    Job.objects.update(age_s=1000.0)
    JobProgress.objects.create(job=job, epoch=1, samples_done=3, samples_total=4, fraction=0.75, at=timezone.now())
    now = timezone.now()
    live = state_load(now=now, parameters=scheduler_parameters(knobs_current())).running[0]
    assert live.expected_end_s == pytest.approx(now.timestamp() + 250.0)
    assert live.description.done_fraction == 0.75
