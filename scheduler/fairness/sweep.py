"""Work conservation (ours; algorithms.md section 4, invariant 11): nothing stays idle if a waiting job fits it.

After the stages and call-backs the sweep offers what is still idle to every waiting job of every array. The windows' jobs come
first, in the order of picking. Then, as in progressive filling, the tenant with the smallest share (running, picked and swept
jobs) has its turn with its first job that fits. Each job takes its smallest size on the tightest of the fastest nodes, and
its own array rather than another. A job that does not fit is passed over and adds nothing to its tenant's share.

There are three passes. The first follows the rules of borrowing. In the second a job that cannot be moved may borrow too: no
waiting job of the owner array could start there. In the third, after the CPU jobs, a job may use cores that no CPU job could
use. At last the jobs that the sweep started grow on their nodes, while something is idle there that no other job can use.

Only a reservation or a promise keeps a job that fits from starting: promised resources are not in the ledger, reserved nodes are
barred, and `Sweep.kept` names the keepers. Jobs of one *shape* fit the same places, so each pass looks once for each shape. Jobs
that ask for more GPUs than are idle anywhere are not looked at.
"""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.estimator.measured import signature
from scheduler.fairness.keeping import kept_by
from scheduler.fairness.turns import Shape, Standing, by_share, shapes_of, standing_of
from scheduler.placement.aggregated.own_speeds import Asked, own_speeds_of
from scheduler.placement.configurations import generate_on
from scheduler.placement.idle_nodes import IdleNodes
from scheduler.placement.turn import best_fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduler.fairness.borrowing import AccessRules
    from scheduler.model import Configuration, Job, Ranked
    from scheduler.placement.access import Access
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work

LIMIT_SHARE = 0.05
"""The part of a planning's time limit that is the sweep's own, however long the stages took."""
WALKS = 0.6
"""Beside it, the time that its walk over the queue takes, over that of checking and ordering: measured with 100 000 jobs."""


