"""Distil an attempt's use to its job's signature at its end: blocks of telemetry are gone after a day.

Sharing policies read it (algorithms.md, sections 11 and 12): a job's expected use is its signature's. The tenancy and the
lock are those of all that is kept under a signature: one tenant's rows, one transaction at a time under the signature's row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from portal.cluster.telemetry import MEAN_S, TEN_S, batches_between, too_much_in_full
from portal.planning.estimation.absorbing import type_beside
from portal.planning.estimation.models import AttemptDistilled, Signature, SignatureUse
from portal.work.jobs.models import Attempt, GpuAllocation, Job
from portal.work.jobs.states import FINAL
from portal.work.jobs.use import WHOLE
from scheduler.estimator.measured import signature_of

SETTLE_S = 90
"""Seconds after its end until an attempt's last samples have come, from an agent that is in contact."""
LOOK_BACK = timedelta(hours=6)
AT_ONCE = 100
POINTS = 64
RECENT = 8
"""The number of latest attempts whose percentiles are kept."""
HIGH_SHARE = 0.8
LEAST_SAMPLES = 5
OWN = ("cpu_cores", "memory_mib", "read_mb_s", "write_mb_s", "gpu_utilisation", "gpu_memory_mib")
"""An attempt's own processes: sums over its parts, but for `gpu_utilisation`, a mean. Memory of GPUs is for each of them."""
HELD = {"utilisation": "gpu_utilisation", "memory_mib": "gpu_memory_mib", "power_w": "gpu_power_w"} | {
    "pcie_tx_mb_s": "gpu_pcie_tx_mb_s",
    "pcie_rx_mb_s": "gpu_pcie_rx_mb_s",
}
"""The GPUs that only it holds: means over them. Use and memory count where its processes' own are not known."""
INSTEAD = ("gpu_utilisation", "gpu_memory_mib")
Values = dict[str, dict[int, float]]


def attempts_distil() -> int:
    """Distil the attempts that ended lately; return how many. The rest waits for the next run."""
    now = timezone.now()
    over = Attempt.objects.runs().filter(ended_at__gt=now - LOOK_BACK, ended_at__lte=now - timedelta(seconds=SETTLE_S))
    waiting = over.filter(started_at__isnull=False, distilled=None).select_related("job").order_by("ended_at", "pk")
    return sum(_distil(attempt) for attempt in waiting[:AT_ONCE])


def _distil(attempt: Attempt) -> bool:
    """Distil one; False when another process has."""
    job = attempt.job
    kept = bool(job.model or job.state not in FINAL)  # else nobody will ask for its signature's use
    values = _values(attempt, step_s=1 if kept else TEN_S) if kept or attempt.gpus else {}
    with transaction.atomic():
        _, first = AttemptDistilled.objects.get_or_create(attempt=attempt)
        if first:
            Attempt.objects.filter(pk=attempt.pk).update(gpu_busy=_busy(attempt, values))
            if kept and max(map(len, values.values()), default=0) >= LEAST_SAMPLES:
                _keep(attempt, values)
    return first


def _busy(attempt: Attempt, values: Values) -> float | None:
    """Return the part of its GPUs, or of its part of one, that computed on average; None where it was not measured."""
    used = values.get("gpu_utilisation")
    if not attempt.gpus or not used:
        return None
    return min(1.0, sum(used.values()) / len(used) / 100 / ((attempt.gpu_compute or WHOLE) / WHOLE))


def _keep(attempt: Attempt, values: Values) -> None:
    part = attempt.allocations.select_related("node").order_by("rank").first()
    gpu_type = (type_beside(part) or part.node.gpu_type_id) if part is not None and attempt.gpus else None
    signature = signature_locked(attempt.job)
    row = SignatureUse.objects.filter(signature=signature, gpu_type=gpu_type).first()
    row = row or SignatureUse(signature=signature, gpu_type_id=gpu_type)
    span_s = max(1.0, (attempt.ended_at - attempt.started_at).total_seconds())
    row.count += 1
    row.seconds, row.at = span_s, attempt.ended_at
    row.series = {name: resampled(own, attempt.started_at.timestamp(), span_s) for name, own in values.items()}
    row.highs = [*row.highs, {name: round(percentile(list(own.values())), 3) for name, own in values.items()}][-RECENT:]
    for name, own in values.items():
        row.most[name] = round(max(row.most.get(name, 0.0), *own.values()), 3)
    row.save()
    Signature.objects.filter(pk=signature.pk).update(used_at=timezone.now())


