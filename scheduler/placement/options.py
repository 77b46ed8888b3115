"""The job side of the aggregated formulation (algorithms.md section 6): what each job may take from which pool.

A variable per (job, type, requirement, pieces, lowest speed class used). On one node a job takes one piece, (GPUs,
cores). Spread over nodes it takes *units*, pieces of one GPU with 2 or 1 cores: any split of a requirement is a sum of
units, and units that end on one node become one piece there, so the units stand for every split at once. Their
throughput is that of the fewest nodes that can hold them; where the estimator says that more nodes are slower, the
bound is optimistic and the plan is valued by what it really got.

Jobs alike in everything, the weight included, form a *group* with one integer variable an option: without that the
solver would try their permutations. A *row* is a kind of piece that pools offer: options need it, patterns offer it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.errors import InvalidJob
from scheduler.placement.access import NO_RULES
from scheduler.placement.configurations import SIGMA
from scheduler.placement.menu import per_gpu, share_of_speed, spread_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scheduler.estimator.layers import Estimator
    from scheduler.model import Job
    from scheduler.placement.access import Rules
    from scheduler.placement.classes import Classes, Pin, Pool
    from scheduler.placement.ledger import Ledger
    from scheduler.replan.participants import Participant
    from scheduler.work import Ranked


class PieceRow(NamedTuple):
    """Pieces of `gpus` and `cores` that a pool offers. `cores` is 0 where the type has more than can ever be asked."""

    pool: Pool
    gpus: int
    cores: int


class UnitRow(NamedTuple):
    """Units of one GPU that any of several pools may offer."""

    pools: tuple[Pool, ...]
    cores: int


class Option(NamedTuple):
    """One way to serve a job: how many GPUs and cores in all, `need` times its row; more than one node when `spread`."""

    row: int
    need: int
    gpus: int
    cores: int
    spread: bool
    throughput: float
    source: str
    factor: float = 1.0  # on its objective value: less for what is borrowed


@dataclass(slots=True)
class Group:
    """Jobs alike, in queue order, their options and each option's objective value w * G * factor."""

    members: list[Ranked]
    options: list[Option]
    values: list[float]
    least: float  # the smallest throughput among a job's options: what G divides by

    @property
    def job(self) -> Job:
        return self.members[0].job


@dataclass(slots=True)
class Options:
    """All groups and rows of a stage, and the same as arrays, an entry per option."""

    groups: list[Group] = field(default_factory=list)
    rows: dict[PieceRow | UnitRow, int] = field(default_factory=dict)
    rules: Rules = NO_RULES
    unbound: frozenset[str] = frozenset()  # types whose nodes have all the cores that can be asked
    invalid: dict[int, InvalidJob] = field(default_factory=dict)
    out_of_time: list[Ranked] = field(default_factory=list)
    group: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    row: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    need: np.ndarray = field(default_factory=lambda: np.zeros(0))
    value: np.ndarray = field(default_factory=lambda: np.zeros(0))
    position: np.ndarray = field(default_factory=lambda: np.zeros(0, int))  # within the group's own options

    @property
    def least(self) -> dict[int, float]:
        """By job, what its G divides by: both formulations value a plan alike."""
        return {ranked.job.id: group.least for group in self.groups for ranked in group.members}

    def row_of(self, key: PieceRow | UnitRow) -> int:
        return self.rows.setdefault(key, len(self.rows))

    def freeze(self) -> None:
        """Fill the arrays from the groups."""
        flat = [(g, p, option) for g, group in enumerate(self.groups) for p, option in enumerate(group.options)]
        self.group = np.array([g for g, _, _ in flat], dtype=int)
        self.position = np.array([p for _, p, _ in flat], dtype=int)
        self.row = np.array([option.row for _, _, option in flat], dtype=int)
        self.need = np.array([option.need for _, _, option in flat], dtype=float)
        self.value = np.array([value for group in self.groups for value in group.values], dtype=float)


def options_of(
    stage: Sequence[Ranked],
    weight: Mapping[int, float],
    classes: Classes,
    ledger: Ledger,
    estimator: Estimator,
    *,
    sigma: float = SIGMA,
    late: Callable[[], bool] = lambda: False,
    participants: Mapping[int, Participant] = MappingProxyType({}),
) -> Options:
    """The stage's options in queue order; asks `late` now and then and leaves out who has not had a turn by then.

    `participants`: running jobs of the stage. They stand first, and may keep what they have whatever time is left.
    """
    found = Options(rules=classes.rules, unbound=_unbound(classes))
    alike: dict[object, Group] = {}
    for position, ranked in enumerate(stage):
        running = participants.get(ranked.job.id)
        if running is None and position % 16 == 0 and late():
            found.out_of_time = list(stage[position:])
            break
        try:
            options = _Maker(ranked.job, classes, ledger, estimator, found).all(sigma)
        except InvalidJob as error:
            found.invalid[ranked.job.id] = error
            continue
        w, quoted = weight[ranked.job.id], ranked.job.tenant in ledger.allowances
        if running is not None:
            _join_running(ranked, w, options, found, running, classes.pins[ranked.job.id])
        elif options:
            _join(ranked, w, options, found, alike, quoted=quoted)
    found.freeze()
    return found