class Sweep:
    """The sweep of one planning. `picked`: the windows' jobs in the order of picking. `fair`: tenants take turns by share."""

    def __init__(
        self,
        queue: Sequence[Ranked],
        picked: Sequence[Ranked],
        work: Work,
        access_rules: AccessRules,
        draft: DraftPlan,
        candidates: dict[int, tuple[Configuration, ...]],
        *,
        fair: bool,
    ) -> None:
        self._queue, self._picked, self._work, self._access_rules = queue, picked, work, access_rules
        self._draft, self._candidates, self._fair = draft, candidates, fair
        self.kept: dict[int, Mapping[str, object]] = {}  # job id -> the keepers of the idle GPUs that it would fit
        self._placed: list[Ranked] = []
        self._standing: Standing | None = None
        self._shapes: list[Shape] = []
        self._ends_s = work.deadline_s
        self._hopeless: dict[tuple[object, ...], int] = {}  # by kind of job: with this memory, or more, it fits nowhere
        self._picked_shape: dict[int, Shape] = {}
        self._left: list[Shape] = []  # to whose jobs the last pass did not come
        self._behind: Sequence[Ranked] = ()  # for whose shapes there was no time

    @cached_property
    def unswept(self) -> frozenset[int]:
        """The jobs that fit what is idle, but time ended before their turn. To be asked when the sweep is finished."""
        left = {each.job.id for jobs in (self._behind, *(own.jobs for own in self._left)) for each in jobs}
        promised = (given.job for given in self._draft.promises)
        return frozenset(left.difference(self._draft.chosen, self._draft.invalid, promised))

    def start(self, cpu_share: float = 0.0, cpu_walks: float = 0.0) -> None:
        """Make the first two passes: start jobs where they may be, then on resources that no job of the owner array can use.

        The CPU jobs' part of the limit, and of walks over the queue, is left to them.
        """
        before = self._work.before(cpu_share, cpu_walks)
        nodes = IdleNodes(self._work.ledger, self._access_rules)
        promised = {given.job for given in self._draft.promises}
        self._ends_s = before.before(LIMIT_SHARE).ends_s(LIMIT_SHARE / 2)
        self._shapes, self._behind = shapes_of(
            self._queue, nodes, self._access_rules, self._work.estimator, promised, self._is_late
        )
        picked = {each.job.id for each in self._picked}
        self._picked_shape = {
            each.job.id: shape for shape in self._shapes for each in shape.jobs if each.job.id in picked
        }
        self._ends_s = max(before.deadline_s, self._ends_s)
        self._pass(nodes, opened=False)
        if self._access_rules.lends:
            self._pass(nodes, opened=True)

    def finish(self) -> None:
        """After the CPU jobs: the third pass, let the started jobs grow, and note the keepers of the rest."""
        ledger = self._work.ledger
        self._ends_s = max(self._ends_s, self._work.deadline_s)
        if self._access_rules.lends and ledger.limited:
            ledger.limit((), {})
            self._pass(IdleNodes(ledger, self._access_rules), opened=True)
        for ranked in self._placed:
            if self._is_late():
                break
            self._grow(ranked)
        if self._access_rules.reservations or not self._access_rules.lends:
            self._note_kept()

    def _pass(self, nodes: IdleNodes, *, opened: bool) -> None:
        self._hopeless.clear()  # the pass before had other rules
        self._left.clear()
        share_s = LIMIT_SHARE * self._work.parameters.limit_s
        if not opened:  # from now on the sweep has its time, however late the stages were
            self._ends_s = max(self._ends_s, self._work.clock() + share_s / 2)
        shapes: list[Shape] = []
        good: dict[tuple[object, ...], int] = {}
        for position, each in enumerate(self._shapes):
            if position % 16 == 15 and self._is_late():
                self._left += self._shapes[position:]  # many shapes: each asks every node
                break
            if self._fits(each, nodes, good, opened=opened):
                shapes.append(each)
        if not opened:
            self._ends_s = max(self._ends_s, self._work.clock() + share_s / 2)
        for ranked, shape in self._in_turn(shapes):
            if self._is_late():
                self._left += [each for each in shapes if each.fits]
                return
            shape.fits = self._place(ranked, shape.access, nodes)
            if not nodes.gpus_left:
                return

    def _is_late(self) -> bool:
        return self._work.clock() >= self._ends_s

    def _fits(self, shape: Shape, nodes: IdleNodes, good: dict[tuple[object, ...], int], *, opened: bool) -> bool:
        """Whether jobs of the shape fit now, asked once, and not for each amount of memory.

        `good`: by kind of job, up to how much memory fits as the pass begins.
        """
        job = shape.jobs[0].job
        shape.next = 0
        if opened:
            shape.access = self._access_rules.opened(shape.access)
        spreads = self._spreads(job)
        key = (
            job.requirement[0],
            job.gpu_types,
            job.least_cores,
            job.bound,
            shape.access,
            spreads,
            job.tenant if nodes.tells_tenants_apart else 0,
        )
        memory = job.memory_mib
        if good.get(key, -1) < memory < self._hopeless.get(key, memory + 1):
            (good if nodes.best_fit(job, shape.access, spreads=spreads) else self._hopeless)[key] = memory
        shape.fits = memory <= good.get(key, -1) and self._work.ledger.over_quota(job) is None
        return shape.fits

    def _spreads(self, job: Job) -> bool:
        return self._work.estimator.sensitivity(job) <= self._work.parameters.sigma

    def _in_turn(self, shapes: Sequence[Shape]) -> Iterator[tuple[Ranked, Shape]]:
        """The jobs whose shape still fits when their turn comes. The caller handles each job before it asks for the next."""
        if not shapes:
            return
        self._standing = self._standing or standing_of(self._work, self._picked)
        for ranked in self._picked:
            shape = self._picked_shape.get(ranked.job.id)
            if shape is not None and shape.fits and self._waits(ranked):
                yield ranked, shape
        yield from by_share(
            shapes, self._standing, fair=self._fair, wants=self._wants, started=self._draft.chosen.__contains__
        )

    def _wants(self, ranked: Ranked) -> bool:
        """Whether it stands behind the windows and still waits."""
        return ranked.job.id not in self._picked_shape and self._waits(ranked)

    def _waits(self, ranked: Ranked) -> bool:
        return ranked.job.id not in self._draft.chosen and ranked.job.id not in self._draft.invalid

    def _place(self, ranked: Ranked, access: Access, nodes: IdleNodes) -> bool:
        """Start the job at its smallest size, if it fits. Returns whether another job of its shape may still fit."""
        job, work = ranked.job, self._work
        if work.ledger.over_quota(job) is not None:
            return False
        own = own_speeds_of([ranked], {job.id: 1.0}, work.ledger, work.estimator, 0).cells
        cells = own.get(Asked(signature(job), job.min_gpus, 1), {}) if own else {}
        offers = nodes.best_fit(job, access, spreads=self._spreads(job), cells=cells)
        found = self._generate(job, (job.min_gpus,), offers)
        best = best_fit(found, work.ledger, job.tenant)
        if best is None:
            return job.id in self._draft.invalid
        self._take(ranked, best, found)
        self._placed.append(ranked)
        for share in best.shares:
            nodes.refresh(share.node)
        return True

    def _generate(self, job: Job, sizes: tuple[int, ...], offers: Sequence[Offer]) -> tuple[Configuration, ...]:
        work = self._work
        try:
            return generate_on(
                replace(job, requirement=sizes), offers, work.ledger, work.estimator, sigma=work.parameters.sigma
            )
        except InvalidJob as error:
            self._draft.invalid[job.id] = error
            return ()

    def _take(self, ranked: Ranked, best: Configuration, found: tuple[Configuration, ...]) -> None:
        number, placement = ranked.job.id, self._work.ledger.take(best, ranked.job.tenant)
        self._draft.chosen[number] = self._draft.objective.chosen(best, placement, found)
        self._candidates.setdefault(number, found)
        self._access_rules.refresh()

    def _grow(self, ranked: Ranked) -> None:
        """Give a started job more of its node if that makes it faster. After the passes no other job can use it."""
        job, ledger, chosen = ranked.job, self._work.ledger, self._draft.chosen[ranked.job.id]
        small = chosen.configuration
        if len(small.shares) > 1 or small.gpus == job.requirement[-1] or not ledger.free[small.shares[0].node].gpus:
            return
        sizes = tuple(size for size in job.requirement if size >= small.gpus)
        ledger.release(chosen.placement.pieces, job.tenant, job.id)
        offers = [ledger.free[small.shares[0].node].offer]
        found = tuple(
            each
            for each in self._generate(job, sizes, offers)
            if len(each.shares) == 1 and ledger.shortfall(each, job.tenant) is None
        )
        best = max([small, *found], key=lambda each: (each.throughput, each.cores))
        self._take(ranked, best, tuple(dict.fromkeys([*self._candidates[job.id], *found])))

    def _note_kept(self) -> None:
        """Note the keepers of nodes that jobs would fit if the nodes were open to them."""
        access_rules, work = self._access_rules, self._work
        nodes, left = IdleNodes(work.ledger, access_rules), work.ledger.idle_offers()
        for position, shape in enumerate(self._shapes if nodes.gpus_left else ()):
            if position % 16 == 15 and self._is_late():
                return
            job = shape.jobs[0].job
            free = access_rules.opened(shape.access)._replace(barred=frozenset(), limited=False)
            if nodes.best_fit(job, free, spreads=self._spreads(job)):
                access = access_rules.access(shape.jobs[0])
                figures = kept_by(shape.jobs[0], access, left, work, access_rules)
                waiting = (each.job.id for each in shape.jobs if self._waits(each))
                self.kept |= {number: figures for number in waiting if number not in self.unswept}


class _NoSweep:
    """Stands for the sweep where a policy leaves idle what its windows could not use."""

    kept: Mapping[int, Mapping[str, object]] = MappingProxyType({})
    unswept: frozenset[int] | None = None

    def start(self, cpu_share: float = 0.0, cpu_walks: float = 0.0) -> None: ...

    def finish(self) -> None: ...


NO_SWEEP = _NoSweep()
