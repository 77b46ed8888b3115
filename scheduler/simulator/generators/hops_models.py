"""Table 2 of Hops: its models, data sets, batch sizes, optimisers and size classes; the needs of each are public knowledge.

Where a row names two data sets, the first class and batch size are the first data set's (ResNet on ImageNet: XL, 128;
on CIFAR-10: S, 256). Hugging Face's trainer makes pattern 2 (Hops 3.5), torchvision's loop pattern 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.pattern import Pattern
from scheduler.simulator.generators.hops_constants import CIFAR_COMPUTE


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