def signature_locked(job: Job) -> Signature:
    """Return the row of a job's signature, locked: all that is known under it changes one at a time."""
    name = signature_of(job.tenant_id, job.model or None, job.pk)
    own = None if job.model else job
    Signature.objects.get_or_create(
        name=name, defaults={"tenant_id": job.tenant_id, "job": own, "used_at": timezone.now()}
    )
    return Signature.objects.select_for_update().get(name=name)


# ---- samples ---------------------------------------------------------------------------------------------------------


def _values(attempt: Attempt, *, step_s: int) -> Values:
    """Return each measure of an attempt by the second or coarser, over all its parts, as far as it was measured."""
    since, until = attempt.started_at, attempt.ended_at
    nodes = list(attempt.allocations.values_list("node_id", flat=True))
    held = _held_alone(attempt)
    sums: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    step_s = MEAN_S if too_much_in_full(nodes=len(nodes), since=since, until=until) else step_s
    for node_id, batch in batches_between(node_ids=nodes, since=since, until=until, step_s=step_s):
        for name, at, value in _of_attempt(attempt.key, batch, held.get(node_id, ())):
            if since.timestamp() <= at <= until.timestamp():
                sums[name][int(at)].append(value)
    for name in INSTEAD:
        held_alone = sums.pop(f"held {name}", None)
        if not sums[name]:
            sums[name] = held_alone or sums[name]
    means = {name for name in sums if name.startswith("gpu_") and name != "gpu_memory_mib"}
    found = {
        name: {at: sum(own) / (len(own) if name in means else 1) for at, own in by.items()} for name, by in sums.items()
    }
    if attempt.gpus:
        found |= {"gpu_memory_mib": {at: mib / attempt.gpus for at, mib in found.get("gpu_memory_mib", {}).items()}}
    return {name: by for name, by in found.items() if by}


def _held_alone(attempt: Attempt) -> dict[int, set[str]]:
    """Return the indices of the GPUs that an attempt had for itself, by node id."""
    rows = GpuAllocation.objects.filter(allocation__attempt=attempt, mode="exclusive")
    held: dict[int, set[str]] = defaultdict(set)
    for node_id, index in rows.values_list("gpu__node_id", "gpu__index"):
        held[node_id].add(str(index))
    return held


def _of_attempt(key: str, batch: Mapping[str, Any], held: set[str] | tuple[()]) -> Iterator[tuple[str, float, float]]:
    """Yield (measure, Unix time, value) of a batch, as far as they are the attempt's."""
    own = (batch.get("attempts") or {}).get(key, {})
    series = [(name, own.get(name) or ()) for name in OWN]
    for index, measures in (batch.get("gpus") or {}).items():
        if index in held:
            for name, kept in HELD.items():
                word = f"held {kept}" if kept in OWN else kept
                series.append((word, measures.get(name) or ()))
    for name, values in series:
        for position, value in enumerate(values):
            if value is not None:
                yield name, batch["start"] + position * batch["period_s"], value


def resampled(values: Mapping[int, float], start_s: float, span_s: float) -> list[float | None]:
    """Return POINTS means over equal stretches of the time, None for one without a sample."""
    bins: list[list[float]] = [[] for _ in range(POINTS)]
    for at, value in values.items():
        place = int((at - start_s) / span_s * POINTS)
        bins[min(POINTS - 1, max(0, place))].append(value)
    return [round(sum(own) / len(own), 3) if own else None for own in bins]


def percentile(values: Sequence[float], share: float = HIGH_SHARE) -> float:
    """Return the smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
