"""Records of jobs into the tables (algorithms.md section 2): once each, race-safe, and one tenant's only."""

import numpy as np
import pytest
from django.utils import timezone

from portal.cluster.models import GpuType, Node
from portal.planning.estimation.models import AttemptSpeed, JobProfile, JobProgress, Link, Signature, ThroughputCell
from portal.planning.estimation.records import records_apply
from portal.planning.estimation.selectors import knowledge_load
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job
from scheduler import model
from scheduler.estimator.estimator import estimator_for
from scheduler.estimator.iteration import throughput
from scheduler.model.speeds import Cell, CellKey
from scheduler.pattern import Pattern
from tests.portal import given


def record(samples=640.0, seconds=2.0, **more):
    return {
        "iterations": 10,
        "samples": samples,
        "seconds": seconds,
        "done": samples,
        "total": None,
        "saved": None,
        "batch": 64,
        "world": 1,
        "parameters": None,
        "rows": [],
    } | more


def send(attempt, *records, offset=0, next_offset=None, rank=0, epoch=None, node=None, dropped=0):
    part = attempt.allocations.filter(rank=rank).first()
    sent = {
        "attempt": attempt.key,
        "epoch": epoch or attempt.epoch,
        "rank": rank,
        "offset": offset,
        "next_offset": next_offset or offset + 100,
        "dropped": dropped,
        "records": list(records),
    }
    (answer,) = records_apply(node=node or part.node, parts=[sent])
    return answer


def known(job):
    return knowledge_load([model.Job(id=job.pk, tenant=job.tenant_id, requirement=(1,), model_label=job.model or None)])


@pytest.mark.parametrize("samples", [5e-324, 1e-300, 1e-10])
def test_a_rate_that_no_job_can_have_says_nothing_and_the_next_record_counts(cluster, samples):
    """Else a quotient of two speeds would be 0, and predictions, also of others' starts, would fail on its logarithm."""
    attempt = cluster.running(gpus=2, model="vgg")
    assert send(attempt, record(400.0))["code"] is None
    other = cluster.running(gpus=1, model="vgg")
    assert send(other, record(samples))["code"] is None
    assert {key.gpus for key in known(other.job).cells} == {2}
    assert send(other, record(100.0), offset=100)["code"] is None
    assert {key.gpus for key in known(other.job).cells} == {1, 2}


def test_rates_that_were_taken_before_are_left_out(cluster):
    attempt = cluster.running(gpus=2, model="vgg")
    send(attempt, record(400.0))
    ThroughputCell.objects.update(mean=5e-324)
    assert known(attempt.job).cells == {}


def test_section_2_throughput_goes_to_the_entity_and_the_type_by_gpu_count(cluster):
    attempt = cluster.running(gpus=2, model="vgg")
    assert send(attempt, record(400.0), record(800.0))["code"] is None
    name = f"tenant:{cluster.tenant.pk}:vgg"
    expected = Cell().add(100.0).add(200.0)  # per GPU, samples a second
    cells = known(attempt.job).cells
    assert cells == {
        CellKey(name, cluster.node.pk, gpus=2): expected,
        CellKey(name, "A100", gpus=2): expected,
    }


def test_section_2_a_spread_run_goes_by_gpus_and_nodes_and_counts_once_for_the_type(cluster):
    nodes = [cluster.node, given.node_make("n2")]
    attempt = cluster.running(*nodes, gpus=2, model="vgg")
    for rank in (0, 1):
        send(attempt, record(800.0), rank=rank)
    cells = known(attempt.job).cells
    assert {key.resource: (key.gpus, key.nodes, cell.count, cell.mean) for key, cell in cells.items()} == {
        nodes[0].pk: (4, 2, 1, 100.0),
        nodes[1].pk: (4, 2, 1, 100.0),
        "A100": (4, 2, 1, 100.0),
    }
    assert AttemptSpeed.objects.get().samples == 800.0  # not twice


def test_each_record_is_taken_once_and_stale_agents_change_nothing(cluster):
    attempt = cluster.running()
    other = given.node_make("n2")
    send(attempt, record(), offset=0, next_offset=50)
    again = send(attempt, record(), offset=0, next_offset=50)
    assert (again["code"], again["next_offset"]) == ("offset_mismatch", 50)
    assert send(attempt, record(), offset=70, next_offset=90)["code"] == "offset_mismatch"
    assert send(attempt, record(), epoch=attempt.epoch + 1, offset=50)["code"] == "unknown_part"
    assert send(attempt, record(), offset=50, node=other)["code"] == "unknown_part"
    assert [cell.count for cell in ThroughputCell.objects.all()] == [1, 1]
    assert Node.objects.get(pk=other.pk).refused_messages == 1
    assert Node.objects.get(pk=cluster.node.pk).refused_messages == 3


def test_records_of_an_ended_attempt_are_still_taken_and_an_older_one_says_nothing_of_progress(cluster):
    first = cluster.running(checkpointable=True, samples=1000, retries=1)
    cluster.end(first, exit_code=1)
    second = cluster.start(first.job)
    send(second, record(done=700.0))
    assert send(first, record(done=300.0))["code"] is None
    assert JobProgress.objects.get().fraction == pytest.approx(0.7)
    assert ThroughputCell.objects.filter(count=2).count() == 2  # one signature: the job and its restarts


