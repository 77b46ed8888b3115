"""Configurations: where a job could run now, and how fast (Hops 3.6; algorithms.md section 5).

For each allowed GPU type, each node t of it with S_t idle GPUs and each requirement R_k:
- aggregated {t: R_k} when R_k <= S_t (deviation: the paper's text has <, which would exclude full nodes);
- distributed, for low-sensitivity jobs (rho <= sigma) or when R_1 exceeds the largest node of the type: nodes filled
  one after another from t on, by place, then id, each as much as possible; only those with the fewest nodes are kept, and of
  these the nearest: those that share most levels of the network (`Node.place`).
At least one core per GPU; which core counts are offered beside the wanted one stands in `core_counts`. Memory
is a hard need. A resumed attempt only goes where its checkpoint can be read.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from scheduler.model import Configuration, Job, Share
from scheduler.parameters.knobs import SIGMA
from scheduler.placement.core_counts import CoreCounts, per_gpu, share_of_speed, spread_rates
from scheduler.placement.feasibility import Level, aggregated_gpus, distributed_gpus, usable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.estimator.estimator import Estimator
    from scheduler.model import Node
    from scheduler.placement.free_capacity import Offer
    from scheduler.placement.ledger import Ledger


def generate(job: Job, ledger: Ledger, estimator: Estimator, *, sigma: float = SIGMA) -> tuple[Configuration, ...]:
    """All configurations of a GPU job on what is idle in the ledger, by type, size and node id; () when none."""
    return generate_on(job, ledger.idle_offers(), ledger, estimator, sigma=sigma)


def generate_on(
    job: Job,
    offers: Sequence[Offer],
    ledger: Ledger,
    estimator: Estimator,
    *,
    sigma: float = SIGMA,
    core_counts: CoreCounts | None = None,
) -> tuple[Configuration, ...]:
    """As `generate`, on offers already read from the ledger, with their core choices: a planning reads them once for all."""
    allowance = ledger.allowances.get(job.tenant)
    most_cores = allowance.cores if allowance is not None else None
    most_gpus = allowance.whole_gpus if allowance is not None else None
    sizes = [size for size in job.requirement if most_gpus is None or size <= most_gpus]
    core_counts = core_counts or CoreCounts((offer.node.gpu_type or "", offer.gpus, offer.cores) for offer in offers)
    by_type: dict[str, list[Offer]] = {}
    for offer in offers:
        if offer.gpus and usable(job, offer, Level.TRUST):
            by_type.setdefault(offer.node.gpu_type or "", []).append(offer)
    low_sensitivity = estimator.sensitivity(job) <= sigma
    found: list[Configuration] = []
    for gpu_type in sorted(by_type):
        spread = low_sensitivity or job.min_gpus > ledger.largest.get(gpu_type, 0)
        by_place = sorted(by_type[gpu_type], key=lambda offer: (offer.node.place, offer.node.id)) if spread else []
        for size in sizes:
            counts = core_counts.of(gpu_type, size, job, most_cores)
            found += _aggregated(job, by_type[gpu_type], size, counts, estimator)
            if spread:
                found += _distributed(job, by_place, size, most_cores, estimator)
    return tuple(found)


def _aggregated(
    job: Job, offers: Sequence[Offer], size: int, counts: Sequence[int], estimator: Estimator
) -> Iterator[Configuration]:
    for offer in offers:
        if aggregated_gpus(job, offer) < size:
            continue
        speed, source = per_gpu(estimator, job, offer.node, size, 1)
        for cores in counts:
            if cores <= offer.cores:
                throughput = speed * size * share_of_speed(cores, job.cores, size)
                yield Configuration(job.id, (Share(offer.node.id, size, cores, job.memory_mib),), throughput, source)


def _distributed(
    job: Job, offers: Sequence[Offer], size: int, most_cores: int | None, estimator: Estimator
) -> list[Configuration]:
    """Every part gets the same whole number of cores a GPU: the job waits for its slowest part."""
    found: list[Configuration] = []
    for rate in spread_rates(job):
        if most_cores is not None and rate * size > most_cores:
            continue
        found += [_spread(job, fill, size, rate, estimator) for fill in _fills(job, offers, size, rate)]
    return found


def _fills(job: Job, offers: Sequence[Offer], size: int, rate: int) -> Iterator[list[tuple[Offer, int]]]:
    """From each node on, nodes filled in order until `size` GPUs are reached over two or more: the fewest nodes, the nearest."""
    most = [(offer, min(distributed_gpus(job, offer, size), offer.cores // rate)) for offer in offers]
    most = [part for part in most if part[1]]
    spans: list[tuple[int, int]] = []
    end = reached = 0
    for begin in range(len(most)):
        while reached < size and end < len(most):
            reached += most[end][1]
            end += 1
        if reached < size:
            break
        if end - begin > 1:
            spans.append((begin, end))
        reached -= most[begin][1]
    far = [(end - begin, -levels_shared(most[begin][0].node, most[end - 1][0].node)) for begin, end in spans]
    nearest = min(far, default=(0, 0))
    for (begin, end), own in zip(spans, far, strict=True):
        if own == nearest:
            full = most[begin : end - 1]
            yield [*full, (most[end - 1][0], size - sum(gpus for _, gpus in full))]


def levels_shared(one: Node, other: Node) -> int:
    """How many levels of the network two nodes have in common, from the widest on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one.place, other.place, strict=False)))


def _spread(job: Job, fill: Sequence[tuple[Offer, int]], size: int, rate: int, estimator: Estimator) -> Configuration:
    speed, source = min(per_gpu(estimator, job, offer.node, size, len(fill)) for offer, _ in fill)
    shares = tuple(Share(offer.node.id, gpus, rate * gpus, -(-job.memory_mib * gpus // size)) for offer, gpus in fill)
    throughput = speed * size * share_of_speed(rate, spread_rates(job)[0], 1)
    return Configuration(job.id, shares, throughput, source)
