"""The candidate configurations of a job as its page shows them (algorithms.md section 7): alike ones as one *class*.

Located candidates that differ in their nodes alone are one class; the aggregated formulation speaks of classes anyway.
The *binding* constraint of a rejected class is the first resource that fails when its best fitting node is added to the
final plan, the job's own placement taken out of it; the best fitting node is the one where the latest resource fails
(trust, GPUs, cores, memory, then quotas), by the least.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.errors import InvalidJob
from scheduler.model import Configuration, Share
from scheduler.placement.configurations import generate
from scheduler.placement.feasibility import domain_allowed
from scheduler.placement.ledger import Shortfall
from scheduler.placement.located import gains
from scheduler.placement.menu import speed_class
from scheduler.placement.options import PieceRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scheduler.estimator.layers import Estimator
    from scheduler.model import Job, Placement
    from scheduler.placement.ledger import Ledger, Room
    from scheduler.work import Chosen, Classed, Outcome

LEVELS = ("trust", "gpus", "cores", "memory_mib", "gpu_quota", "core_quota")


@dataclass(frozen=True, slots=True)
class Alike:
    """A class of candidates. `located`: its configurations; () where nodes are told apart by type and speed alone.

    Spread without `located`: over pieces of one GPU with `cores // gpus` cores each, on any nodes of these `speeds`.
    """

    gpu_type: str
    gpus: int
    cores: int
    spread: bool
    throughput: float
    source: str
    gain: float
    factor: float
    value: float
    located: tuple[Configuration, ...] = ()
    speeds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What fails first when a class is added to the final plan (None = nothing), and where it came nearest."""

    short: Shortfall | None
    nearest: Configuration | None


