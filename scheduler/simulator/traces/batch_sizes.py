"""How the batch size of Shockwave's dynamic jobs grows (NSDI '23, section 2.2), and how long they then run.

`gns` (gradient noise scale): the batch size doubles at given epochs, up to the model's largest. `accordion`: outside the
critical regimes the job uses the model's largest batch size, inside them its own. A larger batch size keeps the number of
epochs, so there are fewer steps, each slower. The epochs are those of Shockwave's public workloads, by model, first
batch size and scale factor; a job type that is not listed keeps its batch size.

The simulator that published the results notices a change late. At the end of a round it compares the epoch that the job has begun
(rounded up) with the schedule. At the end of the job's next round it changes the batch size, and the epoch that has begun counts
as done. `run_time` does the same, for a job that runs without a break.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

SAMPLES = {"ResNet-18": 50_000, "ResNet-50": 100_000, "Transformer": 10_000, "LM": 59_675, "Recommendation": 117_907}
"""Samples of one epoch."""

LARGEST = {"ResNet-18": 256, "ResNet-50": 128, "Transformer": 128, "LM": 80, "Recommendation": 8192}

DOUBLES: dict[tuple[str, int, int], tuple[int, ...]] = {
    ("ResNet-18", 16, 1): (31, 41, 51, 71),
    ("ResNet-18", 32, 1): (21, 31, 51),
    ("ResNet-18", 64, 1): (11, 31),
    ("ResNet-18", 128, 1): (11,),
    ("ResNet-18", 16, 2): (21, 31, 91, 111),
    ("ResNet-18", 32, 2): (11, 21, 41),
    ("ResNet-18", 64, 2): (21, 41),
    ("ResNet-18", 128, 2): (41,),
    ("ResNet-18", 16, 4): (11, 21, 81, 91),
    ("ResNet-18", 32, 4): (21, 31, 61),
    ("ResNet-18", 64, 4): (11, 61),
    ("ResNet-18", 128, 4): (11,),
    ("ResNet-50", 64, 1): (101,),
    ("ResNet-50", 32, 2): (101, 111),
    ("ResNet-50", 64, 2): (81,),
    ("ResNet-50", 32, 4): (131, 221),
    ("ResNet-50", 64, 4): (191,),
    ("LM", 5, 1): (31, 41, 61, 71),
    ("LM", 10, 1): (11, 21, 41),
    ("LM", 20, 1): (11, 41),
    ("LM", 40, 1): (11,),
    ("LM", 5, 2): (31, 51, 61, 71),
    ("LM", 10, 2): (11, 31, 41),
    ("LM", 20, 2): (31, 41),
    ("LM", 40, 2): (11,),
    ("LM", 5, 4): (11, 31, 71, 91),
    ("LM", 10, 4): (11, 31, 61),
    ("LM", 20, 4): (11, 61),
    ("LM", 40, 4): (61,),
    ("Recommendation", 512, 1): (21, 41, 71, 91),
    ("Recommendation", 1024, 1): (21, 51, 91),
    ("Recommendation", 2048, 1): (21, 41),
    ("Recommendation", 4096, 1): (41,),
}
"""By (model, first batch size, scale factor): the epochs, counted from 0, from which the batch size is twice as large."""

MODES = ("static", "gns", "accordion")

_TYPE = re.compile(r"(?P<model>.+) \(batch size (?P<size>\d+)\)")


@dataclass(frozen=True, slots=True)
class Batched:
    """A job type's model and batch size."""

    model: str
    size: int

    @property
    def steps_an_epoch(self) -> int:
        return math.ceil(SAMPLES[self.model] / self.size)

    def with_size(self, size: int) -> Batched:
        return Batched(self.model, size)

    def __str__(self) -> str:
        return f"{self.model} (batch size {self.size})"


def batched(job_type: str) -> Batched | None:
    """None for a type whose model's epochs are not known: it has no batch size to change."""
    match = _TYPE.fullmatch(job_type)
    return Batched(match["model"], int(match["size"])) if match and match["model"] in SAMPLES else None


def next_size(mode: str, first: Batched, now: Batched, scale: int, epoch: int) -> int:
    """The batch size that the job asks for with `epoch` epochs begun; its present one where nothing changes."""
    largest = LARGEST[first.model]
    if first.size >= largest or (mode == "accordion" and first.model == "Transformer"):
        return now.size
    if mode == "gns":
        doublings = sum(epoch + 1 >= begin for begin in DOUBLES.get((first.model, first.size, scale), ()))
        wanted = min(largest, first.size * 2**doublings)
        return now.size * 2 if wanted > now.size else now.size
    if mode == "accordion":
        return first.size if is_critical(first, epoch) else largest
    return now.size


def is_critical(first: Batched, epoch: int) -> bool:
    """Accordion: whether a large batch size would cost accuracy in this epoch."""
    if first.model == "ResNet-18":
        return epoch < 10 or 150 <= epoch < 160 or 250 <= epoch < 260
    if first.model == "ResNet-50":
        return epoch % 30 < 10
    if first.model == "Recommendation":
        return epoch < {512: 30, 1024: 30, 2048: 40}.get(first.size, 10)
    return epoch < 10


@dataclass(slots=True)
class Progress:
    """A job's steps so far and in all, at its present batch size."""

    first: Batched
    now: Batched
    total: int
    done: int = 0
    asked: int | None = None  # the batch size that it changes over to at the end of its next round

    @property
    def epoch(self) -> int:
        """Epochs begun, the first being 1; 0 before the first step."""
        return math.ceil(self.done / self.now.steps_an_epoch)

    @property
    def left(self) -> int:
        return self.total - self.done

    def change_over(self) -> None:
        """Take the batch size asked for. Epochs are kept, in all and done, the one begun counting as done."""
        if self.asked is None:
            return
        new = self.now.with_size(self.asked)
        epochs = math.ceil(self.total / self.now.steps_an_epoch)
        total = math.ceil(self.total * self.now.size / new.size)
        if math.ceil(total / new.steps_an_epoch) != epochs:
            total = epochs * new.steps_an_epoch
        self.done, self.total, self.now, self.asked = self.epoch * new.steps_an_epoch, total, new, None

    def ask(self, mode: str, scale: int) -> None:
        wanted = next_size(mode, self.first, self.now, scale, self.epoch)
        self.asked = wanted if wanted != self.now.size else None


def run_time(
    job_type: str, mode: str, scale: int, total_steps: int, speed: Callable[[str], float], round_s: float
) -> float:
    """Seconds that the job runs in rounds of `round_s` without a break; `speed`: steps per second of a job type (0 = unknown).

    A batch size without a known speed is not taken.
    """
    first = batched(job_type)
    if first is None or mode == "static":
        return total_steps / speed(job_type)
    progress, ran_s = Progress(first, first, total_steps), 0.0
    while progress.left > 0:
        pace = speed(str(progress.now))
        steps = min(max(1, int(pace * round_s)), progress.left)
        progress.done += steps
        ran_s += steps / pace
        if progress.asked is not None and speed(str(progress.now.with_size(progress.asked))) > 0:
            progress.change_over()
        progress.ask(mode, scale)
    return ran_s
