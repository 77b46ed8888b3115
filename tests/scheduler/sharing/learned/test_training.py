"""The modified update of eq. 2: it learns what pays, the same from the same seed, and goes on where it was."""

import numpy as np
import pytest

from scheduler.sharing.learned.images import Frame
from scheduler.sharing.learned.training import Network, Played, Recipe, Training, levels, policy, shapes

FRAME = Frame(2)
RECIPE = Recipe(updates=40, workloads=2, plays=4, unit=1.0, renew=5, rate=1e-2)


class Lever:
    """Five decisions. One input says whether to pull the first slot (action 1) or to wait (0); the third is never allowed."""

    def __init__(self, seed):
        self.rng, self.left, self.gained = np.random.default_rng(seed), 5, 0.0
        self._draw()

    def _draw(self):
        self.pull = bool(self.rng.integers(2))
        self.image = np.zeros(FRAME.inputs)
        self.image[0 if self.pull else 1] = 1.0

    def seen(self):
        return self.image, np.array([True, True, False, False])

    def act(self, action, gamma):
        assert action in (0, 1)
        reward = 0.0 if (action == 1) == self.pull else -1.0
        self.left -= 1
        self._draw()
        return reward, 1

    @property
    def over(self):
        return self.left == 0


def learnt(recipe=RECIPE, seed=3):
    training = Training(FRAME, Lever, recipe, seed)
    while not training.over:
        training.update()
    return training


@pytest.mark.slow
def test_it_learns_what_pays_and_never_does_what_is_not_allowed():
    training = learnt()
    states = np.zeros((2, FRAME.inputs))
    states[0, 1] = states[1, 0] = 1.0
    shares, values = training.network.judged(states, np.array([[True, True, False, False]] * 2))
    assert shares[0, 0] > 0.9
    assert shares[1, 1] > 0.9
    assert (shares[:, 2:] == 0).all()
    assert values[0, 0] > values[0, 1]
    assert np.mean(training.curve[-5:]) > -1.0 > np.mean(training.curve[:3])


def test_the_same_seed_gives_the_same_network_and_another_seed_another():
    short = Recipe(updates=3, workloads=2, plays=2)
    first, again, other = learnt(short), learnt(short), learnt(short, seed=4)
    assert first.curve == again.curve
    assert all((a == b).all() for a, b in zip(first.network.layers, again.network.layers, strict=True))
    assert any((a != b).any() for a, b in zip(first.network.layers, other.network.layers, strict=True))


def test_what_comes_later_counts_less_by_the_steps_between():
    played = Played(rewards=[-1.0, 0.0, -2.0], steps=[2, 0, 1])
    assert list(played.returns(0.5)) == [-1.0 + 0.25 * -2.0, -2.0, -2.0]


def test_the_usual_level_is_what_the_plays_of_one_workload_had_on_average_from_that_step_on():
    one, two = Played(steps=[2, 2]), Played(steps=[4])
    found = levels([one, two], [np.array([-4.0, -2.0]), np.array([-6.0])])
    assert [list(each) for each in found] == [[-5.0, -1.0], [-5.0]]


def test_a_gradient_is_what_a_small_change_of_a_weight_does():
    network = Network.drawn(FRAME, np.random.default_rng(0))
    states = np.random.default_rng(1).random((3, FRAME.inputs))
    out = np.random.default_rng(2).random((3, 2 * FRAME.actions))
    found = network.gradients(network.passed(states), out)
    for layer, at in ((0, (5, 7)), (2, (3, 4)), (5, (6,)), (6, (1, 2))):
        before = float((network.passed(states)[-1] * out).sum())
        network.layers[layer][at] += 1e-6
        slope = (float((network.passed(states)[-1] * out).sum()) - before) / 1e-6
        assert found[layer][at] == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_a_network_of_another_shape_is_refused():
    layers = [np.zeros(shape) for shape in shapes(FRAME)]
    Network(FRAME, layers)
    with pytest.raises(ValueError, match="it must have"):
        Network(Frame(3), layers)


def test_what_is_not_allowed_has_no_probability():
    found = policy(np.array([[5.0, 1.0, 1.0]]), np.array([[False, True, True]]))
    assert list(found[0]) == [0.0, 0.5, 0.5]
