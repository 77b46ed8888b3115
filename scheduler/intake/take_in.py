"""Checks of a planning's input besides nodes and waiting jobs. Unsound values are left out or replaced, and named.

One bad value never stops a round. A running job keeps its resources, with any fault, because they are a fact. A tenant with a
bad quota gets nothing more. A speed that is no number takes the jobs that it belongs to out of the queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob, InvalidRecord, InvalidTenant, SchedulerError
from scheduler.estimator.measured import signature
from scheduler.intake.validation import is_amount, is_count, is_number, is_rate
from scheduler.model import ArrayHistory, ClusterState, Ended, Job, Piece, Running, Tenant
from scheduler.model.speeds import Knowledge, Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Intake:
    """The sound part of the state; its nodes and jobs are not checked here. `suspects`: signature -> what is wrong with it."""

    state: ClusterState
    faults: tuple[SchedulerError, ...]
    suspects: Mapping[str, str]


def take_in(state: ClusterState) -> Intake:
    """Check everything but nodes and jobs, which have checks of their own. Never raises."""
    faults: list[SchedulerError] = []
    knowledge, suspects = _knowledge(state.knowledge, faults)
    used = {node.gpu_type for node in state.nodes}  # of these check_node speaks
    return Intake(
        replace(
            state,
            running=[_running(live, faults) for live in state.running],
            tenants=_tenants(state.tenants, faults),
            gpu_speeds=_rates("relative speed", state.gpu_speeds, faults, spared=used),
            gpu_weights=_rates("weight in shares", state.gpu_weights, faults),
            ended=_ended(state.ended, faults),
            array_history=_array_history(state.array_history, faults),
            knowledge=knowledge,
        ),
        tuple(faults),
        suspects,
    )


def check_speeds(job: Job, suspects: Mapping[str, str]) -> None:
    """Raise InvalidJob when what was measured of the job's speed is unsound."""
    if (wrong := suspects.get(signature(job))) is not None:
        raise InvalidJob(job.id, wrong)


def _running(live: Running, faults: list[SchedulerError]) -> Running:
    """The attempt, or if a field of it is unsound, only what it holds, so that it cannot be changed."""
    wrong = next(_running_faults(live), None)
    if wrong is None:
        return live
    faults.append(InvalidJob(live.job, f"runs, and {wrong}; it is left alone where it runs"))
    pieces = tuple(piece for piece in live.pieces if _is_piece(piece))
    return Running(live.job, live.tenant, pieces, requirement=(sum(len(piece.gpus) for piece in pieces),))


def _running_faults(live: Running) -> Iterator[str]:
    if not all(_is_piece(piece) for piece in live.pieces):
        yield "what it holds must be ids and counts, 0 or more"
    holding = [bool(piece.gpus) for piece in live.pieces]
    if any(holding) and (not all(holding) or (live.description is not None and live.description.is_cpu)):
        yield "of a job with GPUs each part must hold some, and its description must ask for some"
    if live.description is not None and any(len(piece.cores) < len(piece.gpus) for piece in live.pieces):
        yield "of a job that may be moved each part must hold a core for each of its GPUs: with none it has no speed"
    if not isinstance(live.requirement, tuple) or not all(is_count(each) for each in live.requirement):
        yield f"its requirement is {live.requirement!r}; it must hold whole numbers, 0 or more"
    if not is_number(live.started_s):
        yield f"its started_s is {live.started_s!r}; it must be a finite number"
    for name in ("expected_end_s", "first_started_s", "age_s", "ran_s"):
        if (value := getattr(live, name)) is not None and not is_number(value):
            yield f"its {name} is {value!r}; it must be a finite number"
    if live.restart_s is not None and not is_amount(live.restart_s):
        yield f"its restart_s is {live.restart_s!r}; it must be a finite number, 0 or more"
    if not is_count(live.restarts):
        yield f"its restarts is {live.restarts!r}; it must be a whole number, 0 or more"


def _is_piece(piece: Piece) -> bool:
    ids = (*piece.gpus, *piece.cores)
    return all(is_count(each) for each in ids) and is_count(piece.memory_mib)


