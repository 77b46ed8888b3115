"""Deal the idle resources of a node with GPUs of several types to its bays: no core and no memory is handed out twice.

A planning sees each bay as a node (`scheduler.model.cluster`). Bays share no core: each has a part of the idle ones, anew in each
planning, in proportion to its idle and its shared GPUs. Promised resources of a bay stay there. Where a waiting job fits the
node's idle resources, but none of these parts, the bay that it may use gets the job's needs: the job that waited longest first.
Where several such jobs are in each other's way they take turns, for the first may have another reason not to start: its tenant's
quota, or cores that are reserved for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.model.cluster import bay_id
from scheduler.model.placements import serves

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduler.model import Job, Node, Share

LEFT_PER_GPU = 3
"""Cores that a job's need leaves to each idle GPU of the other bays, if there are enough."""

TURN_S = 60.0
"""How long one of several jobs that do not fit together has a node dealt for it."""

FITS, NEVER = -1, -2
"""No bay has to get more than its part for a job: it fits one as it is, or would not fit whatever it got."""

NOTHING: Mapping[int, tuple[int, int]] = {}


@dataclass(frozen=True, slots=True)
class Shared:
    """The common resources of a node's bays: idle core ids and memory, and the node's own totals."""

    cores: tuple[int, ...]
    memory_mib: int
    cores_total: int
    memory_total_mib: int


@dataclass(frozen=True, slots=True)
class Want:
    """The least that some waiting job needs on one node. `gpus` 0: a CPU job, for which any bay will do."""

    gpus: int
    gpu_types: frozenset[str]
    cores: int
    memory_mib: int

    def may_use(self, bay: Node) -> bool:
        return not self.gpus or (serves(self.gpu_types, bay.gpu_type) and self.gpus <= len(bay.idle_gpus))


@dataclass(frozen=True, slots=True)
class Wants:
    """`kinds`: the waiting jobs' least needs, once a kind of job; the kind of which a job waited longest comes first."""

    kinds: Sequence[Want] = ()
    turn: int = 0
    """Whose turn it is of those for which a node would have to be dealt: another number each minute of the longest wait."""


