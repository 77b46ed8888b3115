"""What a cluster that has worked for a week leaves in its database, beside the queue of `research.bench.filling`.

Ended jobs with their attempts, what these held and their events; two job arrays; rounds and plannings with their figures;
telemetry. Everything is written in bulk, seeded, with the states and lengths spread as they would be. No job has run.
"""

from __future__ import annotations

import math
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from django.utils import timezone

from portal.cluster.models import Gpu, Node, NodeEvent
from portal.cluster.services.joining import join_token_create
from portal.cluster.telemetry import telemetry_store
from portal.engines.models import Engine, EngineJob
from portal.engines.services import engine_attach, engine_seen
from portal.pages.laboratory.checking import SimulationOrder
from portal.pages.laboratory.run.worker import simulation_next
from portal.pages.laboratory.services import simulation_order, trace_add
from portal.people.tenants.models import Membership
from portal.planning.rounds.models import Planning, PlanningLease, Round
from portal.planning.rounds.record.decisions import decisions_read
from portal.planning.rounds.record.frames import frame_alone
from portal.work.jobs.models import Allocation, Job, JobPayload, LogChunk
from portal.work.jobs.states import JobState
from portal.work.sweeps.models import TaskMetric, TaskReading
from research.bench.filling import BATCH
from research.bench.filling_ended import DAYS, ended_fill
from research.workloads.partitions import DESCRIPTION, EXCHANGE
from research.workloads.partitions import node as partition_node

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

ENDED_SHARE = 2
"""One job in so many has ended, beside those in the queue."""
TASKS = 200
PLANNINGS_A_DAY, ROUND_S, DECISIONS_KEPT = 2880, 360, 100
BATCH_SAMPLES, TELEMETRY_S = 5, 3600
SCREEN = "epoch 1 step 100 loss 2.31\n" * 40


