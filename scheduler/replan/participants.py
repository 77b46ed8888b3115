"""Running elastic jobs in a re-plan: which take part, and their value (algorithms.md sections 6 and 7; Hops 3.6).

    value of a configuration j of a running job = w * (G_j * f_j + G_present * S / period)
    f_present = 1,  f_j = max(0, (T - N*S) / (T + S)) for every other one
    w = max(own, the median over the waiting jobs of the window)     flatter G (ours): a lower quantile (`objective.Gain.floor`)

T: seconds since its first start, N: its restarts so far, S: seconds that a restart costs. A configuration is kept for
max(period, `KEPT_RESTARTS` * S) at least. *Not* selecting a running job costs w * G_present * S / period. This is written as
a gain of every way to select it: that is the same program up to a constant, and needs no more rows.
Where the specification is silent: participants stand before the window and do not use it up, because the window is for
waiting jobs. A job on a node that takes no new jobs runs on, and so does a job whose description is not valid.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scheduler.copies import replace
from scheduler.errors import InvalidJob
from scheduler.model import Configuration, Job, Ranked, Running, Share
from scheduler.placement.core_counts import per_gpu, share_of_speed, spread_rates
from scheduler.placement.running import Factors, Participant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.parameters import Parameters
    from scheduler.placement.ledger import Ledger
    from scheduler.placement.work import Work

KEPT_RESTARTS = 10
"""A configuration is kept for the time of ten restarts, so that at most a tenth of a job's time is lost by restarts."""


ASKED_FROM_S, ASKED_RESTARTS = 60.0, 2
"""Where every change pays for itself, a configuration may change after these seconds, and the time of two restarts."""

MOST_NODES = 16
"""The most GPU nodes that the located formulation can look at in a re-plan. On a larger cluster a re-plan solves by class if
running jobs may be preempted; else it looks at a part of the cluster: see `realise`."""

MOST_PINNED = 4
"""By class, the most running jobs of a node that may be changed: each doubles the number of ways to keep some of them."""


def restart_factor(elapsed_s: float, restarts: int, restart_s: float) -> float:
    """F = max(0, (T - N*S) / (T + S)): the part of its time that the job will have run after one more restart."""
    return max(0.0, (elapsed_s - restarts * restart_s) / (elapsed_s + restart_s))


def asked_after_s(restart_s: float, parameters: Parameters, *, pays: bool) -> float:
    """How long a configuration is kept before a re-plan asks whether another would pay; `pays`: see `Policy`."""
    if pays:
        return max(ASKED_FROM_S, ASKED_RESTARTS * restart_s)
    return kept_for_s(restart_s, parameters.replan_s)


def kept_for_s(restart_s: float, period_s: float) -> float:
    """How long a configuration is kept at least."""
    return max(period_s, KEPT_RESTARTS * restart_s)


def taking_part(
    running: Iterable[Running], ledger: Ledger, parameters: Parameters, now_s: float, *, pays: bool
) -> list[Running]:
    """The running jobs that may be changed now: elastic, movable, not stopping, and unchanged for long enough."""
    return [
        live
        for live in running
        if live.description is not None
        and live.elastic
        and live.gpus
        and not live.stopping
        and live.description.promise is None
        and now_s - live.started_s >= asked_after_s(restart_s_of(live, parameters), parameters, pays=pays)
        and all(piece.node in ledger.free for piece in live.pieces)
    ]


def first_s_of(live: Running) -> float:
    """When the job's first attempt started."""
    return live.started_s if live.first_started_s is None else live.first_started_s


def restart_s_of(live: Running, parameters: Parameters) -> float:
    """The seconds that a restart costs the running job: measured for it, or the knob `restart_cost_s`."""
    return parameters.restart_cost_s if live.restart_s is None else live.restart_s


def gather(
    running: Sequence[Running],
    work: Work,
    *,
    rank: Callable[[Sequence[Job]], Sequence[Ranked]],
    check: Callable[[Job], None],
) -> tuple[dict[int, Participant], dict[int, Participant]]:
    """The participants, and the jobs that the cluster's size leaves out. A job for which `check` raises InvalidJob runs on."""
    if not running:
        return {}, {}
    inside = running
    if is_large(work):
        inside = _pin(running) if by_class(work) else _draw(running, work)
    solved_for = {live.job for live in inside}
    everybody = _describe(running, work, rank, check)
    return (
        {number: each for number, each in everybody.items() if number in solved_for},
        {number: each for number, each in everybody.items() if number not in solved_for},
    )


