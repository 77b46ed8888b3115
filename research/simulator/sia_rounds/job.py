"""A job in rounds: it waits, restarts, and trains epoch after epoch, as in Sia's published simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from research.simulator.sia_rounds.speeds import Speeds
    from research.simulator.sia_rounds.training import EpochTraining, Noise, Steps
    from scheduler.simulator.world.profiled import Shape


@dataclass(slots=True, eq=False)
class RoundJob:
    """Times in seconds from the trace's beginning. `shape`: its GPUs on each of its nodes, `()` = it has none.

    `progress`: iterations at M0. `seen`: what it has measured, GPU type -> (nodes, GPUs, samples of a GPU and step) -> seconds
    of a step and of its synchronising; `noise`: its gradients' when it was last measured.
    """

    id: int
    name: str
    training: EpochTraining
    submitted_s: float
    epoch: int = 0
    progress: float = 0.0
    gpu_type: str = ""
    shape: Shape = ()
    steps: Steps | None = None
    placed_s: float = 0.0  # since then it has had what it has
    first_placed_s: float | None = None
    ended_s: float | None = None
    restart_left_s: float = 0.0
    restarts: int = 0
    waited_s: float = 0.0
    gpu_s: float = 0.0
    most_gpus: int = 0
    noise: Noise | None = None
    seen: dict[str, dict[tuple[int, int, int], tuple[float, float]]] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        return sum(self.shape)

    @property
    def done_fraction(self) -> float:
        return self.progress / self.training.ends[-1]

    def give(self, gpu_type: str, shape: Shape, now_s: float, speeds: Speeds) -> None:
        """It has these GPUs from now on. The same shape on the same type is no change; anything else restarts it."""
        if shape == self.shape and (gpu_type == self.gpu_type or not shape):
            return
        self.gpu_type, self.shape = gpu_type, shape
        if not shape:
            return
        if self.first_placed_s is None:
            self.first_placed_s = now_s
        else:
            self.restarts += 1
        self.placed_s, self.restart_left_s = now_s, self.training.restart_s
        self.most_gpus = max(self.most_gpus, self.gpus)
        self.steps = speeds.steps(self)

    def live(self, from_s: float, seconds: float, speeds: Speeds) -> None:
        """Let time pass. What ends in this time ends at its moment, and what it had is idle until the round is over."""
        if not self.shape:
            self.waited_s += min(seconds, from_s + seconds - self.submitted_s)
            return
        self.gpu_s += seconds * self.gpus
        lost_s = min(self.restart_left_s, seconds)
        self.restart_left_s -= lost_s
        now_s, end_s = from_s + lost_s, from_s + seconds
        while now_s < end_s and self.ended_s is None:
            now_s = self._train(now_s, end_s, speeds)

    def _train(self, now_s: float, end_s: float, speeds: Speeds) -> float:
        """Train until the epoch or the time is over, and return when that is."""
        assert self.steps is not None
        rate = self.training.rate(self.gpu_type, self.shape, self.steps, self.epoch)
        self._measure(self.steps)
        target = self.training.ends[self.epoch]
        epoch_s = now_s + (target - self.progress) / rate
        if epoch_s > end_s:
            self.progress += (end_s - now_s) * rate
        else:
            self.progress, self.epoch = target, self.epoch + 1
            if self.epoch == len(self.training.ends):
                self.ended_s = epoch_s
                return epoch_s
        self.steps = speeds.steps(self)
        return min(epoch_s, end_s)

    def _measure(self, steps: Steps) -> None:
        self.noise = self.training.noise(steps.batch(self.gpus), self.epoch)
        times = self.training.times(self.gpu_type, self.shape, steps.once)
        self.seen.setdefault(self.gpu_type, {}).setdefault((len(self.shape), self.gpus, steps.once), times)
