"""A planning's inputs about shared GPUs beside their nodes: which there are, their use, jobs' use before, the learned policy.

The learned sharing policy is a file, `sharing-policy.npz` in the data directory (`./berth train-sharing`). It is read when it is
new or has changed. Without one that can be used every job goes by CBP+PP, and the operator reads why.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Max

from portal.cluster.models import Gpu
from portal.cluster.telemetry import batches_recent
from portal.planning.estimation.models import SignatureUse
from portal.planning.estimation.selectors import pairs_measured
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.sharing import apart_load
from scheduler import model
from scheduler.estimator.measured import signature, signature_of
from scheduler.parameters import Parameters
from scheduler.sharing.learned.record import PolicyFileError, Stored, unpacked
from scheduler.sharing.series import LEAST_SAMPLES
from scheduler.sharing.sharing import LOOKS_AT_USE, LOOKS_NOW

Series = Mapping[str, Sequence[float]]

LOOK_BACK = timedelta(seconds=60)
"""The span of readings that a forecast of a GPU's memory is made from."""
NAMES = 5000
"""The number of signatures, those that run first, whose use is looked up."""
PCIE = ("gpu_pcie_tx_mb_s", "gpu_pcie_rx_mb_s")


def shared_memory(parameters: Parameters) -> dict[str, int]:
    """Return by GPU type the memory (MiB) of the largest GPU that jobs may share; {} while sharing is off. One query."""
    if parameters.sharing_policy == "off":
        return {}
    shared = Gpu.objects.present().filter(mode=Gpu.Mode.SHARED, node__dead_at=None).with_type().order_by()
    return dict(shared.exclude(type_name=None).values_list("type_name").annotate(most=Max("memory_mib")))


def apart_signatures() -> dict[int, frozenset[str]]:
    """Return by unfinished job the signatures beside which it was ended for GPU memory. One query."""
    return {
        job: frozenset(signature_of(tenant, label or None, other) for other, tenant, label in beside)
        for job, beside in apart_load().items()
    }


def policies_asked(parameters: Parameters) -> frozenset[str]:
    """Return the sharing policies that decide in a planning: the one that acts, and its shadow."""
    return frozenset({parameters.sharing_policy, parameters.sharing_shadow} - {"off"})


def uses_load(jobs: Iterable[model.Job], parts: Iterable[Any], policies: AbstractSet[str]) -> dict[str, Series]:
    """Return the use of a GPU by the last runs of signatures that share, or wait to. One query, or none.

    `parts`: the live allocations, with `part_held`.
    """
    names = _names(jobs, parts) if policies & LOOKS_AT_USE else {}
    if not names:
        return {}
    rows = SignatureUse.objects.filter(signature__name__in=list(names)[:NAMES], gpu_type__isnull=False).order_by("at")
    found: dict[str, Series] = {}
    for name, series, seconds in rows.values_list("signature__name", "series", "seconds"):
        if (use := use_of(series)) is not None:
            found[name] = {**use, "seconds": [seconds]}  # of several types the last run's
    return found


def pairs_load(
    jobs: Iterable[model.Job], parts: Iterable[Any], *, now: datetime
) -> dict[tuple[str, str, str], model.PairSeen]:
    """Return the measured cost to each other of signatures that share, or wait to. One query, or none."""
    names = list(_names(jobs, parts))[:NAMES]
    if not names:
        return {}
    return {
        key: model.PairSeen(1.0 / cell.mean, cell.count, (now - at).total_seconds())
        for key, (cell, at) in pairs_measured(names).items()
        if cell.mean > 0
    }


def _names(jobs: Iterable[model.Job], parts: Iterable[Any]) -> dict[str, None]:
    """The signatures of those on shared GPUs, then of those that wait for one; none where nobody waits."""
    sharers = [job for job in jobs if job.part is not None]
    if not sharers:
        return {}
    running = (part.attempt.job for part in parts if part.part_held is not None)
    names = (signature_of(job.tenant_id, job.model or None, job.pk) for job in running)
    return dict.fromkeys((*names, *map(signature, sharers)))


def use_of(series: Mapping[str, Sequence[float | None]]) -> Series | None:
    """Return memory, use and PCIe traffic as sharing policies compare them; None where memory or use was hardly seen.

    Traffic that was not recorded is even, so that it speaks for nobody and against nobody.
    """
    memory, use = _whole(series.get("gpu_memory_mib")), _whole(series.get("gpu_utilisation"))
    if memory is None or use is None:
        return None
    sides = [own for name in PCIE if (own := _whole(series.get(name))) is not None and len(own) == len(memory)]
    pcie = [sum(values) for values in zip(*sides, strict=True)] if sides else [0.0] * len(memory)
    return {"memory_mib": memory, "gpu": [each / 100 for each in use], "pcie_mb_s": pcie}


