"""Writers side by side: nobody waits for each other in a circle, and nothing is left half done.

On SQLite writers take turns; on Postgres (tests/postgres runs this file there) they really meet.
"""

import random
from datetime import timedelta

import pytest

from portal.cluster.models import Node
from portal.cluster.services.joining import node_hello
from portal.cluster.services.sharing import gpu_mode_set
from portal.foundation.errors import BerthError
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.services.control import job_cancel, job_hold, job_release
from portal.work.jobs.services.placing import DoesNotFit, attempt_start
from portal.work.jobs.services.placings import Part
from portal.work.jobs.services.reconciling import leases_expire
from portal.work.jobs.services.waiting import WaitingNote, waiting_note
from tests.portal import given

EXPECTED = (BerthError, DoesNotFit)


def settled(results):
    """No result may be anything but a value or a refusal: a deadlock would be an OperationalError."""
    odd = [each for each in results if isinstance(each, BaseException) and not isinstance(each, EXPECTED)]
    assert not odd, odd
    assert not given.violations()


def test_array_cancel_against_starts_ends_and_plannings(shared_cluster):
    cluster = shared_cluster
    other = given.node_make("n2", gpus=0)
    for turn in range(3):
        parent = cluster.submit(gpus=0, array={"size": 12})
        tasks = list(Job.objects.filter(array=parent).order_by("pk"))
        live = [cluster.start(task, cluster.node if turn % 2 else other, gpus=0) for task in tasks[:3]]
        results = given.race(
            lambda p=parent: job_cancel(job=p, actor=cluster.owner),
            planning_run,
            *[lambda a=a: cluster.end(a, exit_code=1) for a in live],
            lambda t=tasks[5]: cluster.start(t, cluster.node, gpus=0, cores=2),
            lambda t=tasks[6]: job_cancel(job=t, actor=cluster.owner),
        )
        settled(results)
        for attempt in Attempt.objects.filter(ended_at=None):
            assert attempt.stop_reason == "cancel", "a task started beside the cancel, and nobody stops it"
            cluster.end(attempt, reason="stopped", exit_code=None)
        parent.refresh_from_db()
        assert parent.state in {"CANCELLED", "FAILED"}


def test_everybody_at_once(shared_cluster):
    cluster = shared_cluster
    nodes = [cluster.node, given.node_make("n2"), given.node_make("n3")]
    rng = random.Random(5)
    for turn in range(4):
        attempts = [
            cluster.start(cluster.submit(gpus=2, restartable=True), *rng.sample(nodes, 2), gpus=1) for _ in range(3)
        ]
        waiting = [cluster.submit(gpus=0) for _ in range(3)]
        calls = [lambda a=a, r=r: cluster.report(a, "running", rank=r) for a in attempts for r in (1, 0)]
        calls += [lambda a=attempts[0]: job_cancel(job=a.job, actor=cluster.owner)]
        calls += [lambda j=j: job_hold(job=j, actor=cluster.owner) for j in waiting]
        calls += [lambda j=j: job_release(job=j, actor=cluster.owner) for j in waiting]
        calls += [planning_run, planning_run, lambda: leases_expire(grace_s=1)]
        boot = f"boot-{turn + 2}"
        calls += [lambda n=nodes[0], b=boot: node_hello(node=n, inventory=given.inventory(n, boot_id=b))]
        rng.shuffle(calls)
        settled(given.race(*calls))
        for node in Node.objects.all():
            node_hello(node=node, inventory=given.inventory(node, boot_id=f"end-{turn}"))
        assert not given.violations()
        assert not Attempt.objects.filter(ended_at=None).exists()
        for job in Job.objects.unfinished():
            job_cancel(job=job, actor=cluster.owner)


def note(job, reason="not-enough-idle-gpus", *, counts=True):
    return WaitingNote(
        job_id=job.pk, reason=reason, figures={}, inside_window=True, counts=counts, age_s=60.0, age_source="default"
    )


