"""Every experiment by name: the module whose `EXPERIMENT` it is, loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from research.experiments.base import Experiment

_HERE = "research.experiments"
MODULES: dict[str, str] = {
    # CODA
    "coda": f"{_HERE}.coda",
    "coda-pressed": f"{_HERE}.coda_pressed",
    "contention": f"{_HERE}.contention",
    "cores": f"{_HERE}.cores",
    # Hops
    "hops-64": f"{_HERE}.hops.gpus_64",
    "hops-512": f"{_HERE}.hops.gpus_512",
    "priorities": f"{_HERE}.hops.priorities",
    "intensity": f"{_HERE}.hops.intensity",
    "scalability": f"{_HERE}.hops.scalability",
    "estimator-live": f"{_HERE}.estimator_live",
    # Sia
    "sia": f"{_HERE}.sia",
    "sia-rounds": f"{_HERE}.sia_rounds",
    # Gavel, Shockwave
    "validity": f"{_HERE}.validity",
    # Kube-Knots
    "knots": f"{_HERE}.knots",
    "forecast": f"{_HERE}.forecast",
    # DqnGPU
    "dqn": f"{_HERE}.dqn",
    # ElasticFlow's ITP clusters, Philly
    "untold": f"{_HERE}.lengths.untold",
    # Of all of them
    "ablation": f"{_HERE}.ablation",
    "clairvoyant": f"{_HERE}.bounds",
    # openb
    "openb": f"{_HERE}.openb",
}
"""`"name": f"{_HERE}.module",` below its paper's line."""


def experiment_named(name: str) -> Experiment:
    """Return the experiment. Raises KeyError when there is none of that name."""
    experiment: Experiment = import_module(MODULES[name]).EXPERIMENT
    return experiment