def wants_of(jobs: Iterable[Job]) -> Wants:
    longest: dict[Want, float] = {}
    for job in {each.alike: each for each in sorted(jobs, key=lambda job: (job.eligible, job.wait_s))}.values():
        if job.eligible and job.promise is None:
            want = Want(job.min_gpus, job.gpu_types, job.min_cores, job.memory_mib)
            longest[want] = max(job.wait_s, longest.get(want, 0.0))
    kinds = sorted(longest, key=lambda want: (-longest[want], want.gpus, want.cores, want.memory_mib))
    turn = int(max(longest.values(), default=0.0) // TURN_S)
    # Plannings come in a beat of their own, which could fall on only one's turns: mix the number.
    return Wants(kinds, (turn * 2_654_435_761 % 2**32) >> 16)


NOBODY = Wants()


def promised_on(promises: Iterable[Iterable[Share]]) -> dict[int, tuple[int, int]]:
    """Cores and memory that promises keep, by bay."""
    kept: dict[int, tuple[int, int]] = {}
    for shares in promises:
        for share in shares:
            cores, memory_mib = kept.get(share.node, (0, 0))
            kept[share.node] = (cores + share.cores, memory_mib + share.memory_mib)
    return kept


def deal(
    bays: Sequence[Node],
    shared: Shared,
    wants: Wants = NOBODY,
    promised: Mapping[int, tuple[int, int]] = NOTHING,
) -> list[Node]:
    """The bays of one node, each with its part of the idle resources. `cores_total` and `memory_total_mib` of a bay come in as
    the jobs' holdings there, and go out with its part added; the first bay gets the uncounted rest, so that sums are the node's.
    """
    weights = [len(bay.idle_gpus) + len(bay.shared) for bay in bays]
    kept = [promised.get(bay.id, (0, 0)) for bay in bays]
    cores = divided(len(shared.cores), weights, [each[0] for each in kept])
    memory = divided(shared.memory_mib, weights, [each[1] for each in kept])
    turns: list[tuple[Want, int] | None] = []  # None: of those who fit the parts as they are
    for want in wants.kinds:
        best = _to_deal_for(want, bays, shared, cores, memory, kept)
        if best >= 0:
            turns.append((want, best))
        elif best == FITS and None not in turns:
            turns.append(None)
    if turns and (mine := turns[wants.turn % len(turns)]):
        want, best = mine
        left = max(_others(kept, best)[0], LEFT_PER_GPU * (sum(weights) - weights[best]))
        floors = [own for own, _ in kept]
        floors[best] = max(floors[best], want.cores, len(shared.cores) - left)
        cores = divided(len(shared.cores), weights, floors)
        floors = [own for _, own in kept]
        floors[best] = max(floors[best], want.memory_mib)
        memory = divided(shared.memory_mib, weights, floors)
    return _handed_out(bays, shared, cores, memory)


def _to_deal_for(
    want: Want,
    bays: Sequence[Node],
    shared: Shared,
    cores: Sequence[int],
    memory: Sequence[int],
    kept: Sequence[tuple[int, int]],
) -> int:
    """Return the bay that has to get more than its part for this want; FITS where a part suffices, or NEVER."""
    able = [k for k, bay in enumerate(bays) if want.may_use(bay)]
    if any(cores[k] >= want.cores and memory[k] >= want.memory_mib for k in able):
        return FITS
    if not able:
        return NEVER
    best = max(able, key=lambda k: (cores[k], memory[k], -k))
    others_cores, others_mib = _others(kept, best)
    fits = want.cores + others_cores <= len(shared.cores) and want.memory_mib + others_mib <= shared.memory_mib
    return best if fits else NEVER


def _others(kept: Sequence[tuple[int, int]], best: int) -> tuple[int, int]:
    """Return the cores and memory that promises keep on the other bays."""
    cores, memory_mib = (
        zip(*(each for k, each in enumerate(kept) if k != best), strict=True) if len(kept) > 1 else ((), ())
    )
    return sum(cores), sum(memory_mib)


def split(node: Node, kinds: Sequence[tuple[str, int]]) -> list[Node]:
    """The bays of a node on which all is idle; `kinds`: type and number of GPUs of each, the first being the node's own."""
    bays, first = [], 0
    for number, (name, gpus) in enumerate(kinds):
        own_name = f"{node.name} ({name})" if number else node.name
        own = replace(node, id=bay_id(node.id, number), name=own_name, gpu_type=name, gpus_total=gpus)
        idle = tuple(range(first, first + gpus))
        bays.append(replace(own, idle_gpus=idle, cores_total=0, memory_total_mib=0))
        first += gpus
    shared = Shared(node.idle_cores, node.memory_total_mib, node.cores_total, node.memory_total_mib)
    return deal(bays, shared)


def _handed_out(bays: Sequence[Node], shared: Shared, cores: Sequence[int], memory: Sequence[int]) -> list[Node]:
    found, at = [], 0
    for bay, own, own_mib in zip(bays, cores, memory, strict=True):
        ids, at = shared.cores[at : at + own], at + own
        found.append(
            replace(
                bay,
                idle_cores=ids,
                idle_memory_mib=own_mib,
                cores_total=bay.cores_total + own,
                memory_total_mib=bay.memory_total_mib + own_mib,
                whole_cores=shared.cores_total,
                whole_memory_mib=shared.memory_total_mib,
            )
        )
    others_cores, others_mib = (
        sum(each.cores_total for each in found[1:]),
        sum(each.memory_total_mib for each in found[1:]),
    )
    first = found[0]
    cores_total = max(first.cores_total, shared.cores_total - others_cores)
    memory_mib = max(first.memory_total_mib, shared.memory_total_mib - others_mib)
    return [replace(first, cores_total=cores_total, memory_total_mib=memory_mib), *found[1:]]


def divided(total: int, weights: Sequence[int], least: Sequence[int]) -> list[int]:
    """`total` in whole parts near the proportions of the weights, each at least `least`, as far as there is enough.

    The first comes first: to the rest of rounding, to `least`, and to all where no weight is above 0.
    """
    parts, left = [], total
    for wanted in least:
        parts.append(min(wanted, left))
        left -= parts[-1]
    targets = _in_proportion(total, weights)
    missing = [max(0, target - part) for target, part in zip(targets, parts, strict=True)]
    return [part + more for part, more in zip(parts, _in_proportion(left, missing), strict=True)]


def _in_proportion(total: int, weights: Sequence[int]) -> list[int]:
    whole = sum(weights)
    if not whole:
        return [total, *([0] * (len(weights) - 1))]
    parts = [total * weight // whole for weight in weights]
    by_rest = sorted(range(len(weights)), key=lambda k: (-(total * weights[k] % whole), k))
    for k in by_rest[: total - sum(parts)]:
        parts[k] += 1
    return parts