def past_fill(*, jobs: int, seed: int) -> dict[str, Any]:
    """Add the past of a cluster whose queue holds `jobs`; return names of rows that pages can be asked for."""
    rng = np.random.default_rng([seed, jobs])
    nodes = list(Node.objects.prefetch_related("gpus").order_by("pk"))
    people = [(each.tenant, each.user) for each in Membership.objects.select_related("tenant", "user").order_by("pk")]
    now = timezone.now()
    ended = max(TASKS // 10, jobs // ENDED_SHARE)
    for start in range(0, ended, BATCH):
        ended_fill(min(BATCH, ended - start), nodes, people, now, rng)
    running = Job.objects.filter(state=JobState.RUNNING, tenant=people[0][0]).order_by("pk").first()
    waiting = Job.objects.filter(state=JobState.PENDING, tenant=people[0][0]).order_by("pk").first()
    done = Job.objects.filter(state=JobState.COMPLETED, tenant=people[0][0]).order_by("-pk").first()
    array = _array(people[0], min(TASKS, jobs), nodes, now)
    for job in filter(None, (running, waiting, done, array)):
        JobPayload.objects.create(job=job, command="python train.py", description={"command": "python train.py"})
    node = _measured(running, now)
    engine = _partition(nodes)
    return {
        "engine": engine.name,
        "engine_number": engine.pk,
        "running": running.number if running else done.number,
        "waiting": waiting.number,
        "ended": done.number,
        "array": array.number,
        "node": node.name,
        "name": "resnet50",
        "failed": f"{array.number}_9",
        "gpu_type": "a",
        "tenant": people[0][0].name,
    }


def _partition(nodes: Sequence[Node]) -> Engine:
    """Attach a partition of Slurm whose nodes are as many as the cluster's; a tenth of these are pilots in it."""
    engine, _ = engine_attach(join_secret=join_token_create(actor=None)[1], description=DESCRIPTION)
    hosts = [partition_node(node.name, busy=place % 5) for place, node in enumerate(nodes)]
    engine_seen(engine=engine, body=EXCHANGE | {"nodes": hosts})
    EngineJob.objects.bulk_create(
        EngineJob(
            engine=engine,
            name=f"berth-pilot-{node.pk}",
            ticket=str(node.pk),
            state=EngineJob.State.RUNNING,
            gpus=4,
            host=node.name,
            node=node,
        )
        for node in nodes[::10]
    )
    return engine


def _array(submitter: Any, size: int, nodes: Sequence[Node], now: datetime) -> Job:
    """Write a waiting job array, three quarters of whose tasks have ended, a tenth of these FAILED."""
    tenant, user = submitter
    made = {"tenant": tenant, "owner": user, "name": "sweep", "gpus": [1], "cores_per_gpu": 4}
    made |= {"submitted_at": now - timedelta(hours=3), "waiting_since": now - timedelta(hours=3)}
    ends = {k: JobState.FAILED if k % 10 == 9 else JobState.COMPLETED for k in range(size * 3 // 4)}
    failed = sum(state == JobState.FAILED for state in ends.values())
    counts = {"COMPLETED": len(ends) - failed, "FAILED": failed, "PENDING": size - len(ends)}
    parent = Job.objects.create(**made, array_size=size, array_made=size, array_counts=counts)
    done = {"started_at": now - timedelta(hours=2), "ended_at": now - timedelta(hours=1), "age_s": 3600.0, "epoch": 1}
    Job.objects.bulk_create(
        Job(
            **{**made, **(done | {"waiting_since": None, "state": ends[k]} if k in ends else {})},
            array=parent,
            array_index=k,
            reason="" if k in ends else "not-planned-yet",
        )
        for k in range(size)
    )
    _sweep(parent, now)
    NodeEvent.objects.bulk_create(NodeEvent(node=node, kind="registered") for node in nodes)
    return parent


def _sweep(parent: Job, now: datetime) -> None:
    """Give each ended task of an array a parameter, and a metric with its curve."""
    ended = list(Job.objects.filter(array=parent, ended_at__isnull=False))
    rates = {task.pk: 1 / (1 + task.array_index) for task in ended}
    TaskReading.objects.bulk_create(
        TaskReading(task=task, array=parent, parameters={"rate": rates[task.pk]}, read_at=now) for task in ended
    )
    steps, told = list(range(100)), {"array": parent, "name": "loss", "low": 0.0, "high": 2.0, "step": 99.0}
    TaskMetric.objects.bulk_create(
        TaskMetric(
            task=task, last=rates[task.pk], points=[steps, [rates[task.pk] + 1 / (1 + k) for k in steps]], **told
        )
        for task in ended
    )


def _measured(running: Job | None, now: datetime) -> Node:
    """Give every node a last sample, and one node an hour of telemetry and its job's log; return that node."""
    part = Allocation.objects.filter(attempt__job=running, released_at=None).select_related("node", "attempt").first()
    node = part.node if part else Node.objects.order_by("pk").first()
    first_s = math.floor(now.timestamp()) - TELEMETRY_S
    for start_s in range(first_s, first_s + TELEMETRY_S, BATCH_SAMPLES):
        telemetry_store(node=node, batch=telemetry_batch(node, start_s, attempt=part.attempt.key if part else None))
    node.refresh_from_db()
    Node.objects.update(live=node.live)
    if part:
        data = SCREEN.encode()
        LogChunk.objects.create(
            attempt=part.attempt, rank=0, stream="stdout", offset=0, length=len(data), data=data, at=now
        )
    return node


def telemetry_batch(node: Node, start_s: float, *, attempt: str | None = None) -> dict[str, Any]:
    """Return five samples at 1 Hz as an agent posts them: the node's GPUs and host, and one attempt's own use."""
    wave = [round(60 + 30 * math.sin((start_s + k) / 90), 2) for k in range(BATCH_SAMPLES)]
    gpu = {"utilisation": wave, "memory_mib": [41_000.0 + value for value in wave]}
    batch: dict[str, Any] = {
        "start": float(start_s),
        "period_s": 1.0,
        "count": BATCH_SAMPLES,
        "gpus": {str(index): gpu for index in range(Gpu.objects.filter(node=node).count())},
        "host": {"cpu_cores": wave, "memory_mib": [100_000.0 + value for value in wave]},
    }
    own = {"cpu_cores": wave, "memory_mib": [20_000.0 + value for value in wave]}
    return batch | ({"attempts": {attempt: own}} if attempt else {})


def plannings_fill() -> None:
    """Copy the last planning back over a day, and its round over a week, with figures that go up and down."""
    last = Planning.objects.select_related("round").order_by("-number").first()
    if last is None:
        return
    told = decisions_read(last)
    packed = frame_alone(told.frame) if told.frame is not None else last.decisions
    count = PLANNINGS_A_DAY
    rounds = DAYS * 86_400 // ROUND_S
    shift = count + rounds
    Planning.objects.filter(pk=last.pk).update(number=last.number + shift, decisions=packed, keyframe=None)
    Round.objects.filter(pk=last.round_id).update(number=last.round.number + shift)
    PlanningLease.objects.update(number=last.number + shift)
    Planning.objects.exclude(pk=last.pk).delete()  # one more where a nudge came meanwhile: its number is a copy's
    Round.objects.exclude(pk=last.round_id).delete()
    now = timezone.now()
    _plannings_copy(last, packed, _rounds_copy(last, rounds, now), count, now)


def _rounds_copy(last: Planning, rounds: int, now: datetime) -> list[Round]:
    begun = [now - timedelta(seconds=ROUND_S * (rounds - k)) for k in range(rounds)]
    made: list[Round] = Round.objects.bulk_create(
        (
            Round(
                number=k + 1,
                started_at=at,
                ended_at=at + timedelta(seconds=ROUND_S),
                metrics=_figures(last.metrics, k),
                array_history=last.round.array_history,
            )
            for k, at in enumerate(begun)
        ),
        batch_size=BATCH,
    )
    return made


def _plannings_copy(last: Planning, packed: bytes, rounds: Sequence[Round], count: int, now: datetime) -> None:
    """Copy the planning `count` times over a day, the rounds being the latest ones."""
    step_s = 86_400 / count
    same = ("status", "policy", "parameters", "queue_length", "window_jobs", "load_s", "plan_s", "apply_s", "solver")
    copied = {name: getattr(last, name) for name in same}
    Planning.objects.bulk_create(
        (
            Planning(
                number=k + 1,
                round=rounds[min(len(rounds) - 1, len(rounds) - 1 - int((count - 1 - k) * step_s // ROUND_S))],
                started_at=now - timedelta(seconds=step_s * (count - k)),
                metrics=_figures(last.metrics, k),
                decisions=packed if k >= count - DECISIONS_KEPT else b"",
                **copied,
            )
            for k in range(count)
        ),
        batch_size=100,
    )


def _figures(metrics: dict[str, Any], k: int) -> dict[str, Any]:
    factor = 1 + 0.2 * math.sin(k / 30)
    return {
        name: value * factor if isinstance(value, float) and not isinstance(value, bool) else value
        for name, value in metrics.items()
    }


def laboratory_fill() -> dict[str, Any]:
    """Run two small simulations of the first member's; return the numbers of one, of another and of their trace."""
    first = Membership.objects.select_related("tenant", "user").order_by("pk").first()
    content = b"submitted_s,tenant,gpus,duration_s\n0,one,1,60\n30,two,1,60\n"
    trace = trace_add(user=first.user, tenant=first.tenant, name="small", form="berth-csv", content=content)
    cluster = "nodes: [{gpu_type: A100, gpus: 1, cores: 1, memory_gib: 1}]"
    order = SimulationOrder(name="small", trace=trace, policies=["fifo"], cluster=cluster)
    one, two = (simulation_order(user=first.user, tenant=first.tenant, order=order) for _ in range(2))
    began_s = time.monotonic()
    while simulation_next() is not None and time.monotonic() - began_s < 60:
        pass
    return {"simulation": one.pk, "other": two.pk, "trace": trace.pk}
