"""The job side of the aggregated formulation (algorithms.md section 6): the pieces of a pool that each job may take.

A variable per (job, type, requirement, pieces, lowest speed class used). On one node a job takes one piece, (GPUs, cores).
Spread over nodes it takes *units*, pieces of one GPU with 2 or 1 cores: any split of a requirement is a sum of units, and units
that end on one node become one piece there, so the units stand for every split at once. Their throughput is that of the fewest
nodes that can hold them; where the estimator says that more nodes are slower, the bound is optimistic and the plan is valued by
its true throughput.

Jobs that are equal in everything, the weight included, form a *group* with one integer variable a candidate: without that the
solver would try their permutations. A *row* is a kind of piece that pools offer: candidates need it, patterns offer it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.errors import InvalidJob
from scheduler.estimator.layers import GUESSES
from scheduler.model import Job, Ranked
from scheduler.parameters.knobs import SIGMA
from scheduler.placement.access import NO_RULES, Rules
from scheduler.placement.aggregated import skeletons
from scheduler.placement.aggregated.skeletons import Line, PieceRow, Question, SharedRow, Skeleton, Skeletons
from scheduler.placement.core_counts import speed_of

if TYPE_CHECKING:
    from scheduler.estimator.estimator import Estimator
    from scheduler.placement.aggregated.classes import Classes, Pin
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.running import Participant

Speed = tuple[float, str]
"""The estimator's: per-GPU throughput and the layer that it is from."""


class ClassCandidate(NamedTuple):
    """One way to serve a job: how many GPUs and cores in all, `need` times its row; more than one node when `spread`."""

    row: int
    need: int
    gpus: int
    cores: int
    spread: bool
    throughput: float
    source: str
    factor: float = 1.0  # on its objective value: less where it borrows


@dataclass(slots=True)
class Group:
    """Equal jobs, in queue order, their candidates and each candidate's objective value w * G * factor."""

    members: list[Ranked]
    weight: float
    parts: list[Skeleton]
    speeds: list[Speed]
    running: Participant | None = None
    candidates: _Shown | tuple[ClassCandidate, ...] = ()
    values: Sequence[float] | np.ndarray = ()
    least: float = 1.0  # the smallest throughput among a job's candidates: the divisor of G

    @property
    def job(self) -> Job:
        return self.members[0].job


@dataclass(slots=True)
class Candidates:
    """All groups and rows of a stage, and the same as arrays, an entry per candidate, a group's own side by side."""

    groups: list[Group] = field(default_factory=list)
    rows: dict[PieceRow | SharedRow, int] = field(default_factory=dict)
    rules: Rules = NO_RULES
    unbound: frozenset[str] = frozenset()  # types whose nodes have all the cores that can be asked
    invalid: dict[int, InvalidJob] = field(default_factory=dict)
    out_of_time: list[Ranked] = field(default_factory=list)
    group: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    row: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    need: np.ndarray = field(default_factory=lambda: np.zeros(0))
    gpus: np.ndarray = field(default_factory=lambda: np.zeros(0))
    cores: np.ndarray = field(default_factory=lambda: np.zeros(0))
    value: np.ndarray = field(default_factory=lambda: np.zeros(0))
    position: np.ndarray = field(default_factory=lambda: np.zeros(0, int))  # within the group's own candidates
    first: np.ndarray = field(default_factory=lambda: np.zeros(1, int))  # of each group, and the number of all

    @property
    def least(self) -> dict[int, float]:
        """By job, the divisor of its G: both formulations value a plan in the same way."""
        return {ranked.job.id: group.least for group in self.groups for ranked in group.members}

    def row_of(self, key: PieceRow | SharedRow) -> int:
        return self.rows.setdefault(key, len(self.rows))

    def freeze(self) -> None:
        """Fill the arrays, and each group's view of them."""
        if not self.groups:
            return
        parts = [part for group in self.groups for part in group.parts]
        table = np.concatenate([part.table for part in parts])
        of_part = np.array([len(part.table) for part in parts])
        asked = np.concatenate(([0], np.cumsum([len(part.questions) for part in parts])[:-1]))
        question = table[:, skeletons.ASKED].astype(int) + np.repeat(asked, of_part)
        sizes = np.add.reduceat(of_part, _firsts([len(group.parts) for group in self.groups])[:-1])
        self.first = _firsts(sizes)
        self.group = np.repeat(np.arange(len(self.groups)), sizes)
        self.position = np.arange(len(table)) - self.first[self.group]
        self.row = table[:, skeletons.ROW].astype(int)
        self.need, self.gpus, self.cores = (
            np.ascontiguousarray(table[:, k]) for k in (skeletons.NEED, skeletons.GPUS, skeletons.CORES)
        )
        speeds = np.array([speed for group in self.groups for speed, _ in group.speeds])
        throughput = speeds[question] * self.gpus * table[:, skeletons.SHARE]
        for g, group in enumerate(self.groups):
            if group.running is not None:
                throughput[self.first[g]] = group.running.present.throughput  # to the last digit
        self._value(throughput, table[:, skeletons.FACTOR], question)
        sources = [source for group in self.groups for _, source in group.speeds]
        for g, group in enumerate(self.groups):
            own = slice(self.first[g], self.first[g + 1])
            group.candidates = _Shown(table[own], throughput[own], question[own], sources)
            group.values = self.value[own]

    def _value(self, throughput: np.ndarray, factor: np.ndarray, question: np.ndarray) -> None:
        """The value of each candidate: w * G * factor; of a running job, the part that a restart leaves."""
        asked = _firsts([len(group.speeds) for group in self.groups])
        least = np.minimum.reduceat(throughput, self.first[:-1])
        weight = np.array([group.weight for group in self.groups])
        gain = self.rules.gain.of_all(throughput / least[self.group])
        self.value = weight[self.group] * gain * factor
        for g, group in enumerate(self.groups):
            group.least = float(least[g])
            if (running := group.running) is None:
                continue
            own = slice(self.first[g], self.first[g + 1])
            present, gains = float(gain[own.start]), gain[own] * factor[own]
            guessed = np.array([source in GUESSES for _, source in group.speeds])
            left = running.factors.of(self.gpus[own], guessed[question[own] - asked[g]])
            left[0] = 1.0  # the first is to keep its place
            self.value[own] = running.value_of(group.weight, gains, present, left)


