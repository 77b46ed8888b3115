"""The queue that a process keeps is the database's after any change, by whomever and however late it commits."""

import logging
import random
import threading
import time
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from portal.planning.estimation.models import JobProgress
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning import memory as memories
from portal.planning.rounds.planning import run as planning
from portal.planning.rounds.planning import snapshot
from portal.planning.rounds.planning.memory import COMPARED_EVERY, KeptQueue, Memory, notes_expire
from portal.planning.rounds.planning.queued import queue_load
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.planning.snapshot import snapshot_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job, JobDependency, QueueChange
from portal.work.jobs.services import control
from scheduler.placement.work import NOTHING


@pytest.fixture(autouse=True)
def fresh_memory():
    memories.memory_lose()
    yield
    memories.memory_lose()


@pytest.fixture
def parameters():
    return lambda: scheduler_parameters(knobs_current())


def some(rng, count=3):
    ids = list(Job.objects.filter(array_size=None).values_list("pk", flat=True))
    return rng.sample(ids, min(count, len(ids)))


def bulk(cluster, rng):
    template = Job.objects.order_by("pk").first()
    Job.objects.bulk_create(
        Job(tenant=template.tenant, owner=template.owner, name="b", gpus=[1], submitted_at=timezone.now())
        for _ in range(rng.randint(1, 5))
    )


def undone(cluster, rng):
    with transaction.atomic():
        Job.objects.filter(pk__in=some(rng)).update(priority=rng.randint(1, 9))
        transaction.set_rollback(True)


def progress(cluster, rng):
    for pk in some(rng, 2):
        told = {"epoch": 1, "samples_done": 1, "fraction": rng.random(), "at": timezone.now()}
        JobProgress.objects.update_or_create(job_id=pk, defaults=told)


CHANGES = {
    "submit": lambda cluster, rng: cluster.submit(gpus=rng.choice([1, 2, 4])),
    "array": lambda cluster, rng: cluster.submit(gpus=1, array={"size": 3}),
    "bulk": bulk,
    "undone": undone,
    "progress": progress,
    "no progress": lambda cluster, rng: JobProgress.objects.filter(job__in=some(rng, 4)).delete(),
    "priority": lambda cluster, rng: Job.objects.filter(pk__in=some(rng)).update(priority=rng.randint(-9, 9)),
    "leave": lambda cluster, rng: Job.objects.filter(pk__in=some(rng, 2)).update(state="CANCELLED"),
    "return": lambda cluster, rng: Job.objects.filter(pk__in=some(rng, 2)).update(state="PENDING"),
    "hold": lambda cluster, rng: Job.objects.filter(pk__in=some(rng, 2)).update(state="HELD", waiting_since=None),
    "asked to end": lambda cluster, rng: Job.objects.filter(pk__in=some(rng, 1)).update(
        cancel_requested_at=timezone.now()
    ),
    "delete": lambda cluster, rng: Job.objects.filter(pk__in=some(rng, 1), array=None).delete(),
    "plan": lambda cluster, rng: planning_run(),
}


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_databases_after_any_changes(shared_cluster, parameters, seed, caplog):
    rng, kept = random.Random(seed), Memory()
    for _ in range(5):
        shared_cluster.submit(gpus=4)
    snapshot_load(now=timezone.now(), parameters=parameters(), memory=kept)
    read = 0
    with caplog.at_level(logging.ERROR):
        for _ in range(12):
            for name in rng.choices(list(CHANGES), k=rng.randint(0, 3)):
                CHANGES[name](shared_cluster, rng)
            now = timezone.now()
            found = snapshot_load(now=now, parameters=parameters(), memory=kept)
            whole = snapshot_load(now=now, parameters=parameters())
            assert found.queued == whole.queued == queue_load()
            assert found.state.jobs == whole.state.jobs
            assert (found.state.nodes, found.state.running) == (whole.state.nodes, whole.state.running)
            read += kept.queue.looks
    assert read
    assert not caplog.records, "it was never wrong about the number of jobs"


def test_only_what_changed_is_read(shared_cluster):
    jobs = [shared_cluster.submit(gpus=4) for _ in range(5)]
    kept = KeptQueue()
    assert kept.look().changed is None
    assert kept.look().changed == frozenset()
    Job.objects.filter(pk=jobs[2].pk).update(priority=3)
    assert kept.look().changed == {jobs[2].pk}
    assert kept.look().changed == frozenset()
    Job.objects.filter(pk=jobs[0].pk).update(state="COMPLETED")
    Job.objects.filter(state="COMPLETED").update(name="nobody waits")
    looked = kept.look()
    assert looked.changed == {jobs[0].pk}
    assert [row.pk for row in looked.rows] == [job.pk for job in jobs[1:]]


def test_what_a_dependency_a_promise_or_the_start_rule_changes_is_described_anew(shared_cluster, parameters):
    first, second = shared_cluster.submit(gpus=4), shared_cluster.submit(gpus=4)
    kept = Memory()

    def both():
        now = timezone.now()
        made = [snapshot_load(now=now, parameters=parameters(), memory=each).state.jobs for each in (kept, Memory())]
        assert made[0] == made[1]
        return made[0]

    assert [job.eligible for job in both()] == [True, True]
    JobDependency.objects.create(job=second, on=first, kind="ok")
    assert [job.eligible for job in both()] == [True, False]
    JobDependency.objects.all().delete()
    assert [job.eligible for job in both()] == [True, True]


