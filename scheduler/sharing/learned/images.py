"""The input of the agent and its actions (DqnGPU 3.2; algorithms.md section 12).

An image is the height of use over the next `STEPS` steps, for each of four resources (GPU time, memory, SMs, PCIe), in parts of
a GPU's: the paper draws the same as cells of 0 and 1. One image for the GPU, one for each waiting job in a slot; then how long
those jobs and those on the GPU take, and how many more wait. An action is a subset of the slots to start together, or to wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from scheduler.sharing.series import Floats, Ints

STEPS, RESOURCES = 20, 4
MEMORY = 1
STRIDE = 2
"""Phases that a step of an image is the mean of: so images reach twice as far as they have steps."""
BACKLOG = 30
"""As many jobs behind the slots count as a full backlog."""
LONG = 40.0
"""As many phases count as a long job."""
CROWD = 4.0
"""As many jobs on a GPU count as many."""
WAIT = 0


@dataclass(frozen=True)
class Frame:
    """The number of waiting jobs that the agent sees, and its consequences. `subsets[WAIT]` starts no job.

    `together`: whether jobs may start as a subset (DqnGPU), or only one at a time (DeepRM).
    """

    slots: int = 3
    together: bool = True

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """By action: the slots that start."""
        sizes = range(1, (self.slots if self.together else 1) + 1)
        return ((), *(chosen for size in sizes for chosen in combinations(range(self.slots), size)))

    @cached_property
    def members(self) -> Floats:
        """By action: 1 for each slot that starts. Shape (actions, slots)."""
        found = np.zeros((len(self.subsets), self.slots))
        for action, chosen in enumerate(self.subsets):
            found[action, list(chosen)] = 1.0
        return found

    @cached_property
    def without(self) -> Ints:
        """By action and slot: the action that starts the same but for that slot. Shape (actions, slots)."""
        numbers = {chosen: action for action, chosen in enumerate(self.subsets)}
        rows = [
            [numbers[tuple(each for each in chosen if each != slot)] for slot in range(self.slots)]
            for chosen in self.subsets
        ]
        return np.array(rows, dtype=np.int64)

    @cached_property
    def actions(self) -> int:
        return len(self.subsets)

    @cached_property
    def inputs(self) -> int:
        return (1 + self.slots) * STEPS * RESOURCES + self.slots + 4


def ahead(uses: Floats, at: int = 0) -> Floats:
    """Return a job's image from its phase `at` on. `uses`: shape (phases, 4). Returns shape (STEPS, 4), zeros after its end."""
    image = np.zeros((STEPS * STRIDE, RESOURCES))
    coming = uses[at : at + STEPS * STRIDE]
    image[: len(coming)] = coming
    found: Floats = image.reshape(STEPS, STRIDE, RESOURCES).mean(axis=1)
    return found


def state(
    frame: Frame, gpu: Floats, remaining: Sequence[float], slots: Sequence[tuple[Floats, float]], backlog: int
) -> Floats:
    """Return the network's input, shape (frame.inputs,).

    `gpu`: the image of those who run; `remaining`: the phases that each of them has before it; `slots`: image and phases of the
    job in each slot, as many as there are (an empty slot is nothing but zeros); `backlog`: how many wait behind them.
    """
    found = np.zeros(frame.inputs)
    size = STEPS * RESOURCES
    found[:size] = gpu.ravel()
    for slot, (image, phases) in enumerate(slots):
        found[(1 + slot) * size : (2 + slot) * size] = image.ravel()
        found[(1 + frame.slots) * size + slot] = phases / LONG
    found[-4] = len(remaining) / CROWD
    found[-3] = min(remaining, default=0.0) / LONG
    found[-2] = max(remaining, default=0.0) / LONG
    found[-1] = min(backlog, BACKLOG) / BACKLOG
    return found
