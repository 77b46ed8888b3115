"""The parts of Hops' workload: the values that the paper (SoCC '24) does not publish, frozen here, and its Table 2.

Published, and so no constants here: the models, data sets, batch sizes and size classes (Table 2), the clusters, the arrival
process, 25 and 500 jobs, requirements within 1 to 16 GPUs with up to 8 a job (4.2), the iteration model and the two normals
of unstable data times (3.5), prediction above 95 % for stable jobs (Fig. 6).

`Choices` were fixed only on the rival `gavel-hops`, on its row of Table 4; at 64 GPUs the hour again, on its makespan in
Table 3. `./berth experiment hops-512 --calibrate` looks at the row of `sia-hops` as well; nothing nearer was found.
The rest is from public facts about the hardware. docs/evidence/hops-512-calibration.md shows how they were found.

The needs of Table 2's models are public knowledge. Where a row names two data sets, the first class and batch size are the first
data set's (ResNet on ImageNet: XL, 128; on CIFAR-10: S, 256). Hugging Face's trainer makes pattern 2 (Hops 3.5), torchvision's
loop pattern 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.copies import replace
from scheduler.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Choices:
    """Values of jobs and links that the calibration chooses; its search begins with the values here."""

    class_hour: float = 1.0
    """How many hours of one GTX 1080 Ti an hour of Table 2's classes is: the speed of the GPU that they were counted on."""
    even_hours: bool = False
    """GPU hours of a job within its class: uniform, else log-uniform."""
    between_gbs: float = 5.0
    """All-reduce bandwidth of one process between nodes, GB/s: 12.5 at 100 Gbit/s InfiniBand, staged through host memory less."""
    within_gbs: float = 12.0
    """The same within a node: PCIe 3.0 x16, less where processes share a switch or the way over the host's memory."""
    shortest_h: float = 1 / 60
    longest_h: float = 4.0
    """Nobody asks for a size with which the job would be over sooner or take longer, in class hours (16 GPUs apart)."""
    small_sizes: float = 0.0
    """How much rather small sizes are asked for: a size n is drawn with a weight of n to minus this."""
    least_s: float = 0.1
    most_xl: float = 64.0
    """GPU hours of the smallest job of class S and the largest of XL. Published: S 0 to 1, M 1 to 10, L 10 to 50, XL above 50."""
    poor_server: float = 0.8
    """Speed of the paper's RTX3090 "installed in a less performant server", the W780-G, over the others' (Fig. 1a, a picture)."""

    @property
    def class_hours(self) -> dict[str, tuple[float, float]]:
        """GPU hours by size class."""
        return {"S": (self.least_s, 1.0), "M": (1.0, 10.0), "L": (10.0, 50.0), "XL": (50.0, self.most_xl)}


FROZEN_512 = Choices(
    class_hour=1.05, even_hours=True, between_gbs=12.0, shortest_h=0.05, longest_h=5.0, small_sizes=0.6
)
FROZEN_64 = replace(FROZEN_512, class_hour=1.87)

TERAFLOPS = {
    "cnn": {"gtx1080ti": 6.0, "titanxp": 6.6, "rtx3090": 12.0},
    "transformer": {"gtx1080ti": 6.5, "titanxp": 7.2, "rtx3090": 17.0},
}
"""The speed of training on each GPU; their peaks are 11, 12 and 36. The newest gains less on convolutions."""

BYTES_PER_PARAMETER = 8.0
"""An all-reduce moves these: 4 bytes, there and back."""

UPDATE_PARAMETERS_PER_S = {"SGD": 10e9, "AdamW": 5e9}

BACKWARD_OVER_FORWARD = 2.0

CIFAR_COMPUTE = 0.25
"""Compute of an image of CIFAR-10 over one of ImageNet: resized to half the edge."""

DATA_SPREAD = 0.1
"""Standard deviation of a data time over its mean, of hits and of misses."""

WAIT_OF_DATA = 0.3
"""Time spent waiting for the slowest process, T_w, over the data time, where several work together."""

MODEL_ERROR = 0.04
"""Standard deviation of the logarithm of true over modelled throughput, a cell: nine in ten predictions within 7 %."""

PROFILE_NOISE, PROFILED_ITERATIONS = 0.01, 30
"""The profiler's error of a time module, relative; and its iterations, of 10 to 50."""

