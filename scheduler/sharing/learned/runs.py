"""A signature's measured use, in the steps that a policy was trained with; of many on GPUs of one size at once, a row each.

Each figure of `Runs` is the one that `phases_of`, `images.Reach` and `images.ahead` give for one job, for a thousand jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from scheduler.sharing.learned.images import MEMORY, RESOURCES, STEPS, STRIDE
from scheduler.sharing.learned.paces import AT, GPU
from scheduler.sharing.model import MEASURES, Profile
from scheduler.sharing.series import Floats, Ints

PCIE_MB_S = 16_000.0
"""The rate of a link of 16 lanes of PCIe 3, the whole of `pcie`."""


def phases_of(samples: Floats, seconds: float, step_s: float, most: int) -> Floats:
    """Return use by phase. Shape (phases, 4): GPU time, memory, SMs, PCIe, in parts of a GPU.

    `samples`: GPU time (0 to 1), memory in parts of the GPU's, PCIe (MB/s), shape (n, 3). Memory counts by the highest in a
    phase. SMs are not measured apart: they count as the GPU's time. A run of more than `most` phases is stretched to `most`
    longer ones.
    """
    phases = int(np.clip(round(seconds / step_s), 1, most))
    edges = np.linspace(0, len(samples), phases + 1)
    first = edges[:-1].astype(np.int64)
    after = np.maximum(first + 1, np.ceil(edges[1:]).astype(np.int64))
    spans = np.stack([first, after], axis=1).ravel()
    padded = np.concatenate([samples, np.zeros((1, samples.shape[1]))])  # a span may end with the last sample
    means = np.add.reduceat(padded, spans, axis=0)[::2] / (after - first)[:, None]
    highest = np.maximum.reduceat(padded[:, 1], spans)[::2]
    found: Floats = np.stack([means[:, 0], highest, means[:, 0], means[:, 2] / PCIE_MB_S], axis=1)
    return found.clip(0.0, 1.0)


def phases_of_profiles(profiles: Sequence[Profile], memory_mib: int, step_s: float, most: int) -> tuple[Floats, Ints]:
    """Return the use by phase of a job with each profile, on a GPU with this memory, and how many phases it has.

    All have known times above 0. Shapes (3, profiles, most + 1), for GPU time, memory and PCIe, zeros after a run's end, and
    (profiles,).
    """
    seconds = np.array([each.seconds for each in profiles], dtype=np.float64)
    phases: Ints = np.rint(seconds / step_s).clip(1, most).astype(np.int64)
    lengths = np.array([each.rows.shape[1] for each in profiles])
    uses, at = np.zeros((3, len(profiles), most + 1)), np.arange(most + 1) < phases[:, None]
    for length in set(lengths.tolist()):
        here = lengths == length
        told = _told_in(np.array([each.rows for each in compress(profiles, here)]), phases[here])
        for held, values in zip(uses, told, strict=True):
            held[at & here[:, None]] = values
    uses[1] /= memory_mib
    uses[2] /= PCIE_MB_S
    return uses.clip(0.0, 1.0, out=uses), phases


def _told_in(rows: Floats, phases: Ints) -> tuple[Floats, Floats, Floats]:
    """Return the GPU's time, the highest memory and PCIe traffic of each phase of each run, one run's after the other's.

    `rows`: shape (runs, measures, samples).
    """
    many, _, length = rows.shape
    run = np.repeat(np.arange(many), phases)
    number = np.arange(len(run)) - np.repeat(np.cumsum(phases) - phases, phases)
    step, last = (length / phases)[run], (number + 1 == phases[run])
    first = (number * step).astype(np.int64)
    end = np.where(last, length, np.ceil((number + 1) * step).astype(np.int64))
    after = np.maximum(first + 1, end)
    spans = (np.stack([first, after], axis=1) + run[:, None] * (length + 1)).ravel()
    flat = np.zeros((len(MEASURES), many, length + 1))  # a span may end with the last sample
    flat[:, :, :length] = rows.transpose(1, 0, 2)
    memory, gpu, pcie = flat.reshape(len(MEASURES), -1)
    busy, traffic = (np.add.reduceat(each, spans)[::2] / (after - first) for each in (gpu, pcie))
    return busy, np.maximum.reduceat(memory, spans)[::2], traffic


USED = ([GPU, 2], [MEMORY], [3])
"""The resources of an image by measure: SMs count as the GPU's time (`seen`)."""
UNSEEN = 0
"""The row of jobs whose use over time is unknown: no use."""
REACH = STEPS * STRIDE


