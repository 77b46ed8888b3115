"""A small cluster and a training of two epochs, whose gradients are noisy only in the second."""

import numpy as np

from research.simulator.sia_rounds.job import RoundJob
from research.simulator.sia_rounds.speeds import Places
from research.simulator.sia_rounds.training import EpochTraining
from scheduler.model import Node
from scheduler.simulator.world.profiled import Application, Curve, Speeds, Training

NODES = [
    Node(1, "t4-1", "t4", 4, cores_total=8),
    Node(2, "t4-2", "t4", 4, cores_total=8),
    Node(3, "a100-1", "a100", 8, cores_total=16),
]
PLACES = Places(NODES)


def speeds(node_gpus, nodes, factor):
    """A step takes 0.1 s and 0.01 s a sample over `factor`, of which half a second over nodes is synchronising."""
    found = {}
    for gpus in [1, 2, 4, 8][: node_gpus.bit_length()]:
        found[(gpus,)] = curve(factor, 0.0 if gpus == 1 else 0.01)
    for count in range(2, nodes + 1):
        found[(node_gpus,) * count] = curve(factor, 0.5)
    counts = {(len(shape), sum(shape)): each for shape, each in found.items()}
    return Speeds(found, counts)


def curve(factor, sync):
    shares = (8.0, 64.0)
    return Curve(shares, tuple((0.1 + 0.01 * share) / factor + sync for share in shares), (sync, sync))


def training(name="cifar10", ends=(1000.0, 2000.0), restart_s=50.0, slowdown=1.0):
    application = Application(
        name,
        Training((8.0, 64.0, 512.0), (2000.0, 400.0, 200.0), ends[-1]),
        {"t4": speeds(4, 2, 1.0), "a100": speeds(8, 1, 4.0)},
        slowdown,
    )
    squares = np.ones((3, len(ends)))
    variances = np.ones((3, len(ends))) * np.linspace(0.1, 50.0, len(ends))
    return EpochTraining(application, restart_s, ends, squares, variances)


def job(number=1, submitted_s=0.0, **given):
    return RoundJob(number, f"job-{number}", training(**given), submitted_s)