def _describe(
    running: Sequence[Running],
    work: Work,
    rank: Callable[[Sequence[Job]], Sequence[Ranked]],
    check: Callable[[Job], None],
) -> dict[int, Participant]:
    """In the queue's order."""
    sound: dict[int, tuple[Running, Job, Configuration]] = {}
    for live in running:
        job = live.description
        try:
            if job is not None:
                check(job)
                sound[job.id] = (live, job, present_configuration(live, job, work.ledger, work.estimator))
        except InvalidJob:
            continue
    found: dict[int, Participant] = {}
    for ranked in rank([job for _, job, _ in sound.values()]):
        live, _, present = sound[ranked.job.id]
        restart_s = restart_s_of(live, work.parameters)
        factor = restart_factor(work.now_s - first_s_of(live), live.restarts, restart_s)
        cost = restart_s / work.parameters.replan_s
        found[ranked.job.id] = Participant(live, replace(ranked, rank=0), present, Factors(factor, factor), cost)
    return found


def is_large(work: Work) -> bool:
    return sum(free.node.gpus_total > 0 for free in work.ledger.free.values()) > MOST_NODES


def by_class(work: Work) -> bool:
    """Whether a re-plan of a large cluster is one solve by class, which cannot say that a running job must go on."""
    return work.parameters.preemption == "on" and work.parameters.placement == "ilp"


def _pin(running: Sequence[Running]) -> list[Running]:
    """A few of the running jobs of each node. One on several nodes must have the same number of cores a GPU on all of them."""
    counts = Counter[int]()
    found = []
    for live in running:
        nodes = [piece.node for piece in live.pieces]
        rate = len(live.pieces[0].cores) // len(live.pieces[0].gpus)
        even = len(nodes) == 1 or all(len(piece.cores) == rate * len(piece.gpus) for piece in live.pieces)
        if even and all(counts[node] < MOST_PINNED for node in nodes):
            counts.update(nodes)
            found.append(live)
    return found


def _draw(running: Sequence[Running], work: Work) -> list[Running]:
    """Some of the running jobs, drawn at random, on no more nodes than a re-plan can look at; in the snapshot's order."""
    nodes: set[int] = set()
    drawn: set[int] = set()
    for position in work.rng.permutation(len(running)):
        more = nodes | {piece.node for piece in running[position].pieces}
        if len(more) <= MOST_NODES:
            nodes = more
            drawn.add(int(position))
    return [live for position, live in enumerate(running) if position in drawn]


def present_configuration(live: Running, job: Job, ledger: Ledger, estimator: Estimator) -> Configuration:
    """The configuration on which the job runs, with the throughput that it would have for a waiting job."""
    nodes = [ledger.free[piece.node].node for piece in live.pieces]
    speed, source = min(per_gpu(estimator, job, node, live.gpus, len(nodes)) for node in nodes)
    if len(nodes) == 1:
        share = share_of_speed(live.cores, job.cores, live.gpus)
    else:
        rate = min(len(piece.cores) // len(piece.gpus) for piece in live.pieces)
        share = share_of_speed(rate, spread_rates(job)[0], 1)
    shares = tuple(Share(each.node, len(each.gpus), len(each.cores), each.memory_mib) for each in live.pieces)
    return Configuration(job.id, shares, speed * live.gpus * share, source)


def released(ledger: Ledger, running: Iterable[Running]) -> Ledger:
    """A copy of the ledger in which what these jobs hold is idle."""
    twin = ledger.copy()
    for live in running:
        twin.release(live.pieces, live.tenant)
    return twin


def joint(work: Work) -> Work:
    """The work as the solve sees it: the participants' resources are idle, for them and the waiting jobs together."""
    if not work.participants:
        return work
    return replace(work, ledger=released(work.ledger, (each.live for each in work.participants.values())))