def _whole(values: Sequence[float | None] | None) -> list[float] | None:
    """Return the series with its gaps filled by the value before (the first known one at its beginning)."""
    known = [value for value in values or () if value is not None]
    if values is None or len(known) < LEAST_SAMPLES:
        return None
    last, found = known[0], []
    for value in values:
        last = last if value is None else value
        found.append(max(0.0, float(last)))
    return found


class Seen(NamedTuple):
    """Memory (MiB) of the last minute: of shared GPUs by node and index, oldest first; the most of each attempt, by its key."""

    gpus: Mapping[tuple[int, int], tuple[float, ...]] = MappingProxyType({})
    attempts: Mapping[str, float] = MappingProxyType({})


def memory_seen(parts: Iterable[Any], policies: AbstractSet[str], *, now: datetime) -> Seen:
    """Return the present use of GPUs that jobs share. One query, or none."""
    held = [part for part in parts if part.part_held is not None] if policies & LOOKS_NOW else []
    if not held:
        return Seen()
    wanted, keys = {(part.node_id, part.part_held.gpu) for part in held}, {part.attempt.key for part in held}
    since, found = now - LOOK_BACK, defaultdict[Any, dict[float, float]](dict)
    for node_id, batch in batches_recent(node_ids={node for node, _ in wanted}, since=since, until=now):
        for index, measures in (batch.get("gpus") or {}).items():
            if (node_id, int(index)) in wanted:
                _note(found[node_id, int(index)], batch, measures.get("memory_mib") or (), since.timestamp())
        for key, measures in (batch.get("attempts") or {}).items():
            if key in keys:
                _note(found[key], batch, measures.get("gpu_memory_mib") or (), since.timestamp())
    return Seen(
        {place: tuple(value for _, value in sorted(found[place].items())) for place in wanted & found.keys()},
        {key: max(found[key].values()) for key in keys & found.keys() if found[key]},
    )


def _note(seen: dict[float, float], batch: Mapping[str, Any], values: Sequence[float | None], since_s: float) -> None:
    for position, value in enumerate(values):
        at = batch["start"] + position * batch["period_s"]
        if value is not None and at >= since_s:
            seen[at] = float(value)


log = logging.getLogger(__name__)

NAME = "sharing-policy.npz"


@dataclass(slots=True)
class _Read:
    """A policy that was read, and the file as it then was."""

    key: tuple[str, int, int] | None = None
    stored: Stored | None = None
    why: str = ""


_read = _Read()


def policy_learned() -> Stored | None:
    """Return the learned policy (`dqn`) if its file can be used."""
    return _looked().stored


def policy_why() -> str:
    """Return why the learned policy cannot be used; empty: it can."""
    return _looked().why


def policy_problems(_now: datetime) -> list[str]:
    """Return why the learned policy is not used although a knob names it."""
    parameters = scheduler_parameters(knobs_current())
    named = [name for name in ("sharing_policy", "sharing_shadow") if getattr(parameters, name) == "dqn"]
    if not named or not (why := _looked().why):
        return []
    instead = "jobs share GPUs by cbp-pp" if "sharing_policy" in named else "its shadow decides as cbp-pp"
    return [f"{named[0]} is dqn, but {why}; {instead}"]


def _looked() -> _Read:
    global _read  # noqa: PLW0603 - one file a process, read again when it has changed
    path = Path(settings.DATA_DIR) / NAME
    try:
        seen = path.stat()
        key = (str(path), seen.st_mtime_ns, seen.st_size)
        if _read.key != key:
            _read = _Read(key, *_usable(path))
    except FileNotFoundError:
        _read = _Read(None, None, f"there is no {NAME} in the data directory: ./berth train-sharing writes it")
    except OSError as error:
        _read = _Read(None, None, f"{NAME} cannot be read ({error.strerror})")
    return _read


def _usable(path: Path) -> tuple[Stored | None, str]:
    try:
        stored = unpacked(path.read_bytes())
    except PolicyFileError as error:
        log.warning("%s cannot be used: %s", path, error)
        return None, f"{NAME} cannot be used: {error}"
    if not stored.over:
        return None, f"the training of {NAME} is not finished: the same ./berth train-sharing goes on with it"
    return stored, ""