def _unbound(classes: Classes) -> frozenset[str]:
    most = classes.most_cores
    scarce = {
        each.key.gpu_type
        for each in classes.all
        if each.key.limit < most * each.key.gpus or any(pin.cores > most * pin.gpus for pin in each.key.pins)
    }
    return frozenset(classes.by_type) - scarce


def _join(
    ranked: Ranked, w: float, options: list[Option], found: Options, alike: dict[object, Group], *, quoted: bool
) -> None:
    job = ranked.job
    key = (w, job.tenant if quoted else None, job.memory_mib, job.cores, tuple(options))
    group = alike.get(key)
    if group is not None:
        group.members.append(ranked)
        return
    least = min(option.throughput for option in options)
    group = Group([ranked], options, [w * option.throughput / least * option.factor for option in options], least)
    alike[key] = group
    found.groups.append(group)


def _join_running(
    ranked: Ranked, w: float, others: list[Option], found: Options, running: Participant, pin: Pin
) -> None:
    """A running job's group: to keep what it has, first, or one of the others at the price of a restart."""
    present = running.present
    row = found.row_of(PieceRow(pin.pool, pin.gpus, pin.cores))
    factor = found.rules.factor(ranked.job, present)
    keep = Option(row, 1, pin.gpus, pin.cores, False, present.throughput, present.source, factor)
    options = [keep, *others]
    least = min(option.throughput for option in options)
    values = [
        running.worth(w, option.throughput / least * option.factor, present.throughput / least, keeps=option is keep)
        for option in options
    ]
    found.groups.append(Group([ranked], options, values, least))


@dataclass(slots=True)
class _Maker:
    """The options of one job."""

    job: Job
    classes: Classes
    ledger: Ledger
    estimator: Estimator
    found: Options

    def all(self, sigma: float) -> list[Option]:
        allowance = self.ledger.allowances.get(self.job.tenant)
        most_gpus = allowance.gpus if allowance is not None else None
        most_cores = allowance.cores if allowance is not None else None
        sizes = [size for size in self.job.requirement if most_gpus is None or size <= most_gpus]
        low_sensitivity = self.estimator.sensitivity(self.job) <= sigma
        made: list[Option] = []
        for gpu_type in self.classes.types_for(self.job):
            pools = self.classes.pools_for(self.job, gpu_type)
            spread = low_sensitivity or self.job.min_gpus > self.classes.largest.get(gpu_type, 0)
            for size in sizes:
                for pool in pools:
                    made += self._single(pool, size, most_cores)
                if spread and size > 1 and pools:
                    made += self._spread(pools, size, most_cores)
        return made

    def _single(self, pool: Pool, size: int, most_cores: int | None) -> list[Option]:
        job, room = self.job, self.classes.pools[pool]
        if size >= len(room.cores) or room.memory_mib[size] < job.memory_mib:
            return []
        speed, source = per_gpu(self.estimator, job, self.classes.stand_in(pool), size, 1)
        unbound = pool.gpu_type in self.found.unbound
        return [
            Option(
                self.found.row_of(PieceRow(pool, size, 0 if unbound else cores)),
                1,
                size,
                cores,
                spread=False,
                throughput=speed * size * share_of_speed(cores, job.cores, size),
                source=source,
                factor=self.classes.access[job.id].factor((pool.zone.array,)),
            )
            for cores in self.classes.menus[pool.limited].of(pool.gpu_type, size, job, most_cores)
            if cores <= room.cores[size]
        ]

    def _spread(self, pools: Sequence[Pool], size: int, most_cores: int | None) -> list[Option]:
        """An option per rate, lowest speed class and set of arrays, those with the fastest or own nodes alone included."""
        access = self.classes.access[self.job.id]
        made: list[Option] = []
        for arrays in [access.arrays[: k + 1] for k in range(len(access.arrays))]:
            own = [pool for pool in pools if pool.zone.array in arrays]
            if len(arrays) > 1 and not any(pool.zone.array == arrays[-1] for pool in own):
                continue
            for slowest in sorted({pool.speed for pool in own}, reverse=True):
                usable = tuple(pool for pool in own if pool.speed >= slowest)
                made += self._units(usable, slowest, size, most_cores, access.factor(arrays))
        return made

    def _units(
        self, usable: tuple[Pool, ...], slowest: int, size: int, most_cores: int | None, factor: float
    ) -> Iterator[Option]:
        stand_in = self.classes.stand_in(next(pool for pool in usable if pool.speed == slowest))
        nodes = max(2, -(-size // max(len(self.classes.pools[pool].cores) - 1 for pool in usable)))
        rates = spread_rates(self.job)
        for rate in rates:
            if self.classes.unit_gpus(usable, rate) < size or not (most_cores is None or rate * size <= most_cores):
                continue
            speed, source = per_gpu(self.estimator, self.job, stand_in, size, nodes)
            throughput = speed * size * share_of_speed(rate, rates[0], 1)
            row = self.found.row_of(self._unit_row(usable, rate))
            yield Option(row, size, size, rate * size, True, throughput, source, factor)

    def _unit_row(self, pools: tuple[Pool, ...], rate: int) -> PieceRow | UnitRow:
        cores = 0 if pools[0].gpu_type in self.found.unbound else rate
        pieces = [PieceRow(pool, 1, cores) for pool in pools]
        for piece in pieces:
            self.found.row_of(piece)
        return pieces[0] if len(pieces) == 1 else UnitRow(pools, cores)
