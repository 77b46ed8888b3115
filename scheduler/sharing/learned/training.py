"""The agent's network, in numpy, and its training: the update of DqnGPU's eq. 2 over episodes (section 12),
`theta += alpha * sum grad log pi(s, a) * (Q(s, a) - V(s))`.

`Q` is the discounted reward that an episode had from there on; `V` is the expectation of the *target network*, a copy renewed
now and then, for the policy there: `sum_a pi(a|s) Q_target(s, a)`. The network's second head learns `Q`, so that decisions can
be explained by action values. Some entropy, less and less, keeps it trying. One generator of randomness: the same seed gives the
same network.

Where only one action is allowed nothing is decided, and nothing learnt. Each workload is played several times, and the mean of
its plays at a decision's time is taken from both `Q` and `V`'s place (deepRM's baseline): workloads differ more than policies
do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

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


BETA_1, BETA_2, TINY = 0.9, 0.999, 1e-8


class Episode(Protocol):
    """A workload that the agent places, decision by decision."""

    def seen(self) -> tuple[Floats, Flags]:
        """Return the state and which actions are allowed."""

    def act(self, action: int, gamma: float) -> tuple[float, int]:
        """Take an action; return the discounted reward of the steps that passed with it, and how many they were."""

    @property
    def over(self) -> bool:
        """Whether every job has ended."""


class Workloads(Protocol):
    def __call__(self, seed: int) -> Episode:
        """Return the episode of that number: the same one each time."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to train. Each update plays `workloads` workloads `plays` times each; the target is renewed every `renew` updates.

    `entropy` falls in a line to nothing at the last update, and the `rate` to a tenth. `unit`: the unit of rewards.
    """

    updates: int = 300
    workloads: int = 4
    plays: int = 4
    gamma: float = 0.99
    rate: float = 1e-3
    entropy: float = 0.02
    renew: int = 10
    clip: float = 1.0
    unit: float = 20.0


@dataclass(slots=True)
class Played:
    """The decisions of one episode, one row each; `at`: the step at which each was made."""

    states: list[Floats] = field(default_factory=list)
    allowed: list[Flags] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    chosen: list[bool] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    def returns(self, gamma: float) -> Floats:
        """Return the discounted reward from each decision on."""
        found = np.zeros(len(self.rewards))
        total = 0.0
        for at in range(len(found) - 1, -1, -1):
            total = self.rewards[at] + gamma ** self.steps[at] * total
            found[at] = total
        return found


class Training:
    """A training under way. `update` makes one step; `record` stores its state."""

    def __init__(self, frame: Frame, workloads: Workloads, recipe: Recipe, seed: int) -> None:
        self.workloads, self.recipe, self.seed = workloads, recipe, seed
        self.rng = np.random.default_rng(seed)
        self.network = Network.drawn(frame, self.rng)
        self.target = self.network.copy()
        self.moments = [np.zeros_like(layer) for layer in self.network.layers]
        self.squares = [np.zeros_like(layer) for layer in self.network.layers]
        self.curve: list[float] = []

    @property
    def made(self) -> int:
        """How many updates were made."""
        return len(self.curve)

    @property
    def over(self) -> bool:
        return self.made >= self.recipe.updates

    def update(self) -> float:
        """Play some episodes and learn from them. Returns the mean reward of an episode, which goes onto `curve`."""
        numbers = self.rng.integers(0, 2**31, self.recipe.workloads)
        episodes = [self.workloads(int(number)) for number in numbers for _ in range(self.recipe.plays)]
        played = self._play(episodes)
        self._learn(played)
        self.curve.append(float(np.mean([sum(each.rewards) for each in played])))
        if self.made % self.recipe.renew == 0:
            self.target = self.network.copy()
        return self.curve[-1]

    def _play(self, episodes: list[Episode]) -> list[Played]:
        """Play the episodes side by side: one pass through the network for a decision of each."""
        played = [Played() for _ in episodes]
        left = [each for each in range(len(episodes)) if not episodes[each].over]
        while left:
            seen = [episodes[each].seen() for each in left]
            states, allowed = (np.array(each) for each in zip(*seen, strict=True))
            shares, _ = self.network.judged(states, allowed)
            drawn = (shares.cumsum(axis=1) < self.rng.random(len(left))[:, None]).sum(axis=1)
            for row, each in enumerate(left):
                may = np.flatnonzero(allowed[row])
                action = int(may[np.searchsorted(may, drawn[row]).clip(max=len(may) - 1)])
                reward, steps = episodes[each].act(action, self.recipe.gamma)
                own = played[each]
                own.states.append(states[row])
                own.allowed.append(allowed[row])
                own.actions.append(action)
                own.chosen.append(len(may) > 1)
                own.rewards.append(reward)
                own.steps.append(steps)
            left = [each for each in left if not episodes[each].over]
        return played

    def _learn(self, played: list[Played]) -> None:
        gamma, plays = self.recipe.gamma, self.recipe.plays
        returns = [each.returns(gamma) / self.recipe.unit for each in played]
        usual = [
            level
            for first in range(0, len(played), plays)
            for level in levels(played[first : first + plays], returns[first : first + plays])
        ]
        chosen = np.concatenate([each.chosen for each in played])
        if not chosen.any():
            return
        states = np.array([state for each in played for state in each.states])[chosen]
        allowed = np.array([may for each in played for may in each.allowed])[chosen]
        actions = np.concatenate([each.actions for each in played])[chosen]
        gained, level = np.concatenate(returns)[chosen], np.concatenate(usual)[chosen]
        self._step(states, allowed, actions, gained, level)

    def _step(self, states: Floats, allowed: Flags, actions: Floats, gained: Floats, level: Floats) -> None:
        rows, network = np.arange(len(states)), self.network
        passed = network.passed(states)
        shares, values = network.read(passed[-1], allowed)
        relative = gained - level
        expected = (shares * self.target.judged(states, allowed)[1]).sum(axis=1)
        advantage = relative - expected
        advantage = (advantage - advantage.mean()) / max(float(advantage.std()), TINY)
        n = network.frame.actions
        out = np.zeros((len(states), 2 * n))
        out[:, :n] = shares * advantage[:, None]
        out[rows, actions] -= advantage
        out[:, :n] += self.recipe.entropy * self._left * _entropy_slope(shares)
        out[rows, n + actions] = 0.5 * (values[rows, actions] - relative)
        self._descend(network.gradients(passed, out / len(states)))

    @property
    def _left(self) -> float:
        return 1.0 - self.made / self.recipe.updates

    def _descend(self, gradients: list[Floats]) -> None:
        """Adam, with the gradient's length clipped."""
        length = float(np.sqrt(sum(float((each * each).sum()) for each in gradients)))
        scale = min(1.0, self.recipe.clip / max(length, TINY))
        rate, steps = self.recipe.rate * max(self._left, 0.1), self.made + 1
        for n, gradient in enumerate(gradients):
            given = gradient * scale
            self.moments[n] += (1 - BETA_1) * (given - self.moments[n])
            self.squares[n] += (1 - BETA_2) * (given * given - self.squares[n])
            spread = np.sqrt(self.squares[n] / (1 - BETA_2**steps)) + TINY
            self.network.layers[n] -= rate * (self.moments[n] / (1 - BETA_1**steps)) / spread


def levels(played: list[Played], returns: list[Floats]) -> list[Floats]:
    """Return, for each decision of the plays of one workload, their mean return from its step on."""
    starts = [np.concatenate(([0], np.cumsum(each.steps)[:-1])) for each in played]
    found = []
    for own in starts:
        others = [np.interp(own, at, had, right=0.0) for at, had in zip(starts, returns, strict=True)]
        found.append(np.mean(others, axis=0))
    return found


def _entropy_slope(shares: Floats) -> Floats:
    """Return the slope of minus the entropy of each policy, by preference. Shape as given."""
    logs = np.log(np.maximum(shares, TINY))
    entropy = -(shares * logs).sum(axis=1, keepdims=True)
    slope: Floats = shares * (logs + entropy)
    return slope
