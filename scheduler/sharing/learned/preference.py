"""Whether a network would start a job beside those on a GPU, or wait, for many of both: only the first slot is taken.

The first layer is linear in its input, so its outputs for the jobs on a GPU and for a job are added up: each is worked out once,
and not once a pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.learned.images import CROWD, LONG, RESOURCES, STEPS, WAIT

if TYPE_CHECKING:
    from scheduler.sharing.learned.network import Network
    from scheduler.sharing.series import Flags, Floats, Ints

FIRST = 1
"""The action that starts only the first slot."""
IMAGE = STEPS * RESOURCES


class Preference:
    """One network. Images have shape (n, STEPS, 4); answers of `of_gpus` and `of_jobs` are only for `starts`."""

    def __init__(self, network: Network) -> None:
        weights, self._bias, *self._between, last, bias = network.layers
        slots = (1 + network.frame.slots) * IMAGE
        gpus, jobs = np.arange(IMAGE), np.arange(IMAGE, 2 * IMAGE)
        self._of_gpus = weights[np.append(gpus, [-4, -3, -2])]
        self._of_jobs = weights[np.append(jobs, slots)]
        self._last, self._last_bias = last[:, [WAIT, FIRST]], bias[[WAIT, FIRST]]

    def of_gpus(self, images: Floats, people: Ints, least: Floats, most: Floats) -> Floats:
        """The first layer's output for the jobs on each GPU: their image, how many, the phases before the first and last end."""
        seen = [images.reshape(-1, IMAGE), (people / CROWD)[:, None], (least / LONG)[:, None], (most / LONG)[:, None]]
        found: Floats = np.concatenate(seen, axis=1) @ self._of_gpus + self._bias
        return found

    def of_jobs(self, images: Floats, phases: Floats) -> Floats:
        """The first layer's output for each job in the first slot."""
        seen = np.concatenate([images.reshape(-1, IMAGE), (phases / LONG)[:, None]], axis=1)
        found: Floats = seen @ self._of_jobs
        return found

    def starts(self, first: Floats) -> Flags:
        """Return whether to start is preferred to waiting. `first`: of a GPU and a job added up, shape (n, width); changed."""
        out = np.maximum(first, 0.0, out=first)
        for weights, bias in zip(self._between[::2], self._between[1::2], strict=True):
            out = out @ weights
            out += bias
            np.maximum(out, 0.0, out=out)
        found = out @ self._last + self._last_bias
        preferred: Flags = found[:, 1] > found[:, 0]
        return preferred
