"""The measured use of GPUs of one size by signatures, many at once: a row each.

Each figure is the one that `seen.phases_of`, `masks.Reach` and `images.ahead` give for one job, for a thousand jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scheduler.sharing.learned.images import MEMORY, RESOURCES, STEPS, STRIDE
from scheduler.sharing.learned.paces import AT, GPU
from scheduler.sharing.learned.seen import phases_of_profiles
from scheduler.sharing.series import Floats, Ints

if TYPE_CHECKING:
    from scheduler.sharing.model import Profile

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
