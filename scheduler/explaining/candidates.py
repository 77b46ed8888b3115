"""The candidate configurations of a job as its page shows them (algorithms.md section 7), in *classes*.

Located candidates that differ only in their nodes are one class. The aggregated formulation makes classes from the start.
The *binding* constraint of a rejected class is the first resource that fails when the final plan without the job gets the class,
on the best fitting node: the one where the latest of trust, GPUs, cores, memory and quotas fails, and by the least.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.estimator.estimator import Estimator
from scheduler.explaining.kinds import Kind, kind_of
from scheduler.model import Chosen, Configuration, Job, Piece, Placement, Share
from scheduler.placement.aggregated.classes import Pool
from scheduler.placement.configurations import generate
from scheduler.placement.free_capacity import Shortfall
from scheduler.placement.ledger import Ledger
from scheduler.placement.outcome import Classed, Outcome

LEVELS = ("trust", "gpus", "cores", "memory_mib", "gpu_quota", "core_quota")


@dataclass(frozen=True, slots=True)
class Alike:
    """A class of candidates. `located`: its configurations; () if it stands for any node of `pools`, listed in `nodes_of`.

    Spread without `located`: over pieces of one GPU with `cores // gpus` cores each, on any nodes of the pools.
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
    pools: tuple[Pool, ...] = ()
    nodes_of: Mapping[Pool, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first shortfall when a class is added to the final plan (None = it fits), and where it came nearest."""

    short: Shortfall | None
    nearest: Configuration | None


class Candidates:
    """The classes of candidates of a planning's jobs, compared with the idle resources before and after the planning."""

    def __init__(self, start: Ledger, final: Ledger, outcome: Outcome, estimator: Estimator) -> None:
        self._start, self._final, self._estimator = start, final, estimator
        self._draft, self._objective = outcome.draft, outcome.draft.objective
        self._chosen, self._kept_ids = outcome.draft.chosen, outcome.obstacles.kept.keys()
        self._withholds = final.withholds
        self._kinds: dict[tuple[bool, int, Pool], Kind] = {}

    def of(self, job: Job) -> list[Alike]:
        """The job's classes, best value first; [] when no candidate was made."""
        classed = self._draft.classed.get(job.id)
        if not classed:
            return sorted(self._of_located(job), key=_by_value)
        return sorted((self._of_class(classed, k) for k in range(len(classed.group.candidates))), key=_by_value)

    def best(self, job: Job) -> tuple[Alike | None, int]:
        """The first of `of`, and how many configurations, or classes, there are. Cheap: the reason of every waiting job asks."""
        classed = self._draft.classed.get(job.id)
        if classed is None:
            found = self.of(job)
            return (found[0] if found else None), sum(len(each.located) for each in found)
        own, values = classed.group.candidates, classed.group.values
        most = max(values)
        best = min((k for k, value in enumerate(values) if value == most), key=lambda k: (own[k].gpus, own[k].cores, k))
        return self._of_class(classed, best), len(own)

    def factor(self, job: Job, configuration: Configuration) -> float:
        """0.95 when borrowed, else 1."""
        factors = self._objective.factors
        return 1.0 if factors is None or job.is_cpu else factors(job, configuration)

    def gpu_type(self, configuration: Configuration) -> str:
        return self._start.free[configuration.shares[0].node].node.gpu_type or ""

    def _of_located(self, job: Job) -> Iterator[Alike]:
        own = self._draft.candidates.get(job.id, ()) or self._at_its_turn(job) or self._kept(job)
        weight = self._objective.weight(job.id)
        alike: dict[tuple[str, int, int, bool, float, str, float, float], list[Configuration]] = {}
        least = self._objective.least_of(job.id, own) if own else 1.0
        for each in own:
            key = (
                self.gpu_type(each),
                each.gpus,
                each.cores,
                len(each.shares) > 1,
                each.throughput,
                each.source,
                self._objective.gain.of(each.throughput / least),
                self.factor(job, each),
            )
            alike.setdefault(key, []).append(each)
        for key, configurations in alike.items():
            yield Alike(*key, value=weight * key[-2] * key[-1], located=tuple(configurations))

    def _at_its_turn(self, job: Job) -> tuple[Configuration, ...]:
        """For a job that took the best rest: all configurations that it could have had when the planning began."""
        if job.id not in self._draft.had_turns:
            return ()
        chosen = self._chosen.get(job.id)
        if job.is_cpu:
            return () if chosen is None else (chosen.configuration,)
        try:
            return generate(job, self._start, self._estimator)
        except InvalidJob:
            return ()

    def _kept(self, job: Job) -> tuple[Configuration, ...]:
        """For a job that has no candidates because idle resources are kept for others: its configurations there."""
        if job.is_cpu or job.id in self._chosen or not (job.id in self._kept_ids or self._withholds):
            return ()
        try:
            return generate(job, self._final.with_kept(), self._estimator)
        except InvalidJob:
            return ()  # a speed is unsound: the planning says so when it is the job's turn

    def _of_class(self, classed: Classed, k: int) -> Alike:
        candidate, group = classed.group.candidates[k], classed.group
        row = classed.rows[candidate.row]
        pools = row.pools
        return Alike(
            pools[0].gpu_type,
            candidate.gpus,
            candidate.cores,
            candidate.spread,
            candidate.throughput,
            candidate.source,
            self._objective.gain.of(candidate.throughput / group.least),
            candidate.factor,
            float(group.values[k]),
            pools=pools,
            nodes_of=classed.nodes_of,
        )

    def ways(self, job: Job, alike: Alike) -> tuple[int | None, list[int]]:
        """How many nodes (or sets of nodes) the class stood for when the planning began, and these nodes. None and [] where
        nodes are not distinguished.
        """
        if alike.located:
            nodes = dict.fromkeys(share.node for each in alike.located for share in each.shares)
            return len(alike.located), list(nodes)
        if alike.spread:
            return None, []
        kinds = self._of_pools(self._start, alike)
        found = sorted({node for kind in kinds for node in kind.fitting(job, alike.gpus, alike.cores)})
        return len(found), found

    def _of_pools(self, ledger: Ledger, alike: Alike) -> list[Kind]:
        found: list[Kind] = []
        for pool in alike.pools:
            key = (ledger is self._start, id(alike.nodes_of), pool)  # the maps live as long as the draft plan does
            if key not in self._kinds:
                self._kinds[key] = kind_of(ledger, alike.nodes_of[pool], limited=pool.limited)
            found.append(self._kinds[key])
        return found

    def verdict(self, job: Job, alike: Alike, chosen: Chosen | None) -> Verdict:
        """The shortfall when the class is added to the final plan, without the job's own placement there."""
        own = () if chosen is None else chosen.placement.pieces
        final = self._final if chosen is None else _without(self._final, chosen.placement, job.tenant)
        if alike.located:
            found = (Verdict(final.shortfall(each, job.tenant), each) for each in alike.located)
            return max(found, key=lambda each: _nearness(each.short))
        kinds = self._of_pools(self._final, alike)
        verdict = self._units(job, alike, kinds, own) if alike.spread else self._piece(job, alike, kinds, own)
        if verdict.short is None:
            return Verdict(final.quota_shortfall(job.tenant, alike.gpus, alike.cores), verdict.nearest)
        return verdict

    def _piece(self, job: Job, alike: Alike, kinds: Sequence[Kind], own: Sequence[Piece]) -> Verdict:
        found = [each for kind in kinds if (each := kind.nearest(job, alike.gpus, alike.cores, own))]
        if not found:
            return Verdict(Shortfall("gpus", None, alike.gpus, 0), None)
        node, short = max(found, key=lambda each: (each[1] is None, _nearness(each[1])))
        share = Share(node, alike.gpus, alike.cores, job.memory_mib)
        return Verdict(short, Configuration(job.id, (share,), alike.throughput, alike.source))

    def _units(self, job: Job, alike: Alike, kinds: Sequence[Kind], own: Sequence[Piece]) -> Verdict:
        """For a spread class whose nodes are not chosen: whether enough GPUs are left in all, then GPUs with their cores."""
        rate = max(1, alike.cores // alike.gpus)
        left = [kind.units(job, rate, own) for kind in kinds]
        gpus, units = sum(each[0] for each in left), sum(each[1] for each in left)
        if gpus < alike.gpus:
            return Verdict(Shortfall("gpus", None, alike.gpus, gpus), None)
        return Verdict(None if units >= alike.gpus else Shortfall("cores", None, alike.cores, units * rate), None)


def _by_value(alike: Alike) -> tuple[float, int, int, str, bool]:
    return (-alike.value, alike.gpus, alike.cores, alike.gpu_type, alike.spread)


def _nearness(short: Shortfall | None) -> tuple[int, float]:
    return (len(LEVELS), 0) if short is None else (LEVELS.index(short.resource), short.available - short.needed)


def _without(final: Ledger, own: Placement, tenant: int) -> Ledger:
    """The final plan without the job's own placement."""
    twin = Ledger((), (), ())
    twin.free, twin.allowances = dict(final.free), dict(final.allowances)
    twin.free |= {piece.node: replace(final.free[piece.node]) for piece in own.pieces}
    twin.limited, twin.core_limits = final.limited, dict(final.core_limits)
    for piece in own.pieces if own.job in final.limited else ():
        if piece.node in twin.core_limits:
            twin.core_limits[piece.node] += len(piece.cores)
    if tenant in final.allowances:
        twin.allowances[tenant] = replace(final.allowances[tenant])
    twin.release(own.pieces, tenant)
    return twin