@pytest.mark.parametrize(
    ("total", "samples", "done", "fraction"),
    [(2000.0, 1000, 500.0, 0.25), (None, 1000, 500.0, 0.5), (None, None, 500.0, 0.0), (None, 100, 500.0, 1.0)],
)
def test_progress_counts_as_the_job_counts(cluster, total, samples, done, fraction):
    more = {"samples": samples} if samples else {}
    send(cluster.running(**more), record(total=total, done=done))
    assert JobProgress.objects.get().fraction == fraction


def test_what_cannot_be_is_dropped_and_counted(cluster):
    attempt = cluster.running()
    send(attempt, record(seconds=80_000.0), record(), dropped=7)  # longer than the attempt has existed
    speed = AttemptSpeed.objects.get()
    assert (speed.records, speed.dropped, speed.seconds) == (1, 8, 2.0)


def test_a_record_over_a_moment_or_without_samples_says_nothing_of_speed(cluster):
    send(cluster.running(), record(seconds=0.01), record(samples=0.0), record(samples=1e15, seconds=0.5, done=None))
    assert not ThroughputCell.objects.exists()


def test_a_cpu_job_has_progress_and_no_tables(cluster):
    attempt = cluster.running(gpus=0, samples=1000)
    send(attempt, record(done=500.0))
    assert JobProgress.objects.get().fraction == 0.5
    assert not ThroughputCell.objects.exists()


def test_invariant_8_a_label_of_another_tenant_is_another_signature(cluster):
    mine = cluster.running(model="vgg")
    send(mine, record())
    foreign = given.Tenant.objects.create(name="foreign")
    theirs = cluster.submit(user=given.member("fred", foreign), model="vgg")
    assert known(theirs).cells == {}
    assert known(mine.job).cells
    own = cluster.running()
    send(own, record())
    assert known(theirs).cells == {}
    assert {key.signature for key in known(own.job).cells} == {f"job:{own.job_id}"}


def rows(rng, pattern, count, *, gpus=1):
    """Iterations as a job times them; wait times where there is somebody to wait for."""
    found = []
    for _ in range(count):
        data = abs(rng.normal(0.03, 0.003) if rng.random() < 0.8 else rng.normal(0.5, 0.05))
        forward, backward, update = (mean * rng.normal(1, 0.02) for mean in (0.1, 0.2, 0.03))
        gradient = backward + update
        whole = forward + (max(data, gradient) if pattern == 1 else data + gradient)
        found.append([data, forward, backward, update, None, 0.02 if gpus > 1 else None, whole])
    return found


@pytest.mark.parametrize("pattern", [Pattern.OVERLAPPED, Pattern.SEQUENTIAL])
def test_section_2_profile_modules_mixture_and_pattern_come_from_what_jobs_record(cluster, pattern):
    attempt = cluster.running(gpus=1, model="vgg")
    rng = np.random.default_rng(5)
    for turn in range(30):
        send(attempt, record(rows=rows(rng, pattern, 16), parameters=10**7), offset=turn * 100)
    (profile,) = known(attempt.job).profiles.values()
    assert profile.pattern is pattern
    assert (profile.forward_s, profile.backward_s, profile.update_s) == pytest.approx((0.1, 0.2, 0.03), rel=0.02)
    assert profile.loading.probabilities == pytest.approx((0.8, 0.2), abs=0.05)
    assert (profile.batch_size, profile.parameters) == (64, 10**7)
    truth = rows(np.random.default_rng(6), pattern, 4000)
    assert throughput(profile, None, 1, 1) == pytest.approx(64 / np.mean([row[6] for row in truth]), rel=0.05)


def test_section_2_in_wide_runs_only_data_and_wait_times_are_recorded(cluster):
    send(cluster.running(gpus=4, model="vgg"), record(rows=rows(np.random.default_rng(1), 1, 16, gpus=4), world=4))
    profile = JobProfile.objects.get()
    assert (profile.modules, profile.data_count) == (0, 16)
    assert {wait for _, wait in profile.recent_data} == {0.02}
    assert known(Job.objects.get()).profiles == {}  # no theory without time modules


def test_section_2_inference_is_recognised_on_any_number_of_gpus(cluster):
    row = [0.05, 0.1, None, None, None, None, 0.15]
    attempt = cluster.running(gpus=4, model="serve")
    send(attempt, record(rows=[row] * 16, world=4))
    (profile,) = known(attempt.job).profiles.values()
    assert profile.pattern is Pattern.INFERENCE
    assert throughput(profile, None, 4, 1) == pytest.approx(64 / 0.15, rel=1e-3)


def test_another_batch_size_starts_the_time_modules_afresh(cluster):
    attempt = cluster.running(gpus=1)
    slow, fast = [0.01, 0.4, 0.4, 0.1, None, None, 0.9], [0.01, 0.1, 0.1, 0.1, None, None, 0.3]
    send(attempt, record(rows=[slow] * 16, batch=256))
    send(attempt, record(rows=[fast] * 16, batch=64), offset=100)
    profile = JobProfile.objects.get()
    assert (profile.batch, profile.modules, profile.forward_s) == (64, 16, pytest.approx(0.1))


