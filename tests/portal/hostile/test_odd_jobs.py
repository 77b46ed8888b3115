"""Jobs with any figures that are taken, and that record any: plannings and all that comes of them go on."""

import random

import pytest
from django.test import Client

from portal.foundation.errors import BerthError
from portal.nodes.serializers import Iterations
from portal.planning.estimation import tasks as estimation
from portal.planning.estimation.models import PartOffset
from portal.planning.estimation.records import records_apply
from portal.planning.rounds.asking.changes import changes_work
from portal.planning.rounds.asking.forecasting import forecasts_refresh
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.tuning.searching import tuning_pass
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.states import QUEUED
from tests.portal import given

pytestmark = pytest.mark.slow

COUNTS = [1, 2, 3, 7, 64, 2**31 - 1, 10**15]
SECONDS = [5e-324, 1e-300, 1e-9, 0.5, 60, 3600.5, 316_224_000]
BOTH = [True, False]
ANY = {
    "category": ["cv", "nlp", "speech", "cpu", "other"],
    "pipelined": BOTH,
    "model": ["m", "n", "µ"],
    "parameters": COUNTS,
    "heavy_between_iterations": BOTH,
    "instrumented": BOTH,
    "memory_mib": [1, 4096, 16_000, 16_001, 2**39],
    "time_limit_s": [1, 60, 316_224_000],
    "samples": COUNTS,
    "expected_duration_s": SECONDS,
    "checkpointable": BOTH,
    "restartable": BOTH,
    "max_requeues": [0, 1000],
    "array": [{"size": 1}, {"size": 5, "concurrency": 1}, 3],
    "priority": [-100, -1, 0],
}
OF_GPU_JOBS = {
    "gpu_types": [["A100"], ["V100", "A100"]],
    "cores_per_gpu": [1, 2, 7, 64],
    "batch_per_gpu": [1, 7, 2**31 - 1],
}
SIZES = [1, 2, 3, 4, 8, 64, 65_536, [1, 2, 4], [1, 65_536], [3, 7], {"min": 1, "max": 65_536}, {"min": 2, "max": 5}]


def some(rng, fields):
    return {name: rng.choice(values) for name, values in fields.items() if rng.random() < 0.3}


def description(rng):
    kind, asked = rng.random(), {"command": "true"} | some(rng, ANY)
    if kind < 0.2:
        return asked | {"gpus": 0} | some(rng, {"cores": [1, 8, 9, 64]})
    if kind < 0.4:
        shared = given.shareable(rng.choice([0.001, 0.25, 1]), rng.choice([1, 4096, 24_576]))
        return asked | shared | some(rng, OF_GPU_JOBS | {"latency_class": ["batch", "latency"]})
    return asked | {"gpus": rng.choice(SIZES)} | some(rng, OF_GPU_JOBS)


def record(rng):
    def number(most):
        return rng.choice([0, 5e-324, 1e-300, 1e-9, 1e-3, 0.1, 1, 7.5, 640, 1e6, most / 2, most])

    return {
        "iterations": rng.choice([0, 1, 10, 2**31 - 1]),
        "samples": number(1e15),
        "seconds": number(1e5),
        **{name: rng.choice([None, number(1e15)]) for name in ("done", "total", "saved")},
        "batch": rng.choice([1, 7, 64, 2**31 - 1]),
        "world": rng.choice([1, 2, 4, 65_536]),
        "parameters": rng.choice([None, 0, 1, 10**15]),
        "rows": [[rng.choice([None, number(1e5)]) for _ in range(7)] for _ in range(rng.choice([0, 1, 16]))],
    }


def run_on(cluster, rng, attempt):
    """Let it begin, record, and now and then end."""
    parts = list(attempt.allocations.order_by("rank"))
    for part in parts:
        cluster.report(attempt, "running", rank=part.rank, pid=5)
    forms = [Iterations(data=record(rng)) for _ in range(rng.choice([1, 3, 20]))]
    at = PartOffset.objects.filter(allocation=parts[0]).values_list("offset", flat=True).first() or 0
    sent = given.key_of(attempt, parts[0].rank) | {"offset": at, "next_offset": at + 10, "dropped": 0}
    records = [form.validated_data for form in forms if form.is_valid()]
    (answer,) = records_apply(node=parts[0].node, parts=[sent | {"records": records}])
    assert answer["code"] is None
    if rng.random() < 0.3:
        for part in parts:
            cluster.end(attempt, rank=part.rank, reason=rng.choice(["exit", "lost"]), exit_code=rng.choice([0, 1]))


@pytest.mark.parametrize("seed", [1, 6])
def test_whatever_is_taken_harms_nothing(cluster, seed):
    rng = random.Random(seed)
    given.node_make("n2", gpus=8, cores=64, memory_mib=2**20)
    given.node_make("n3", gpus=0, cores=4, memory_mib=1)
    given.shared(cluster.node, 0, 1)
    refused = 0
    for _ in range(4):
        for _ in range(8):
            try:
                cluster.submit(**description(rng))
            except BerthError:
                refused += 1
        planning_run()
        for attempt in Attempt.objects.filter(ended_at=None):
            run_on(cluster, rng, attempt)
        for work in (planning_run, forecasts_refresh, tuning_pass, estimation.speeds, estimation.links):
            work()
    assert set(Planning.objects.values_list("error", flat=True)) == {""}
    assert Job.objects.count() > refused
    lena = Client()
    lena.force_login(cluster.owner)
    for job in Job.objects.filter(state__in=QUEUED, array_size=None):
        changes_work(job)
        assert lena.get(f"/jobs/{job.pk}/").status_code == 200
