"""Sources of forecasts: run times, recent arrivals, and unfinished jobs' earlier and longest run times."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.planning.estimation.models import JobProgress
from portal.planning.rounds.asking import experience
from portal.planning.rounds.asking.experience import experience_read
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job

pytestmark = pytest.mark.django_db


def test_run_times_and_arrivals_are_learnt_from_the_jobs(cluster):
    ended = {"state": "COMPLETED", "waiting_since": None, "started_at": timezone.now(), "ended_at": timezone.now()}
    for _ in range(25):
        job = cluster.submit(gpus=2, expected_duration_s=300)
        Job.objects.filter(pk=job.pk).update(**ended, age_s=300.0, ran_s=30.0, attained_gpu_s=60.0)
    known = experience_read(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    assert known.run_times.ratio(job.owner_id, (2,), 0.0) == pytest.approx(0.1, rel=0.05)
    assert [(each.requirement, each.expected_duration_s) for each in known.arrived] == [((2,), 300.0)] * 25
    assert timezone.now().timestamp() - known.since_s == pytest.approx(1800, abs=5)  # one burst is no rate


def test_of_an_array_that_came_as_many_tasks_are_learnt_from_as_there_is_room_for(cluster, monkeypatch):
    """Its tasks are made as room comes, so the latest rows are not who came last; each counts where its array came."""
    monkeypatch.setattr(experience, "ARRIVALS_READ", 6)
    early = cluster.submit(gpus=4)
    array = cluster.submit(array={"size": 50}, gpus=1)
    late = [cluster.submit(gpus=2) for _ in range(3)]
    now, parameters = timezone.now(), scheduler_parameters(knobs_current())
    Job.objects.filter(array=array)[0].delete()  # one that was asked for, and is gone since
    came = experience_read(now=now, parameters=parameters).arrived
    assert sorted(each.requirement for each in came) == [(1,)] * 3 + [(2,)] * 3
    monkeypatch.setattr(experience, "ARRIVALS_READ", 300)
    came = experience_read(now=now, parameters=parameters).arrived
    assert {each.id for each in came} == {
        early.pk,
        *(job.pk for job in late),
        *array.tasks.values_list("pk", flat=True),
    }
    day = timedelta(days=1, seconds=1)
    assert experience_read(now=now + day, parameters=parameters).arrived == []


def test_nothing_that_experience_reads_goes_through_all_jobs(cluster):
    """Each query has an index: jobs that ended long ago cost a forecast nothing."""
    cluster.submit(gpus=1, time_limit_s=900)
    parameters = scheduler_parameters(knobs_current())
    with CaptureQueriesContext(connection) as made:
        experience_read(now=timezone.now(), parameters=parameters)
    assert len(made) == 12
    limits = next(each["sql"] for each in made if '"time_limit_s" IS NOT NULL' in each["sql"])
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")  # so few rows are read faster as a whole
            cursor.execute(f"EXPLAIN {limits}")
        else:
            cursor.execute(f"EXPLAIN QUERY PLAN {limits}")
        assert "job_unfinished_limits" in str(cursor.fetchall())


def test_what_ran_before_and_limits_are_read_of_unfinished_jobs(cluster):
    """A job that was stopped goes on where it was; one without checkpoints begins anew, one that tells its progress is known."""
    stopped, anew, told, ended = (cluster.submit(gpus=1, time_limit_s=900) for _ in range(4))
    Job.objects.update(ran_s=120.0, checkpointable=True)
    Job.objects.filter(pk=anew.pk).update(checkpointable=False, time_limit_s=None)
    JobProgress.objects.create(job=told, epoch=1, samples_done=5, fraction=0.5, at=timezone.now())
    Job.objects.filter(pk=ended.pk).update(state="COMPLETED", waiting_since=None, ended_at=timezone.now())
    known = experience_read(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    assert known.ran_s == {stopped.pk: 120.0}
    assert known.limits_s == {stopped.pk: 900, told.pk: 900}