def test_a_change_that_commits_late_is_not_missed(shared_cluster):
    """The case that a highest number seen would miss: an older transaction commits after a younger one was read."""
    jobs = [shared_cluster.submit(gpus=4) for _ in range(3)]
    kept = KeptQueue()
    kept.look()
    written, go_on = threading.Event(), threading.Event()

    def late():
        try:
            with transaction.atomic():
                Job.objects.filter(pk=jobs[0].pk).update(priority=7)
                written.set()
                go_on.wait(60)
        finally:
            connection.close()

    thread = threading.Thread(target=late)
    thread.start()
    assert written.wait(60)
    if connection.vendor == "postgresql":  # SQLite has one writer at a time
        Job.objects.filter(pk=jobs[1].pk).update(priority=8)
        assert jobs[1].pk in kept.look().changed
    assert kept.look().rows[0].priority == 0
    go_on.set()
    thread.join()
    looked = kept.look()
    assert looked.rows[0].priority == 7
    assert jobs[0].pk in looked.changed
    assert looked.rows == queue_load()


class TestDoubt:
    """A copy that does not agree with the database is read whole."""

    def without_note(self, shared_cluster, **values):
        """Change a job behind the triggers' back."""
        jobs = [shared_cluster.submit(gpus=4) for _ in range(3)]
        kept = KeptQueue()
        kept.look()
        Job.objects.filter(pk=jobs[0].pk).update(**values)
        QueueChange.objects.all().delete()
        return kept

    def test_a_missing_job_is_noticed_at_once(self, shared_cluster, caplog):
        kept = self.without_note(shared_cluster, state="CANCELLED")
        assert kept.look().changed is None
        assert "the queue remembered has 3 jobs, the database 2" in caplog.text

    def test_another_difference_now_and_then(self, shared_cluster, caplog):
        kept = self.without_note(shared_cluster, priority=5)
        assert kept.look().rows[0].priority == 0
        kept.looks = COMPARED_EVERY - 1
        assert kept.look().rows[0].priority == 5
        assert "differs from the database" in caplog.text

    def test_an_old_memory_is_not_trusted(self, shared_cluster, monkeypatch):
        kept = self.without_note(shared_cluster, priority=5)
        kept.at_s -= 1801
        assert kept.look().rows[0].priority == 5

    def test_within_a_transaction_all_is_read_and_nothing_kept(self, shared_cluster):
        shared_cluster.submit(gpus=4)
        kept = KeptQueue()
        with transaction.atomic():
            Job.objects.update(priority=2)
            assert kept.look().rows[0].priority == 2
            transaction.set_rollback(True)
        assert kept.look().changed is None
        assert kept.look().rows[0].priority == 0


def test_plannings_of_one_process_place_as_those_without_memory(shared_cluster):
    jobs = [shared_cluster.submit(gpus=2, cores_per_gpu=1) for _ in range(4)]
    planning_run()
    assert Job.objects.filter(state="STARTING").count() == 2
    control.job_cancel(actor=shared_cluster.owner, job=jobs[2])
    planning_run()
    jobs[3].refresh_from_db()
    assert (jobs[3].state, jobs[3].reason) == ("PENDING", "not-enough-idle-gpus")
    assert Planning.objects.order_by("-number").first().queue_length == 1


def test_notes_go_after_two_hours(shared_cluster):
    shared_cluster.submit(gpus=4)
    young = QueueChange.objects.count()
    assert young
    assert notes_expire() == 0
    QueueChange.objects.update(at=timezone.now() - timedelta(hours=3))
    assert notes_expire() == young


def test_what_the_solver_leaves_is_given_to_the_next_planning(shared_cluster, monkeypatch):
    original, given_to_it, left = planning.plan_on, [], []

    def plan_on(memory, *arguments, **keywords):
        made, after = original(memory, *arguments, **keywords)
        given_to_it.append(memory)
        left.append(after)
        return made, after

    monkeypatch.setattr(planning, "plan_on", plan_on)
    shared_cluster.submit()
    planning_run()
    planning_run()
    assert given_to_it[0] is NOTHING
    assert given_to_it[1] is left[0]


def test_a_planning_that_failed_halfway_leaves_no_half_memory(shared_cluster, parameters, monkeypatch):
    """It had read the changed jobs, and had renewed the scheduler's description of none."""
    waiting = [shared_cluster.submit(gpus=4, cores_per_gpu=1) for _ in range(3)][-1]
    planning_run()
    Job.objects.filter(pk=waiting.pk).update(priority=-7)
    with monkeypatch.context() as broken, pytest.raises(ZeroDivisionError):
        broken.setattr(snapshot, "profiles_past", lambda **_: 1 / 0)
        planning_run()
    now = timezone.now()
    with memories.memory_taken() as memory:
        kept = snapshot_load(now=now, parameters=parameters(), memory=memory).state.jobs
    assert kept == snapshot_load(now=now, parameters=parameters()).state.jobs
    assert -7 in {job.priority for job in kept}


@pytest.mark.parametrize("hours", [3, -3])
def test_a_memory_that_slept_with_its_machine_is_not_believed(shared_cluster, monkeypatch, hours):
    """The monotonic clock stands still meanwhile, and other machines have deleted notes that this one has not read."""
    job = shared_cluster.submit(gpus=4)
    kept = KeptQueue()
    kept.look()
    Job.objects.filter(pk=job.pk).update(priority=3)
    QueueChange.objects.all().delete()
    later = time.time() + hours * 3600
    monkeypatch.setattr(memories.time, "time", lambda: later)
    looked = kept.look()
    assert looked.changed is None
    assert looked.rows[0].priority == 3