def _tenants(tenants: Sequence[Tenant], faults: list[SchedulerError]) -> list[Tenant]:
    sound: dict[int, Tenant] = {}
    for tenant in tenants:
        if tenant.id in sound:
            faults.append(InvalidTenant(tenant.id, "is listed twice; the first one counts"))
            continue
        weight = tenant.weight
        if not is_rate(weight):
            faults.append(InvalidTenant(tenant.id, f"weight is {weight!r}; it must be above 0, and counts as 1"))
            weight = 1.0
        sound[tenant.id] = replace(
            tenant,
            weight=weight,
            gpu_quota=_quota(tenant, "gpu_quota", faults),
            core_quota=_quota(tenant, "core_quota", faults),
        )
    return list(sound.values())


def _quota(tenant: Tenant, name: str, faults: list[SchedulerError]) -> int | None:
    quota: int | None = getattr(tenant, name)
    if quota is None or is_count(quota):
        return quota
    detail = f"{name} is {quota!r}; it must be a whole number, 0 or more, or none, and counts as 0"
    faults.append(InvalidTenant(tenant.id, detail))
    return 0


def _rates(
    what: str, values: Mapping[str, float], faults: list[SchedulerError], *, spared: Iterable[str | None] = ()
) -> dict[str, float]:
    bad = {name: value for name, value in values.items() if not is_rate(value) and name not in spared}
    for name, value in bad.items():
        faults.append(InvalidRecord(name, f"the GPU type's {what} is {value!r}; it must be above 0, and counts as 1"))
    return {name: value for name, value in values.items() if name not in bad}


def _ended(ended: Sequence[Ended], faults: list[SchedulerError]) -> list[Ended]:
    sound = [each for each in ended if is_number(each.ended_s) and is_amount(each.wait_s) and is_rate(each.age_s)]
    if lost := len(ended) - len(sound):
        detail = f"{lost} of the jobs that ended have no time, no wait of 0 or more or no age above 0; RAQLR omits them"
        faults.append(InvalidRecord("ended", detail))
    return sound


def _array_history(history: ArrayHistory, faults: list[SchedulerError]) -> ArrayHistory:
    tuned = tuple(each for each in history.tuned_cores_per_gpu if is_amount(each))
    peak = history.large_gpus_peak
    sound = peak if peak is None or is_count(peak) else None
    if len(tuned) != len(history.tuned_cores_per_gpu) or sound != peak:
        detail = "tuned cores and the peak of large jobs must be finite, 0 or more; what is not is left out"
        faults.append(InvalidRecord("array_history", detail))
    return ArrayHistory(tuned, sound)


def sound_knowledge(knowledge: Knowledge) -> Knowledge:
    """The knowledge without unsound values: for questions about a snapshot without planning it."""
    return _knowledge(knowledge, [])[0]


def _knowledge(knowledge: Knowledge, faults: list[SchedulerError]) -> tuple[Knowledge, dict[str, str]]:
    """The sound measurements, and for each signature with unsound ones what they are."""
    suspects: dict[str, str] = {}
    for key, cell in knowledge.cells.items():
        if not (is_rate(cell.mean) and is_count(cell.count)):
            suspects[key.signature] = f"its measured throughput on {key.resource} is {cell.mean!r}; it must be above 0"
    for (name, gpu_type), profile in knowledge.profiles.items():
        if wrong := _profile_fault(profile):
            suspects[name] = f"its profile on {gpu_type} has {wrong}; it must be a finite number, 0 or more"
    bad_links = {
        name
        for name, link in knowledge.links.items()
        if not all(each is None or is_rate(each) for each in (link.within_node, link.between_nodes))
    }
    advice = "the GPU type's bandwidths must be finite, above 0; calibrate again"
    faults.extend(InvalidRecord(name, advice) for name in sorted(bad_links))
    if not suspects and not bad_links:
        return knowledge, suspects
    return Knowledge(
        {key: cell for key, cell in knowledge.cells.items() if key.signature not in suspects},
        {key: profile for key, profile in knowledge.profiles.items() if key[0] not in suspects},
        {name: link for name, link in knowledge.links.items() if name not in bad_links},
    ), suspects


def _profile_fault(profile: Profile) -> str | None:
    for name in ("forward_s", "backward_s", "update_s", "parameters", "batch_size"):
        if not is_amount(value := getattr(profile, name)):
            return f"{name} {value!r}"
    for part in profile.loading.parts:
        if not is_rate(part.weight):
            return f"weight {part.weight!r}"
        for name in ("data_s", "data_sigma_s", "wait_s"):
            if not is_amount(value := getattr(part, name)):
                return f"{name} {value!r}"
    return None