def test_the_prediction_is_made_before_the_first_record_and_says_its_source(cluster):
    Link.objects.create(gpu_type=GpuType.objects.get(), within_node=1e9)
    first = cluster.running(gpus=1, model="vgg")
    row = [0.01, 0.1, 0.2, 0.05, None, None, 0.35]
    send(first, record(rows=[row] * 16, samples=365.0, parameters=10**8))
    wide = cluster.running(gpus=2, model="vgg")
    send(wide, record(samples=700.0))
    again = cluster.running(gpus=1, model="vgg")
    send(again, record())
    found = {s.attempt_id: (s.predicted_source, s.predicted_samples_per_s) for s in AttemptSpeed.objects.all()}
    iteration_s = 0.1 + max(0.2 + 0.2 * 0.05, 0.05) + 0.05
    assert found == {
        first.pk: ("assumed", None),
        wide.pk: ("theory", pytest.approx(2 * 64 / iteration_s)),
        again.pk: ("entity", pytest.approx(365.0 / 2)),
    }


def test_the_snapshot_carries_what_is_known_in_a_fixed_number_of_queries(cluster, django_assert_max_num_queries):
    parameters = scheduler_parameters(knobs_current())
    send(cluster.running(model="vgg", samples=1000), record())
    waiting = cluster.submit(model="vgg", gpus=[1, 2])
    JobProgress.objects.create(job=waiting, epoch=1, samples_done=5, fraction=0.5, at=timezone.now())
    with django_assert_max_num_queries(25):
        state = state_load(now=timezone.now(), parameters=parameters)
    (job,) = state.jobs
    assert (job.model_label, job.done_fraction) == ("vgg", 0.5)
    assert estimator_for(state.knowledge, {}, state.nodes).per_gpu(job, state.nodes[0], 1, 1).source == "entity"


def test_what_a_stop_costs_is_what_was_done_after_the_newest_checkpoint(cluster):
    attempt = cluster.running()
    send(attempt, record(done=640.0))
    assert AttemptSpeed.objects.get().samples_lost is None  # it never reported a checkpoint
    send(attempt, record(done=1280.0, saved=1000.0), record(done=1920.0, saved=1000.0), offset=100)
    speed = AttemptSpeed.objects.get()
    assert (speed.samples_lost, speed.lost_s) == (920.0, 920.0 / 320.0)
    send(attempt, record(done=1920.0, saved=1920.0), offset=200)
    assert AttemptSpeed.objects.get().samples_lost == 0.0


def test_records_at_once_lose_none(shared_cluster):
    """Two attempts under one label on one node: every measurement is counted, on SQLite and on Postgres."""
    attempts = [shared_cluster.running(model="vgg") for _ in range(4)]
    results = given.race(*[lambda each=each: send(each, record(), record()) for each in attempts])
    assert not [result for result in results if isinstance(result, BaseException)], results
    assert [result["code"] for result in results] == [None] * 4
    assert [cell.count for cell in ThroughputCell.objects.all()] == [8, 8]
    assert Signature.objects.count() == 1


def test_section_2_runs_tell_the_spread_of_steps_and_how_much_of_the_exchange_shows(cluster):
    rng = np.random.default_rng(1)
    alone = [[0.1, f, 0.08, 0.01, None, None, 0.19 + f] for f in rng.normal(0.04, 0.004, 64)]
    attempt = cluster.running(gpus=1, model="vgg")
    for turn in range(4):
        send(attempt, record(rows=alone[16 * turn : 16 * turn + 16]), offset=turn * 100)
    profile = JobProfile.objects.get()
    assert profile.rest_sigma_s == pytest.approx(0.004, rel=0.3)
    assert (profile.wait_gpus, profile.exchange_s) == (0.0, 0.0)
    after = 0.1 + 0.04 + 0.08 + 0.01 + 0.003 + 0.02
    send(cluster.running(gpus=3, model="vgg"), record(rows=[[0.1, None, None, None, 0.02, 0.003, after]] * 16, world=3))
    (known_now,) = known(Job.objects.first()).profiles.values()
    assert known_now.wait_gpus == pytest.approx(3)
    assert known_now.exposed == pytest.approx(1.0, abs=0.05)


def test_section_2_a_run_of_another_batch_or_without_a_time_for_waiting_says_nothing_of_the_exchange(cluster):
    send(cluster.running(gpus=1, model="vgg"), record(rows=[[0.1, 0.04, 0.08, 0.01, None, None, 0.23]] * 16, batch=64))
    told = [0.1, None, None, None, 0.02, 0.003, 0.25]
    several = cluster.running(gpus=2, model="vgg")
    send(several, record(rows=[told] * 16, world=2, batch=256))
    send(several, record(rows=[[*told[:5], None, 0.25]] * 16, world=2, batch=64), offset=100)
    assert JobProfile.objects.get().exchange_s == 0.0
