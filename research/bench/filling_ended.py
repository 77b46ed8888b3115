"""Fill a database with jobs that have ended: each with one attempt on one node, what that held, and its events."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from portal.work.jobs.models import Allocation, Attempt, GpuAllocation, Job, JobEvent
from portal.work.jobs.states import AttemptState, JobState
from research.bench.filling import BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from portal.cluster.models import Node

DAYS = 7
TEAMS = 8
"""Values of a label that each of them stands on many jobs."""
CATEGORIES = ("cv", "nlp", "speech")
NAMES = ("resnet50-imagenet", "bert-large-squad", "whisper-finetune", "llama-lora", "prepare-dataset", "evaluate")
ENDS = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.TIMEOUT)
ENDS_ODDS = (0.82, 0.1, 0.05, 0.03)
LENGTHS_S, LONGEST_S = (math.log(1800.0), 1.2), 20 * 3600.0


class _Past(NamedTuple):
    """What was drawn of a job: seconds, and the state in which it ended."""

    gpus: int
    length_s: float
    ago_s: float
    wait_s: float
    state: str


def ended_fill(
    count: int, nodes: Sequence[Node], people: Sequence[Any], now: datetime, rng: np.random.Generator
) -> None:
    """Write `count` ended jobs of one GPU or more, each with one attempt on one node."""
    sizes = rng.choice((1, 2, 4, 8), size=count, p=(0.7, 0.1, 0.1, 0.1)).tolist()
    lengths_s = np.minimum(rng.lognormal(*LENGTHS_S, size=count), LONGEST_S).tolist()
    ages_s = rng.uniform(0, DAYS * 86_400, size=count).tolist()
    waits_s = rng.exponential(1800.0, size=count).tolist()
    states = rng.choice([state.value for state in ENDS], size=count, p=ENDS_ODDS).tolist()
    places = rng.integers(0, len(nodes), size=count).tolist()
    drawn = map(_Past, sizes, lengths_s, ages_s, waits_s, states)
    jobs = Job.objects.bulk_create([_job(k, past, people, now) for k, past in enumerate(drawn)], batch_size=BATCH)
    attempts = Attempt.objects.bulk_create(map(_attempt, jobs), batch_size=BATCH)
    _hold(attempts, [nodes[place] for place in places])
    JobEvent.objects.bulk_create(
        (
            JobEvent(job=job, at=at, kind=kind, epoch=1, text=f"{kind}.")
            for job in jobs
            for kind, at in (("submitted", job.submitted_at), ("placed", job.started_at), ("ended", job.ended_at))
        ),
        batch_size=BATCH,
    )


def _job(number: int, past: _Past, people: Sequence[Any], now: datetime) -> Job:
    tenant, user = people[number % len(people)]
    ended = now - timedelta(seconds=past.ago_s)
    started = ended - timedelta(seconds=past.length_s)
    return Job(
        tenant=tenant,
        owner=user,
        name=f"{NAMES[number % len(NAMES)]}-{number}",
        labels={"run": str(number), "team": str(number % TEAMS)},
        category=CATEGORIES[number % len(CATEGORIES)],
        state=past.state,
        gpus=[past.gpus],
        cores_per_gpu=4,
        submitted_at=started - timedelta(seconds=past.wait_s),
        started_at=started,
        ended_at=ended,
        waited_s=past.wait_s,
        age_s=past.length_s,
        age_source="declared",
        epoch=1,
        ran_s=past.length_s,
        attained_gpu_s=past.length_s * past.gpus,
        exit_code=0 if past.state == JobState.COMPLETED else 1,
        end_detail="" if past.state == JobState.COMPLETED else "exit code 1",
    )


def _attempt(job: Job) -> Attempt:
    return Attempt(
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


def _hold(attempts: Sequence[Attempt], places: Sequence[Node]) -> None:
    """Write what each attempt held of its node, until it ended."""
    parts = Allocation.objects.bulk_create(
        (
            Allocation(
                attempt=attempt,
                node=node,
                rank=0,
                core_ids=list(range(attempt.cores)),
                state=Allocation.State.ENDED,
                released_at=attempt.ended_at,
                exit_code=attempt.exit_code,
            )
            for attempt, node in zip(attempts, places, strict=True)
        ),
        batch_size=BATCH,
    )
    GpuAllocation.objects.bulk_create(
        (
            GpuAllocation(
                allocation=part, gpu=gpu, created_at=part.attempt.created_at, released_at=part.attempt.ended_at
            )
            for part, node in zip(parts, places, strict=True)
            for gpu in list(node.gpus.all())[: part.attempt.gpus]
        ),
        batch_size=BATCH,
    )
