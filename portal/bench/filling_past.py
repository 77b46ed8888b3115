"""What a cluster that has worked for a week leaves in its database, beside the queue of `portal.bench.filling`.

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

from portal.bench.filling import BATCH
from portal.cluster.models import Gpu, Node, NodeEvent
from portal.cluster.telemetry import telemetry_store
from portal.jobs.models import Allocation, Attempt, GpuAllocation, Job, JobEvent, JobPayload, LogChunk
from portal.jobs.states import AttemptState, JobState
from portal.laboratory.checking import SimulationOrder
from portal.laboratory.run.worker import simulation_next
from portal.laboratory.services import simulation_order, trace_add
from portal.rounds.models import Planning, PlanningLease, Round
from portal.rounds.record.decisions import decisions_read
from portal.rounds.record.frames import frame_alone
from portal.tenants.models import Membership

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

DAYS = 7
ENDED_SHARE = 2
"""One job in so many has ended, beside those in the queue."""
NAMES = ("resnet50-imagenet", "bert-large-squad", "whisper-finetune", "llama-lora", "prepare-dataset", "evaluate")
ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.TIMEOUT)
ENDS_ODDS = (0.82, 0.1, 0.05, 0.03)
LENGTHS_S, LONGEST_S = (math.log(1800.0), 1.2), 20 * 3600.0
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
        _ended(min(BATCH, ended - start), nodes, people, now, rng)
    running = Job.objects.filter(state=JobState.RUNNING, tenant=people[0][0]).order_by("pk").first()
    waiting = Job.objects.filter(state=JobState.PENDING, tenant=people[0][0]).order_by("pk").first()
    done = Job.objects.filter(state=JobState.COMPLETED, tenant=people[0][0]).order_by("-pk").first()
    array = _array(people[0], min(TASKS, jobs), nodes, now)
    for job in filter(None, (running, waiting, done, array)):
        JobPayload.objects.create(job=job, command="python train.py", description={"command": "python train.py"})
    node = _measured(running, now)
    return {
        "running": running.number if running else done.number,
        "waiting": waiting.number,
        "ended": done.number,
        "array": array.number,
        "node": node.name,
        "name": "resnet50",
    }


def _ended(count: int, nodes: Sequence[Node], people: Sequence[Any], now: datetime, rng: np.random.Generator) -> None:
    """Write `count` ended jobs of one GPU or more, each with one attempt on one node."""
    sizes = rng.choice((1, 2, 4, 8), size=count, p=(0.7, 0.1, 0.1, 0.1)).tolist()
    lengths_s = np.minimum(rng.lognormal(*LENGTHS_S, size=count), LONGEST_S).tolist()
    ages_s = rng.uniform(0, DAYS * 86_400, size=count).tolist()
    waits_s = rng.exponential(1800.0, size=count).tolist()
    states = rng.choice([state.value for state in ENDS], size=count, p=ENDS_ODDS).tolist()
    places = rng.integers(0, len(nodes), size=count).tolist()
    rows = [_ended_job(k, sizes[k], lengths_s[k], ages_s[k], waits_s[k], states[k], people, now) for k in range(count)]
    jobs = Job.objects.bulk_create(rows, batch_size=BATCH)
    attempts = Attempt.objects.bulk_create(
        (
            Attempt(
                job=job,
                epoch=1,
                state=AttemptState(job.state),
                planning_number=1,
                gpus=job.gpus[0],
                cores=4 * job.gpus[0],
                rendezvous_port=0,
                created_at=job.started_at,
                started_at=job.started_at,
                ended_at=job.ended_at,
                exit_code=job.exit_code,
            )
            for job in jobs
        ),
        batch_size=BATCH,
    )
    parts = Allocation.objects.bulk_create(
        (
            Allocation(
                attempt=attempt,
                node=nodes[place],
                rank=0,
                core_ids=list(range(attempt.cores)),
                state=Allocation.State.ENDED,
                released_at=attempt.ended_at,
                exit_code=attempt.exit_code,
            )
            for attempt, place in zip(attempts, places, strict=True)
        ),
        batch_size=BATCH,
    )
    GpuAllocation.objects.bulk_create(
        (
            GpuAllocation(
                allocation=part, gpu=gpu, created_at=part.attempt.created_at, released_at=part.attempt.ended_at
            )
            for part, place in zip(parts, places, strict=True)
            for gpu in list(nodes[place].gpus.all())[: part.attempt.gpus]
        ),
        batch_size=BATCH,
    )
    JobEvent.objects.bulk_create(
        (
            JobEvent(job=job, at=at, kind=kind, epoch=1, text=f"{kind}.")
            for job in jobs
            for kind, at in (("submitted", job.submitted_at), ("placed", job.started_at), ("ended", job.ended_at))
        ),
        batch_size=BATCH,
    )


def _ended_job(
    number: int,
    gpus: int,
    length_s: float,
    ago_s: float,
    wait_s: float,
    state: str,
    people: Sequence[Any],
    now: datetime,
) -> Job:
    tenant, user = people[number % len(people)]
    ended = now - timedelta(seconds=ago_s)
    started = ended - timedelta(seconds=length_s)
    return Job(
        tenant=tenant,
        owner=user,
        name=f"{NAMES[number % len(NAMES)]}-{number}",
        labels={"run": str(number)},
        state=state,
        gpus=[gpus],
        cores_per_gpu=4,
        submitted_at=started - timedelta(seconds=wait_s),
        started_at=started,
        ended_at=ended,
        waited_s=wait_s,
        age_s=length_s,
        age_source="declared",
        epoch=1,
        ran_s=length_s,
        attained_gpu_s=length_s * gpus,
        exit_code=0 if state == JobState.COMPLETED else 1,
        end_detail="" if state == JobState.COMPLETED else "exit code 1",
    )


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
    NodeEvent.objects.bulk_create(NodeEvent(node=node, kind="registered") for node in nodes)
    return parent


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
    now = timezone.now()
    shift = count + rounds
    Planning.objects.filter(pk=last.pk).update(number=last.number + shift, decisions=packed, keyframe=None)
    Round.objects.filter(pk=last.round_id).update(number=last.round.number + shift)
    PlanningLease.objects.update(number=last.number + shift)
    begun = [now - timedelta(seconds=ROUND_S * (rounds - k)) for k in range(rounds)]
    made = Round.objects.bulk_create(
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
    step = 86_400 / count
    Planning.objects.bulk_create(
        (
            Planning(
                number=k + 1,
                round=made[min(len(made) - 1, rounds - 1 - int((count - 1 - k) * step // ROUND_S))],
                started_at=now - timedelta(seconds=step * (count - k)),
                status=last.status,
                policy=last.policy,
                parameters=last.parameters,
                queue_length=last.queue_length,
                window_jobs=last.window_jobs,
                load_s=last.load_s,
                plan_s=last.plan_s,
                apply_s=last.apply_s,
                solver=last.solver,
                metrics=_figures(last.metrics, k),
                decisions=packed if k >= count - DECISIONS_KEPT else b"",
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
    return {"simulation": one.pk, "other_simulation": two.pk, "trace": trace.pk}
