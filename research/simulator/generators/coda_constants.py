"""What CODA's paper tells of its cluster and jobs, and what it does not (`Free`): see `coda`."""

from __future__ import annotations

from dataclasses import dataclass

CPU_JOBS_A_DAY, GPU_JOBS_A_DAY = 2_500.0, 2_500.0 / 3
GPU_TYPE = "gtx1080ti"
CORES, MEMORY_MIB, BANDWIDTH_GBS = 28, 256 * 1024, 120.0
NODES = ((60, 4), (20, 8))
"""How many nodes have how many GPUs."""

TENANTS, TRAINING_TENANTS = 20, 14
LAB, LAB_SHARE = 1, 0.5

SIZES, SIZE_SHARES = (1, 2, 4), (0.86, 0.12, 0.02)
FEW, MANY = 0.761, 0.153
"""Parts of the GPU jobs that ask 1 or 2 cores a GPU, and over 10."""

FEW_CORES, FEW_SHARES = (1, 2), (0.2, 0.8)
MANY_CORES, MANY_SHARES = (12, 14, 16, 24), (0.7, 0.2, 0.08, 0.02)
FEW_OF_LARGER = 0.85
"""Jobs of several GPUs that ask 1 or 2 cores for each; the others ask 3 up to what a node has for each."""

OVER_1H, OVER_2H = 0.685, 0.396
SHORTEST_S, LONGEST_S = 120.0, 2 * 86_400.0

CPU_CORES, CPU_SHARES = (1, 2, 4, 8), (0.4, 0.3, 0.2, 0.1)
CPU_SHORTEST_S, CPU_LONGEST_S = 10.0, 86_400.0
HEAVY_TRAFFIC, HEAVY_GBS = 0.005, 150.0
PEAK_HOUR = 15.0


@dataclass(frozen=True, slots=True)
class Model:
    """A model of Table I: its category, cores a GPU at its best, what traffic can take of its speed, and its hints."""

    name: str
    category: str
    share: float
    optimum: int
    sensitivity: float
    parameters: int = 25_000_000


MODELS = (
    Model("alexnet", "cv", 0.05, 4, 0.3),
    Model("vgg16", "cv", 0.05, 3, 0.0, parameters=138_000_000),
    Model("inceptionv3", "cv", 0.05, 3, 0.0),
    Model("resnet50", "cv", 0.05, 3, 0.0),
    Model("bi-att-flow", "nlp", 0.2, 6, 0.5),
    Model("transformer", "nlp", 0.2, 2, 0.5),
    Model("wavenet", "speech", 0.2, 5, 0.2),
    Model("deepspeech", "speech", 0.2, 4, 0.4),
)
"""Optima: the start of section 8 moved by what the steps of Table II mean; Transformer's is said in III-B. Sensitivity:
IV-C.2 (all NLP models lose at least half, of the CV models Alexnet alone loses, Deepspeech more than Wavenet)."""


@dataclass(frozen=True, slots=True)
class Free:
    """What the paper does not tell, set on FIFO alone and frozen."""

    tail: float = 0.44  # exponent of the Pareto tail of run times beyond two hours, cut by a time limit of `LONGEST_S`
    batched: float = 0.2  # part of the submissions of GPU jobs that are batches
    batch: float = 8.0  # mean jobs of a batch, geometric
    cpu_median_h: float = 0.78  # run time of CPU jobs, lognormal
    cpu_sigma: float = 1.5
    swing: float = 0.8  # of the CPU jobs' arrivals over the day, in parts of their mean


FREE = Free()
