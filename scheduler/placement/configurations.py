"""Configurations: where a job could run now, and how fast (Hops 3.6; algorithms.md section 5).

For each allowed GPU type, each node t of it with S_t idle GPUs and each requirement R_k:
- aggregated {t: R_k} when R_k <= S_t (deviation: the paper's text has <, which would exclude full nodes);
- distributed, for low-sensitivity jobs (rho <= sigma) or when R_1 exceeds the largest node of the type: nodes filled
one
  after another in id order from t on, each as much as possible; only those with the fewest nodes are kept.
A job wants c cores per GPU and gets min(c*g, what is idle there); where its part of the node's cores, floor(C*g/G)
with C idle cores and G idle GPUs ("usable" read as idle now), is smaller, a second configuration with that part is
generated, throughput falling linearly with the missing cores. At least one core per GPU; memory is a hard need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.estimator.cores import DISTRIBUTED_CORES
from scheduler.model import Configuration, Share
from scheduler.placement.feasibility import Level, aggregated_gpus, distributed_gpus, idle_offers, usable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scheduler.estimator.layers import Estimator
    from scheduler.model import Job
    from scheduler.placement.feasibility import Offer
    from scheduler.placement.ledger import Ledger

SIGMA = 1.4
"""Above this placement sensitivity a job is not spread over nodes."""


def generate(job: Job, ledger: Ledger, estimator: Estimator, *, sigma: float = SIGMA) -> tuple[Configuration, ...]:
    """All configurations of a GPU job on what is idle in the ledger, by type, size and node id; () when none."""
    return generate_on(job, idle_offers(ledger), ledger, estimator, sigma=sigma)


def generate_on(
    job: Job, offers: Sequence[Offer], ledger: Ledger, estimator: Estimator, *, sigma: float = SIGMA
) -> tuple[Configuration, ...]:
    """As `generate`, on offers already read from the ledger: a planning reads them once for all its jobs."""
    allowance = ledger.allowances.get(job.tenant)
    most_cores = allowance.cores if allowance is not None else None
    most_gpus = allowance.gpus if allowance is not None else None
    sizes = [size for size in job.requirement if most_gpus is None or size <= most_gpus]
    by_type: dict[str, list[Offer]] = {}
    for offer in offers:
        if offer.gpus and usable(job, offer, Level.TRUST):
            by_type.setdefault(offer.node.gpu_type or "", []).append(offer)
    low_sensitivity = estimator.sensitivity(job) <= sigma
    found: list[Configuration] = []
    for gpu_type in sorted(by_type):
        spread = low_sensitivity or job.min_gpus > ledger.largest.get(gpu_type, 0)
        for size in sizes:
            found += _aggregated(job, by_type[gpu_type], size, most_cores, estimator)
            if spread:
                found += _distributed(job, by_type[gpu_type], size, most_cores, estimator)
    return tuple(found)


def _aggregated(
    job: Job, offers: Sequence[Offer], size: int, most_cores: int | None, estimator: Estimator
) -> Iterator[Configuration]:
    for offer in offers:
        if aggregated_gpus(job, offer) < size:
            continue
        per_gpu = estimator.per_gpu(job, offer.node, size, 1)
        for cores in _core_counts(job.cores, size, offer, most_cores):
            speed = per_gpu.per_gpu * size * min(1.0, cores / (job.cores * size))
            yield Configuration(job.id, (Share(offer.node.id, size, cores, job.memory_mib),), speed, per_gpu.source)


def _core_counts(per_gpu: int, gpus: int, offer: Offer, most: int | None) -> tuple[int, ...]:
    """The wanted cores as far as they are idle and within `most`; then the smaller part that leaves others theirs."""
    wanted = min(per_gpu * gpus, offer.cores, offer.cores if most is None else most)
    if wanted < gpus:
        return ()
    part = max(gpus, offer.cores * gpus // offer.gpus)
    return (wanted, part) if part < wanted else (wanted,)


def _distributed(
    job: Job, offers: Sequence[Offer], size: int, most_cores: int | None, estimator: Estimator
) -> list[Configuration]:
    fills = [fill for t in range(len(offers)) if (fill := _filled_from(job, offers[t:], size))]
    fewest = min((len(fill) for fill in fills), default=0)
    distinct = {tuple(offer.node.id for offer, _ in fill): fill for fill in fills if len(fill) == fewest}
    found: list[Configuration] = []
    for fill in distinct.values():
        found += _spread(job, fill, size, most_cores, estimator)
    return found


def _filled_from(job: Job, offers: Sequence[Offer], size: int) -> list[tuple[Offer, int]]:
    """Nodes filled in order until `size` GPUs are reached over two or more of them; [] when they are not."""
    fill: list[tuple[Offer, int]] = []
    missing = size
    for offer in offers:
        gpus = min(missing, distributed_gpus(job, offer, size))
        if gpus:
            fill.append((offer, gpus))
            missing -= gpus
        if not missing:
            return fill if len(fill) > 1 else []
    return []


def _spread(
    job: Job, fill: Sequence[tuple[Offer, int]], size: int, most_cores: int | None, estimator: Estimator
) -> Iterator[Configuration]:
    per_gpu = min(job.cores, DISTRIBUTED_CORES)
    speed = estimator.throughput(job, [offer.node for offer, _ in fill], size)
    options = [_core_counts(per_gpu, gpus, offer, None) for offer, gpus in fill]
    for cores in dict.fromkeys((tuple(each[0] for each in options), tuple(each[-1] for each in options))):
        if most_cores is not None and sum(cores) > most_cores:
            continue
        # The whole job waits for its slowest part, so the part shortest of cores sets the pace.
        pace = min(1.0, *(have / (per_gpu * gpus) for have, (_, gpus) in zip(cores, fill, strict=True)))
        shares = tuple(
            Share(offer.node.id, gpus, have, -(-job.memory_mib * gpus // size))
            for have, (offer, gpus) in zip(cores, fill, strict=True)
        )
        yield Configuration(job.id, shares, speed.value * pace, speed.source)