ENTITY_SPEED = {"w780": 1.0, "yk8100-8g": 1.0, "yk8100-10g": 1.05}
"""A server's factor, where no choice is (`Choices.poor_server`)."""

ENTITY_SPREAD = 0.03
"""Standard deviation of a node's own factor beside its server's."""

PROFILING_S = 60.0
"""From a job's arrival until its time modules are known: "most models can be completed within one minute"."""

RESTART_S = 60.0
SPEED_NOISE = 0.02
"""Coefficient of variation of an attempt's speed."""


@dataclass(frozen=True, slots=True)
class Data:
    """A data set: seconds a sample when it is in memory and when it is not, and how often it is not."""

    name: str
    hit_s: float
    miss_s: float = 0.0
    misses: float = 0.0
    compute: float = 1.0  # of a sample, over that of the model's usual one


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    category: str
    kind: str  # of computation: "cnn" | "transformer"
    parameters: float
    forward_gflop: float  # a sample
    optimiser: str
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Task:
    """A model on a data set: a job of the workload trains it."""

    model: Model
    data: Data
    size: str  # "S" | "M" | "L" | "XL"
    batch_size: int

    @property
    def name(self) -> str:
        return f"{self.model.name}-{self.data.name}"


IMAGENET = Data("imagenet", 0.1e-3, 3e-3, 0.2)
CIFAR10 = Data("cifar10", 0.05e-3, compute=CIFAR_COMPUTE)
FOOD101 = Data("food101", 0.1e-3, 3e-3, 0.1)
LANGUAGE = Data("common-language", 0.2e-3, 4e-3, 0.2)
TEXT = {name: Data(name, 0.02e-3) for name in ("imdb", "c3", "wikitext")}


def _vision(name: str, millions: float, gflop: float) -> Model:
    return Model(name, "cv", "cnn", millions * 1e6, gflop, "SGD", Pattern.OVERLAPPED)


def _hugging_face(name: str, category: str, millions: float, gflop: float) -> Model:
    return Model(name, category, "transformer", millions * 1e6, gflop, "AdamW", Pattern.SEQUENTIAL)


def _both(models: tuple[Model, ...], sizes: tuple[str, str], batches: tuple[int, int]) -> tuple[tuple[Task, ...], ...]:
    """A row with two data sets: for each the tasks of its models."""
    pairs = zip((IMAGENET, CIFAR10), sizes, batches, strict=True)
    return tuple(tuple(Task(model, data, size, batch) for model in models) for data, size, batch in pairs)


def _one(model: Model, data: Data, size: str, batch: int) -> tuple[tuple[Task, ...], ...]:
    return ((Task(model, data, size, batch),),)


RESNETS = (_vision("resnet18", 11.7, 1.8), _vision("resnet50", 25.6, 4.1))
VGGS = (_vision("vgg11", 132.9, 7.6), _vision("vgg13", 133.0, 11.3))

ROWS: tuple[tuple[tuple[Task, ...], ...], ...] = (
    _both(RESNETS, ("XL", "S"), (128, 256)),
    _both(VGGS, ("L", "S"), (32, 128)),
    _both((_vision("convnext-base", 88.6, 15.4),), ("L", "S"), (32, 64)),
    _both((_vision("densenet161", 28.7, 7.7),), ("L", "S"), (32, 64)),
    # Its few operations are bound by memory: three times what they count.
    _both((_vision("mobilenet-v2", 3.5, 0.9),), ("M", "S"), (64, 64)),
    _both((_vision("regnet", 20.6, 4.0),), ("L", "M"), (32, 32)),
    _one(_hugging_face("distilbert", "nlp", 66.0, 22.0), TEXT["imdb"], "L", 128),
    _one(_hugging_face("vit", "cv", 86.0, 17.6), FOOD101, "M", 48),
    _one(_hugging_face("macbert", "nlp", 102.0, 348.0), TEXT["c3"], "M", 8),
    _one(_hugging_face("wav2vec", "speech", 95.0, 75.0), LANGUAGE, "M", 16),
    _one(_hugging_face("gpt2-medium", "nlp", 355.0, 363.0), TEXT["wikitext"], "L", 8),
)
"""Table 2: row -> data set -> tasks."""

TASKS = tuple(task for row in ROWS for tasks in row for task in tasks)