def test_parts_of_a_gpu_are_taken_side_by_side_and_never_oversold(shared_cluster):
    """Several placings, its change of kind and a planning at once: what comes first holds, the rest is refused."""
    cluster = shared_cluster
    given.shared(cluster.node, 0)
    jobs = [cluster.submit(**given.shareable(0.4, 9000)) for _ in range(4)]
    whole = cluster.submit(gpus=1)

    def place(job, core, **part):
        return attempt_start(job_id=job.pk, parts=[Part(cluster.node.pk, (0,), (core,), 0, **part)], planning_number=1)

    part = {"gpu_compute": 400, "gpu_memory_mib": 9000}
    calls = [lambda j=j, c=c: place(j, c, **part) for c, j in enumerate(jobs)]
    calls += [lambda: place(whole, 7), lambda: gpu_mode_set(node=cluster.node, index=0, mode="exclusive", actor=None)]
    settled(given.race(*calls))
    gpu = cluster.node.gpus.get(index=0)
    kinds = set(gpu.allocations.filter(released_at=None).values_list("mode", flat=True))
    assert kinds <= {gpu.mode}
    assert gpu.allocations.filter(released_at=None, mode="shared").count() in {0, 2}


def test_a_note_never_overwrites_what_happened_since_the_snapshot(cluster):
    held, released, ended = (cluster.submit() for _ in range(3))
    job_hold(job=released, actor=cluster.owner)
    now = Job.objects.get(pk=held.pk).submitted_at
    notes = [note(held), note(released, "held", counts=False), note(ended)]
    job_hold(job=held, actor=cluster.owner)
    job_release(job=released, actor=cluster.owner)
    job_cancel(job=ended, actor=cluster.owner)
    before = list(Job.objects.order_by("pk").values())
    assert waiting_note(notes=notes, now=now) == 0
    assert list(Job.objects.order_by("pk").values()) == before


def test_a_note_written_twice_changes_nothing(cluster):
    job = cluster.submit()
    assert waiting_note(notes=[note(job)], now=job.submitted_at) == 1
    assert waiting_note(notes=[note(job)], now=job.submitted_at) == 0
    job.refresh_from_db()
    assert (job.reason, job.age_s) == ("not-enough-idle-gpus", 60.0)


def test_each_note_writes_what_it_changes_and_nothing_else(cluster):
    """An age that moved leaves the reason's figures and its moment alone; so does waiting that no longer counts."""
    aged, stopped, told, _ = jobs = [cluster.submit() for _ in range(4)]
    first = aged.submitted_at
    waiting_note(notes=[note(job)._replace(figures={"needed": 4}) for job in jobs], now=first)
    before = {row["id"]: row for row in Job.objects.values()}
    notes = [
        note(aged)._replace(age_s=90.0, age_source="declared", figures={"needed": 5}),
        note(stopped, counts=False),
        note(told, "tenant-quota")._replace(figures={"quota": 1}, age_s=61.0),
        note(jobs[3])._replace(figures={"needed": 6}),
    ]
    later = first + timedelta(minutes=10)
    assert waiting_note(notes=notes, now=later) == 3
    waited_s = (later - before[stopped.pk]["waiting_since"]).total_seconds()
    changed = {
        aged.pk: {"age_s": 90.0, "age_source": "declared"},
        stopped.pk: {"waiting_since": None, "waited_s": pytest.approx(waited_s, abs=0.002)},
        told.pk: {"reason": "tenant-quota", "reason_figures": {"quota": 1}, "reason_at": later},
    }
    assert {row["id"]: row for row in Job.objects.values()} == {
        number: row | changed.get(number, {}) for number, row in before.items()
    }


def test_only_eligible_waiting_counts(cluster):
    job = cluster.submit()
    start = job.submitted_at
    for minutes, counts in ((10, False), (20, False), (30, True), (45, False)):
        waiting_note(notes=[note(job, "tenant-quota", counts=counts)], now=start + timedelta(minutes=minutes))
    job.refresh_from_db()
    assert job.waited_s == pytest.approx((10 + 15) * 60, abs=0.002)  # SQLite tells milliseconds
    assert job.waiting_since is None