class _Shown:
    """Candidates that are made when somebody looks at them."""

    def __init__(self, table: np.ndarray, throughput: np.ndarray, question: np.ndarray, sources: list[str]) -> None:
        self._table, self._throughput, self._question, self._sources = table, throughput, question, sources

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, k: int) -> ClassCandidate:
        row, need, gpus, cores, spread, factor, _, _ = self._table[k].tolist()
        source = self._sources[self._question[k]]
        return ClassCandidate(
            int(row), int(need), int(gpus), int(cores), bool(spread), float(self._throughput[k]), source, factor
        )


def _firsts(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Where each of these many begins, and where the last ends."""
    return np.concatenate(([0], np.cumsum(sizes))).astype(int)


def candidates_by_class(
    stage: Sequence[Ranked],
    weight: Mapping[int, float],
    classes: Classes,
    ledger: Ledger,
    estimator: Estimator,
    *,
    sigma: float = SIGMA,
    late: Callable[[], bool] = lambda: False,
    participants: Mapping[int, Participant] = MappingProxyType({}),
) -> Candidates:
    """The stage's candidates in queue order; asks `late` now and then and leaves out the jobs that had no turn by then.

    `participants`: running jobs of the stage. They stand first, and may always keep their place.
    """
    gathering = _Gathering(weight, classes, ledger, estimator, sigma)
    found = gathering.found
    for position, ranked in enumerate(stage):
        running = participants.get(ranked.job.id)
        if running is None and position % 16 == 0 and late():
            found.out_of_time = list(stage[position:])
            break
        try:
            gathering.add(ranked, running)
        except InvalidJob as error:
            found.invalid[ranked.job.id] = error
    found.freeze()
    return found


class _Gathering:
    """The groups and rows of the jobs so far."""

    def __init__(
        self, weight: Mapping[int, float], classes: Classes, ledger: Ledger, estimator: Estimator, sigma: float
    ) -> None:
        self.found = Candidates(rules=classes.rules, unbound=_unbound(classes))
        self._weight, self._classes, self._ledger = weight, classes, ledger
        self._estimator, self._sigma = estimator, sigma
        self._shapes = Skeletons(classes, ledger, self.found.unbound, self.found.row_of)
        self._alike: dict[object, Group] = {}

    def add(self, ranked: Ranked, running: Participant | None) -> None:
        """One job more; InvalidJob when the estimator or its shape says that it cannot be planned."""
        job, estimator = ranked.job, self._estimator
        parts = self._shapes.of(job, low_sensitivity=estimator.sensitivity(job) <= self._sigma)
        speeds = [speed_of(estimator, job, *question) for part in parts for question in part.questions]
        w = self._weight[job.id]
        if running is not None:
            part, present = _present(running, self._classes.pins[job.id][0], self.found, self._ledger)
            self.found.groups.append(Group([ranked], w, [part, *parts], [present, *speeds], running))
        elif parts:
            tenant = job.tenant if job.tenant in self._ledger.allowances else None
            key = (w, tenant, job.memory_mib, job.cores, tuple(map(id, parts)), tuple(speeds))
            if (group := self._alike.get(key)) is not None:
                group.members.append(ranked)
            else:
                group = self._alike[key] = Group([ranked], w, parts, speeds)
                self.found.groups.append(group)


def _present(running: Participant, pin: Pin, found: Candidates, ledger: Ledger) -> tuple[Skeleton, Speed]:
    """To keep its place, the first of a running job's candidates. Its speed is known, so nothing scales it."""
    present = running.present
    spread = len(present.shares) > 1
    here = Question(ledger.free[present.shares[0].node].node, present.gpus, len(present.shares), 1.0)
    row = found.row_of(PieceRow(pin.pool, *pin.piece))
    factor = found.rules.factor(running.job, present)
    line = Line(row, present.gpus if spread else 1, present.gpus, present.cores, spread, factor, 1.0, 0)
    return Skeleton((here,), np.array([line], dtype=float)), (present.throughput / present.gpus, present.source)


def _unbound(classes: Classes) -> frozenset[str]:
    most = classes.most_cores
    scarce = {
        each.key.gpu_type
        for each in classes.all
        if each.key.limit < most * each.key.gpus or any(pin.cores > most * pin.gpus for pin in each.key.pins)
    }
    return frozenset(classes.by_type) - scarce
