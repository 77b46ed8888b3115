"""A seeded cluster and queue some time later: what memory between plannings is measured on.

Of the queue a part has gone and others like them have come; of the nodes a part has as many GPUs and cores idle as another
node of the same size had; everybody who still waits has waited half a minute more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from research.workloads.queues import Drawn, Instance
from scheduler.copies import replace
from scheduler.estimator.estimator import Estimator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.random import Generator

    from scheduler.model import Job, Node

LATER_S = 30.0


class _Known(NamedTuple):
    """The drawn truth, to be added to."""

    speeds: dict[tuple[int, str], float]
    exponents: dict[int, float]
    sensitivities: dict[int, float]


def moved_on(instance: Instance, part: float, seed: int) -> Instance:
    """The same instance with so large a part of its jobs and of its nodes changed."""
    rng = np.random.default_rng([seed, len(instance.jobs), len(instance.nodes)])
    (layer,) = instance.estimator.layers
    if not isinstance(layer, Drawn):
        raise TypeError("the instance is not one of research.workloads.queues")
    jobs = [replace(each, wait_s=each.wait_s + LATER_S) for each in instance.jobs]
    known = _Known(dict(layer.speeds), dict(layer.exponents), dict(layer.sensitivities))
    types = dict.fromkeys(kind for _, kind in layer.speeds)
    gone = rng.choice(len(jobs), round(part * len(jobs)), replace=False)
    for place, like in zip(gone.tolist(), rng.permutation(gone).tolist(), strict=True):
        jobs[place] = _come(instance.jobs[like], len(jobs) + 1 + place, known, types, rng)
    nodes = list(instance.nodes)
    for place in rng.choice(len(nodes), round(part * len(nodes)), replace=False).tolist():
        nodes[place] = _changed(nodes[place], instance.nodes, rng)
    return Instance(tuple(nodes), tuple(jobs), Estimator((Drawn(known.speeds, known.exponents, known.sensitivities),)))


def _come(like: Job, number: int, known: _Known, types: Iterable[str], rng: Generator) -> Job:
    """Another job of that shape, of other length, wait and speeds."""
    for kind in types:
        known.speeds[number, kind] = known.speeds[like.id, kind] * float(np.exp(rng.normal(0.0, 0.1)))
    known.exponents[number], known.sensitivities[number] = known.exponents[like.id], known.sensitivities[like.id]
    return replace(
        like,
        id=number,
        wait_s=float(rng.exponential(7200)),
        age_s=float(3600 * np.exp(rng.normal())),
        submitted_s=float(number),
    )


def _changed(node: Node, nodes: tuple[Node, ...], rng: Generator) -> Node:
    alike = [each for each in nodes if (each.gpus_total, each.cores_total) == (node.gpus_total, node.cores_total)]
    other = alike[int(rng.integers(len(alike)))]
    return replace(node, idle_gpus=other.idle_gpus, idle_cores=other.idle_cores)