class Candidates:
    """The classes of candidates of a planning's jobs, and how they fare against what was idle before it and after."""

    def __init__(self, start: Ledger, final: Ledger, outcome: Outcome, estimator: Estimator) -> None:
        self._start, self._final, self._outcome, self._estimator = start, final, outcome, estimator
        self._kinds: dict[tuple[str, int], list[int]] = {}
        for number, room in start.rooms.items():
            if room.gpus:
                self._kinds.setdefault((room.node.gpu_type or "", speed_class(room.node)), []).append(number)

    def of(self, job: Job) -> list[Alike]:
        """The job's classes, best value first; [] when no candidate was made."""
        classed = self._outcome.classed.get(job.id)
        found = self._of_options(job, classed) if classed else self._of_located(job)
        return sorted(found, key=lambda each: (-each.value, each.gpus, each.cores, each.gpu_type, each.spread))

    def factor(self, job: Job, configuration: Configuration) -> float:
        """0.95 when borrowed, else 1."""
        factors = self._outcome.factors
        return 1.0 if factors is None or job.is_cpu else factors(job, configuration)

    def gpu_type(self, configuration: Configuration) -> str:
        return self._start.rooms[configuration.shares[0].node].node.gpu_type or ""

    def _of_located(self, job: Job) -> Iterator[Alike]:
        own = self._outcome.candidates.get(job.id, ()) or self._kept(job)
        weight = self._outcome.weights.get(job.id, 1.0)
        alike: dict[tuple[str, int, int, bool, float, str, float, float], list[Configuration]] = {}
        for each, gain in zip(own, gains(own), strict=True):
            key = (
                self.gpu_type(each), each.gpus, each.cores, len(each.shares) > 1, each.throughput, each.source, gain,
                self.factor(job, each),
            )  # fmt: skip
            alike.setdefault(key, []).append(each)
        for key, configurations in alike.items():
            yield Alike(*key, value=weight * key[-2] * key[-1], located=tuple(configurations))

    def _kept(self, job: Job) -> tuple[Configuration, ...]:
        """What the plan leaves idle would hold the job, but is kept for others, so that no candidate was made of it."""
        if job.id not in self._outcome.kept or job.is_cpu:
            return ()
        try:
            return generate(job, self._final, self._estimator)
        except InvalidJob:
            return ()  # a speed that is no number: the planning says so once it is the job's turn

    def _of_options(self, job: Job, classed: Classed) -> Iterator[Alike]:
        group, weight = classed.group, self._outcome.weights.get(job.id, 1.0)
        least = min(option.throughput for option in group.options)
        for option, value in zip(group.options, group.values, strict=True):
            row = classed.rows[option.row]
            pools = (row.pool,) if isinstance(row, PieceRow) else row.pools
            gain = option.throughput / least
            yield Alike(
                pools[0].gpu_type, option.gpus, option.cores, option.spread, option.throughput, option.source, gain,
                value / (weight * gain), value, speeds=tuple(sorted({pool.speed for pool in pools})),
            )  # fmt: skip

    def ways(self, job: Job, alike: Alike) -> Sequence[Configuration] | None:
        """The configurations that the class stood for when the planning began; None where nodes are not told apart."""
        if alike.located:
            return alike.located
        if alike.spread:
            return None
        return [each for each in self._on_nodes(job, alike) if self._start.shortfall(each, job.tenant) is None]

    def _on_nodes(self, job: Job, alike: Alike) -> Iterator[Configuration]:
        for speed in alike.speeds:
            for number in self._kinds.get((alike.gpu_type, speed), ()):
                if domain_allowed(job, self._start.rooms[number].node):
                    share = Share(number, alike.gpus, alike.cores, job.memory_mib)
                    yield Configuration(job.id, (share,), alike.throughput, alike.source)

    def verdict(self, job: Job, alike: Alike, chosen: Chosen | None) -> Verdict:
        """How the class fares when it is added to the final plan, less what the job itself was given there."""
        final = self._final if chosen is None else _without(self._final, chosen.placement, job.tenant)
        if alike.spread and not alike.located:
            return Verdict(self._units_short(job, alike, final), None)
        return _nearest(alike.located or self._on_nodes(job, alike), final, job.tenant)

    def _units_short(self, job: Job, alike: Alike, final: Ledger) -> Shortfall | None:
        """Spread, the nodes not chosen: the pieces of one GPU that are left in all, by GPUs, then with their cores."""
        numbers = [number for speed in alike.speeds for number in self._kinds.get((alike.gpu_type, speed), ())]
        rooms = [final.rooms[number] for number in numbers if _open_to(job, final.rooms[number])]
        rate = max(1, alike.cores // alike.gpus)
        gpus = sum(len(room.gpus) for room in rooms)
        if gpus < alike.gpus:
            return Shortfall("gpus", None, alike.gpus, gpus)
        units = sum(min(len(room.gpus), len(room.cores) // rate) for room in rooms)
        if units < alike.gpus:
            return Shortfall("cores", None, alike.cores, units * rate)
        return final.quota_shortfall(job.tenant, alike.gpus, alike.cores)


def _nearest(configurations: Iterable[Configuration], final: Ledger, tenant: int) -> Verdict:
    best: tuple[int, int] | None = None
    verdict = Verdict(None, None)
    for each in configurations:
        short = final.shortfall(each, tenant)
        if short is None:
            return Verdict(None, each)
        nearness = (LEVELS.index(short.resource), short.available - short.needed)
        if best is None or nearness > best:
            best, verdict = nearness, Verdict(short, each)
    return verdict


def _open_to(job: Job, room: Room) -> bool:
    return domain_allowed(job, room.node) and room.admits(job.tenant)


def _without(final: Ledger, own: Placement, tenant: int) -> Ledger:
    """The final plan without the job's own placement."""
    twin = final.copy()
    for piece in own.pieces:
        room = twin.rooms[piece.node]
        room.gpus, room.cores = (*piece.gpus, *room.gpus), (*piece.cores, *room.cores)
        room.memory_mib += piece.memory_mib
    if (allowance := twin.allowances.get(tenant)) is not None:
        twin.allowances[tenant] = replace(
            allowance,
            gpus=None if allowance.gpus is None else allowance.gpus + own.gpus,
            cores=None if allowance.cores is None else allowance.cores + own.cores,
        )
    return twin
