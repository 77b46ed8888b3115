"""One job's turn in a pass over the queue: it takes the best that is left, or nothing.

*Greedy*: each job in turn takes the configuration with the highest throughput that fits; of equal ones the one that leaves the
fewest idle GPUs on its nodes, then the one on the fewest nodes, then on the lowest node ids. That is what Hops' ILP does for an
infinite lambda (Hops 3.6). It is also the plan when the solver has none, and it completes a plan that a gap or a time limit left
incomplete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduler.errors import InvalidJob
from scheduler.placement import configurations, cpu
from scheduler.placement.feasibility import on_instance, ties_allowed
from scheduler.placement.free_capacity import Offer, speed_class

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from scheduler.model import Configuration, Job, Ranked
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.located import Candidate
    from scheduler.placement.outcome import DraftPlan
    from scheduler.placement.work import Work


def best_fit(configurations: Sequence[Configuration], ledger: Ledger, tenant: int) -> Configuration | None:
    """The configuration the rule above picks among those that fit the ledger as it is; None when none fits."""
    feasible = (each for each in configurations if ledger.shortfall(each, tenant) is None)
    return min(feasible, key=lambda each: _preference(each, ledger), default=None)


def _preference(configuration: Configuration, ledger: Ledger) -> tuple[float, int, int, tuple[int, ...]]:
    left = sum(len(ledger.free[share.node].gpus) - share.gpus for share in configuration.shares)
    nodes = tuple(share.node for share in configuration.shares)
    return (-configuration.throughput, left, len(nodes), nodes)


def greedy_columns(candidates: Sequence[Candidate], ledger: Ledger, without: Collection[int]) -> list[int]:
    """The candidates, by position, that a greedy pass in queue order takes. It takes from the ledger, so pass a copy.

    The rule is the one above, with the objective value in place of the throughput: a borrowed place counts for less.
    """
    per_job: dict[int, list[int]] = {}
    for column, candidate in enumerate(candidates):
        if column in without:
            continue
        per_job.setdefault(candidate.ranked.job.id, []).append(column)
    taken: list[int] = []
    for columns in per_job.values():
        own = [(column, candidates[column]) for column in columns]
        tenant = own[0][1].ranked.job.tenant
        fits = [pair for pair in own if ledger.shortfall(pair[1].configuration, tenant) is None]
        if fits:
            column, best = min(
                fits, key=lambda pair: (-pair[1].value, _preference(pair[1].configuration, ledger)[1:], pair[0])
            )
            ledger.take(best.configuration, tenant)
            taken.append(column)
    return taken


class Turns(NamedTuple):
    """The ids of the jobs whose turn came, and of those for which time ended before."""

    came: frozenset[int]
    out_of_time: frozenset[int]


def shape(job: Job) -> tuple[object, ...]:
    """The needs that decide where a job fits: jobs of one shape fit the same places."""
    size = (job.requirement, job.cores, job.least_cores, job.memory_mib)
    return (*size, job.gpu_types, job.bound, job.tenant, job.model_label)


def take_turn(ranked: Ranked, work: Work, draft: DraftPlan) -> bool:
    """Place the job on what the ledger has left, if it fits, and record it. InvalidJob is recorded, not raised."""
    job = ranked.job
    try:
        offers = tuple(filter(None, [cpu.choose(job, work.ledger)])) if job.is_cpu else _gpu_offers(job, work)
        best = best_fit(offers, work.ledger, job.tenant)
        if best is None and (small := on_instance(job, work.ledger)) is not None:
            offers = _gpu_offers(small, work)
            best = best_fit(offers, work.ledger, job.tenant)
    except InvalidJob as error:
        draft.invalid[job.id] = error
        return True  # it does not block anyone
    draft.had_turns.add(job.id)
    if best is None:
        return False
    draft.chosen[job.id] = draft.objective.chosen(best, work.ledger.take(best, job.tenant), offers)
    return True


def place_cpu_jobs(queue: Iterable[Ranked], work: Work, draft: DraftPlan) -> Turns:
    """Step 8 of section 7: place CPU jobs that fit, in queue order. They have no window, because they need no GPUs."""
    failed: set[tuple[object, ...]] = set()
    waiting, ends_s = list(queue), work.ends_s(cpu.LIMIT_SHARE)
    for position, ranked in enumerate(waiting):
        if work.clock() >= ends_s:
            return turns(waiting, position)
        if cpu.shape(ranked.job) not in failed and not take_turn(ranked, work, draft):
            failed.add(cpu.shape(ranked.job))
    return turns(waiting, len(waiting))


def turns(queue: Sequence[Ranked], came: int) -> Turns:
    """The turns of a queue of which the first `came` jobs had theirs."""
    return Turns(frozenset(each.job.id for each in queue[:came]), frozenset(late.job.id for late in queue[came:]))


def most_on_a_node(ledger: Ledger) -> dict[str | None, int]:
    """By type, the most idle GPUs with a core each that one node has."""
    most: dict[str | None, int] = {}
    for offer in ledger.equal_nodes.offers():
        name = offer.node.gpu_type
        most[name] = max(most.get(name, 0), min(offer.gpus, offer.cores))
    return most


def may_fit(job: Job, most: Mapping[str | None, int], work: Work) -> bool:
    """Whether the job could fit at all. For most jobs of a long queue one comparison is enough to say no."""
    return any(job.min_gpus <= gpus and job.may_use(name) for name, gpus in most.items()) or _may_spread(job, work)


def _gpu_offers(job: Job, work: Work) -> tuple[Configuration, ...]:
    """The configurations to choose from. Where nodes of a group make no difference, only the first of them is looked at."""
    ledger, sigma = work.ledger, work.parameters.sigma
    if not any(job.min_gpus <= idle and job.may_use(name) for name, idle in ledger.equal_nodes.idle_gpus.items()):
        return ()
    if job.checkpoint_domain is not None or work.estimator.is_known(job) or _may_spread(job, work):
        return configurations.generate(job, ledger, work.estimator, sigma=sigma)
    offers = [
        offer
        for offer in ledger.equal_nodes.offers()
        if offer.gpus >= job.min_gpus and job.may_use(offer.node.gpu_type) and ties_allowed(job, offer.node)
    ]
    if len(job.requirement) == 1:
        offers = _best_fit_nodes(job, offers)
    return configurations.generate_on(job, offers, ledger, work.estimator, sigma=sigma)


def _best_fit_nodes(job: Job, offers: Sequence[Offer]) -> list[Offer]:
    """For a job of one size: of equally fast nodes with all the cores that it wants, the one with the fewest idle GPUs.

    The greedy rule prefers it to the others, and nodes with fewer cores are slower. If no node has the cores, all nodes.
    """
    wanted = job.cores * job.min_gpus
    by_speed: dict[tuple[str | None, int], list[Offer]] = {}
    for offer in offers:
        by_speed.setdefault((offer.node.gpu_type, speed_class(offer.node)), []).append(offer)
    found: list[Offer] = []
    for own in by_speed.values():
        full = [
            each
            for each in own
            if each.cores >= wanted and each.memory_mib >= job.memory_mib and each.admits(job.tenant)
        ]
        found += [min(full, key=lambda each: (each.gpus, each.node.id))] if full else own
    return found


def _may_spread(job: Job, work: Work) -> bool:
    """Whether the job may have configurations over several nodes, for which every node matters."""
    if any(job.min_gpus > most for name, most in work.ledger.largest.items() if job.may_use(name)):
        return True
    return work.estimator.sensitivity(job) <= work.parameters.sigma
