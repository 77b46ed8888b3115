"""The agent's network: a multilayer perceptron with two heads, in numpy (section 12: it serves and trains with nothing else)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from scheduler.sharing.series import Flags, Floats

if TYPE_CHECKING:
    from scheduler.sharing.learned.images import Frame

HIDDEN = (128, 128, 32)
FORBIDDEN = -1e9


def shapes(frame: Frame) -> list[tuple[int, ...]]:
    """Return the shapes of the layers of a network for such a frame: `w, b, w, b, ...`."""
    sizes = (frame.inputs, *HIDDEN, 2 * frame.actions)
    return [shape for a, b in pairwise(sizes) for shape in ((a, b), (b,))]


class Network:
    """Layers `w, b, w, b, ...`; the last gives each action a preference and a value. Raises ValueError for other shapes."""

    def __init__(self, frame: Frame, layers: Sequence[Floats]) -> None:
        found = [each.shape for each in layers]
        if found != shapes(frame):
            raise ValueError(f"a network of shapes {found}; it must have {shapes(frame)}")
        self.frame = frame
        self.layers = [np.array(each, dtype=np.float64) for each in layers]

    @classmethod
    def drawn(cls, frame: Frame, rng: Generator) -> Network:
        """Return a network of random weights (He), with hardly a preference among actions."""
        layers: list[Floats] = []
        for shape in shapes(frame):
            drawn = rng.standard_normal(shape) * np.sqrt(2.0 / shape[0]) if len(shape) == 2 else np.zeros(shape)
            layers.append(drawn)
        layers[-2] *= 0.01
        return cls(frame, layers)

    def copy(self) -> Network:
        return Network(self.frame, self.layers)

    def passed(self, states: Floats) -> list[Floats]:
        """Return the states and each layer's output, the last one not rectified. `states`: shape (n, inputs)."""
        found = [states]
        last = len(self.layers) - 2
        for at in range(0, len(self.layers), 2):
            out = found[-1] @ self.layers[at] + self.layers[at + 1]
            found.append(out if at == last else np.maximum(out, 0.0))
        return found

    def judged(self, states: Floats, allowed: Flags) -> tuple[Floats, Floats]:
        """Return policy and action values, each of shape (n, actions); a forbidden action has no probability."""
        return self.read(self.passed(states)[-1], allowed)

    def read(self, out: Floats, allowed: Flags) -> tuple[Floats, Floats]:
        """Return policy and action values, given what the last layer gave."""
        return policy(out[:, : self.frame.actions], allowed), out[:, self.frame.actions :]

    def gradients(self, passed: Sequence[Floats], out: Floats) -> list[Floats]:
        """Return the gradient of each layer, given that of the output. `passed`: the result of `passed`."""
        found: list[Floats] = []
        for at in range(len(self.layers) - 2, -1, -2):
            before = passed[at // 2]
            found = [before.T @ out, out.sum(axis=0), *found]
            if at:
                out = (out @ self.layers[at].T) * (before > 0.0)
        return found


def policy(preferences: Floats, allowed: Flags) -> Floats:
    """Return the softmax of the allowed preferences, shape (n, actions)."""
    masked = np.where(allowed, preferences, FORBIDDEN)
    masked -= masked.max(axis=1, keepdims=True)
    risen = np.exp(masked)
    shares: Floats = risen / risen.sum(axis=1, keepdims=True)
    return shares
