"""Records of instrumented jobs -> tables, progress and speeds: each record once, even if repeated or overtaken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Min
from django.utils import timezone

from portal.cluster.models import GpuType, Node
from portal.foundation.events.services import live_event
from portal.planning.estimation.absorbing import COMMUNICATION, Record, Run, cells_add, profile_absorb, type_beside
from portal.planning.estimation.distilling import signature_locked
from portal.planning.estimation.links import vote_note
from portal.planning.estimation.models import SHORTEST_S, AttemptSpeed, JobProgress, PartOffset, Signature, rate_of
from portal.planning.estimation.neighbours import neighbours_since, pair_note, records_window
from portal.planning.estimation.queries import queries_add
from portal.planning.estimation.selectors import knowledge_load
from portal.work.jobs.models import Allocation
from scheduler import model
from scheduler.estimator.estimator import estimator_for


def prediction_make(run: Run) -> tuple[float | None, str]:
    """(samples a second over all GPUs, layer). The assumed layer knows relative speeds only, so its figure is None."""
    if not run.gpus:
        return None, ""
    job = run.part.attempt.job
    asked = model.Job(id=job.pk, tenant=job.tenant_id, requirement=tuple(job.gpus), model_label=job.model or None)
    speeds, names = {}, {}
    for pk, name, speed in GpuType.objects.values_list("pk", "name", "relative_speed"):
        speeds[name], names[pk] = speed, name
    beside = names.get(run.beside or 0)
    held = Allocation.objects.filter(attempt=run.part.attempt).select_related("node__gpu_type").order_by("rank")
    nodes = [
        model.Node(
            id=model.bay_id(part.node_id, run.beside or 0),
            name=part.node.name,
            gpu_type=beside or (part.node.gpu_type and part.node.gpu_type.name),
        )
        for part in held
    ]
    answer = estimator_for(knowledge_load([asked]), speeds, nodes).throughput(asked, nodes, run.gpus)
    return (answer.value, answer.source) if answer.source != "assumed" else (None, "assumed")


SLACK_S = 60.0


def records_apply(*, node: Node, parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Take what a node's parts recorded; each answer says where to go on, and why if not where the node meant."""
    answers = [_part_apply(node=node, sent=sent) for sent in parts]
    refused = sum(answer["code"] is not None for answer in answers)
    if refused:
        Node.objects.filter(pk=node.pk).update(refused_messages=F("refused_messages") + refused)
    return answers


@transaction.atomic
def _part_apply(*, node: Node, sent: Mapping[str, Any]) -> dict[str, Any]:
    key = {name: sent[name] for name in ("attempt", "epoch", "rank")}
    part = (
        Allocation.objects.filter(
            attempt__key=sent["attempt"], attempt__epoch=sent["epoch"], rank=sent["rank"], node=node
        )
        .select_related("attempt__job", "node__gpu_type")
        .first()
    )
    if part is None or sent["next_offset"] <= sent["offset"]:
        return key | {"next_offset": sent["next_offset"], "code": "unknown_part"}
    run = _run_of(part)
    PartOffset.objects.get_or_create(allocation=part)
    taken = PartOffset.objects.filter(pk=part.pk, offset=sent["offset"]).update(offset=sent["next_offset"])
    if not taken:
        stored = PartOffset.objects.values_list("offset", flat=True).get(pk=part.pk)
        return key | {"next_offset": stored, "code": "offset_mismatch"}
    _take(run, records=sent["records"], dropped=sent["dropped"])
    return key | {"next_offset": sent["next_offset"], "code": None}


def _run_of(part: Allocation) -> Run:
    """The part's run. Its signature's row is locked: all that is known under it changes one message at a time."""
    parts = Allocation.objects.filter(attempt=part.attempt)
    return Run(
        part=part,
        signature=signature_locked(part.attempt.job),
        gpus=part.attempt.gpus,
        nodes=parts.count(),
        leads=part.rank == parts.aggregate(rank=Min("rank"))["rank"],
        beside=type_beside(part),
    )


def _take(run: Run, *, records: list[Record], dropped: int) -> None:
    now = timezone.now()
    since = (now - run.part.attempt.created_at).total_seconds() + SLACK_S
    possible = [record for record in records if record["seconds"] <= since]
    dropped += len(records) - len(possible)
    window = records_window(run, seconds=sum(record["seconds"] for record in possible), now=now)
    if run.leads:
        _speed_note(run, records=possible, dropped=dropped, now=now)
        if not run.part.attempt.is_profile:  # its work in scratch is none of the job's
            _progress_note(run, records=possible, now=now)
    if run.gpu_type_id is not None and possible:
        _measures_note(run, records=possible, since=window, now=now)
        Signature.objects.filter(pk=run.signature.pk).update(used_at=now)
    live_event(stream=f"job:{run.part.attempt.job_id}", topic="speed", id=run.part.attempt.job_id)


def _measures_note(run: Run, *, records: list[Record], since: datetime, now: datetime) -> None:
    """Records without a neighbour go to the tables of all estimates; beside one on its GPU, to the pair."""
    rates = [rate for record in records if (rate := per_gpu(run, record))]
    beside = neighbours_since(run, since=since)
    if beside is not None and len(beside) == 1:
        ((_, name),) = beside
        pair_note(run, beside=name, rates=rates, now=now)
    if beside is None or beside:
        return
    cells_add(run, rates=rates)
    profile_absorb(run, records)
    if run.leads:
        vote_note(run, records, COMMUNICATION)


def per_gpu(run: Run, record: Record) -> float | None:
    """Samples a second a GPU; None when the record does not tell, or tells what no job can do."""
    return rate_of(record["samples"] / run.gpus, record["seconds"]) if run.gpus else None


def _speed_note(run: Run, *, records: list[Record], dropped: int, now: datetime) -> None:
    attempt = run.part.attempt
    row = AttemptSpeed.objects.filter(attempt=attempt).first()
    if row is None:
        predicted, source = prediction_make(run)
        row = AttemptSpeed(attempt=attempt, predicted_samples_per_s=predicted, predicted_source=source)
    row.records += len(records)
    row.dropped += dropped
    for record in records:
        row.iterations += record["iterations"]
        row.samples += record["samples"]
        row.seconds += record["seconds"]
        if record.get("queries"):
            row.query_counts = queries_add(row.query_counts, record["queries"])
            row.queries_late += record.get("late", 0)
        if record["seconds"] >= SHORTEST_S:
            row.last_samples_per_s = rate_of(record["samples"], record["seconds"])
        row.samples_done = row.samples_done if record["done"] is None else record["done"]
        row.samples_saved = row.samples_saved if record.get("saved") is None else record["saved"]
    row.at = now
    row.save()


def _progress_note(run: Run, *, records: list[Record], now: datetime) -> None:
    """The latest word of the latest attempt. A job's own total outweighs its description's: it counts as it does."""
    said = [record for record in records if record["done"] is not None]
    attempt = run.part.attempt
    before = JobProgress.objects.filter(job_id=attempt.job_id).first()
    if not said or (before is not None and before.epoch > attempt.epoch):
        return
    done, total = said[-1]["done"], said[-1]["total"] or attempt.job.samples
    JobProgress.objects.update_or_create(
        job_id=attempt.job_id,
        defaults={
            "epoch": attempt.epoch,
            "samples_done": done,
            "samples_total": total,
            "fraction": min(1.0, done / total) if total else 0.0,
            "at": now,
        },
    )