class Ahead(NamedTuple):
    """The use of each of some jobs from now on, a row each.

    `images`: shape (n, STEPS, 4), as `images.ahead`; `in_time`: its use in turns, of GPU time by phase, then of PCIe, in parts
    of all that may be taken together, shape (n, 2 * most); `memory`: the most until its end; `left`: the phases before it;
    `there`: the part of each step that it is there, shape (n, STEPS).
    """

    images: Floats
    in_time: Floats
    memory: Floats
    left: Floats
    there: Floats

    @property
    def busy(self) -> Floats:
        """The part of each step that it keeps the GPU busy. Shape (n, STEPS)."""
        return self.images[:, :, GPU]


class Runs:
    """Runs by profile, in steps of `step_s`, `most` at most. `in_time`: as `masks.Limits` has it."""

    def __init__(self, memory_mib: int, step_s: float, most: int, in_time: float) -> None:
        self.most = most
        self._memory_mib, self._step_s, self._in_time = memory_mib, step_s, in_time
        self._numbers: dict[int, int] = {}
        self._held: list[Profile] = []  # so that their identities stay their own
        self._phases: Ints = np.ones(1, dtype=np.int64)
        self._uses: Floats = np.zeros((len(USED), 1, most + 1))
        self._later: Floats = np.zeros((1, most))

    def numbers(self, profiles: Sequence[Profile | None]) -> Ints:
        """Return each one's row; UNSEEN where it is not known what is used when. New ones are looked at together."""
        new = {id(each): each for each in profiles if each is not None and id(each) not in self._numbers}
        if known := [each for each in new.values() if each.seconds is not None and each.seconds > 0]:
            self._add(known)
        self._numbers |= dict.fromkeys(new.keys() - self._numbers.keys(), UNSEEN)
        self._held += new.values()
        found = [UNSEEN if each is None else self._numbers[id(each)] for each in profiles]
        return np.array(found, dtype=np.int64)

    def _add(self, profiles: Sequence[Profile]) -> None:
        first = len(self._phases)
        self._numbers |= {id(each): first + n for n, each in enumerate(profiles)}
        uses, phases = phases_of_profiles(profiles, self._memory_mib, self._step_s, self.most)
        later = np.maximum.accumulate(uses[1, :, self.most - 1 :: -1], axis=1)[:, ::-1]
        self._phases = np.concatenate([self._phases, phases])
        self._uses = np.concatenate([self._uses, uses], axis=1)
        self._later = np.concatenate([self._later, later])

    def ahead(self, numbers: Ints, ran_s: Floats) -> Ahead:
        """Return the use of each from now on, after it `ran_s`: of its last phase at least."""
        many = len(numbers)
        done = np.minimum(ran_s / self._step_s, self._phases[numbers] - 1.0)
        whole = done.astype(np.int64)
        coming = self._from(numbers, whole, REACH)
        images = np.empty((many, STEPS, RESOURCES))
        for held, resources in zip((coming[:, :, ::STRIDE] + coming[:, :, 1::STRIDE]) / STRIDE, USED, strict=True):
            images[:, :, resources] = held[:, :, None]
        in_time = self._from(numbers, done, self.most)[::2] / self._in_time
        left = self._phases[numbers] - done
        there = np.minimum(np.maximum(left[:, None] / STRIDE - AT, 0.0), 1.0)
        return Ahead(images, in_time.transpose(1, 0, 2).reshape(many, -1), self._later[numbers, whole], left, there)

    def _from(self, numbers: Ints, done: Floats | Ints, phases: int) -> Floats:
        """Return the use at `phases` phases from `done` on. Shape (3, runs, phases)."""
        if not done.any() and phases <= self.most:
            return self._uses[:, numbers, :phases]
        at = np.minimum((np.arange(phases) + done[:, None]).astype(np.int64), self.most)
        return self._uses[:, numbers[:, None], at]
