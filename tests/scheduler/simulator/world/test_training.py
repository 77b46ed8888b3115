"""The truth of a training job: eq. 1 to 5 of Hops 3.5, the slowest node, and what the model does not know."""

import pytest

from scheduler.estimator.iteration import throughput
from scheduler.model.speeds import Link, Loading, Part, Profile
from scheduler.simulator.world.laws import Training
from scheduler.simulator.world.truth import Spot

LINK = Link(1e9, 2e8)
FAST = Profile(0.1, 0.2, 0.01, 32, 1e8, loading=Loading(parts=(Part(1, 0.05, 0.0025, 0.01, 0.0001, 1),)))
SLOW = Profile(0.2, 0.4, 0.01, 32, 1e8, loading=FAST.loading)
LAW = Training({"fast": FAST, "slow": SLOW}, {"fast": LINK, "slow": LINK})


def test_one_node_is_the_iteration_model_times_its_gpus_and_its_own_speed():
    expected = throughput(FAST, LINK, 4, 1)
    assert LAW.rate([Spot(1, "fast", 4, 4)]) == pytest.approx(4 * expected)
    assert LAW.rate([Spot(1, "fast", 4, 4, speed=0.8)]) == pytest.approx(0.8 * 4 * expected)


def test_several_nodes_go_at_the_slowest_ones_speed():
    """Hops 3.5: config_throughput = min(throughput_i) * sum d_i."""
    spread = LAW.rate([Spot(1, "fast", 4, 4, speed=0.5), Spot(2, "fast", 2, 2)])
    assert spread == pytest.approx(6 * 0.5 * throughput(FAST, LINK, 6, 2))
    mixed = LAW.rate([Spot(1, "fast", 1, 1), Spot(2, "slow", 1, 1)])
    assert mixed == pytest.approx(2 * throughput(SLOW, LINK, 2, 2))


def test_errors_stand_by_gpu_count_on_one_node_and_by_node_count_over_several():
    law = Training(LAW.profiles, LAW.links, {"fast": ((1, 1, 0.9), (1, 1, 0.7))})
    assert law.per_gpu("fast", 2, 1) == pytest.approx(0.9 * throughput(FAST, LINK, 2, 1))
    assert law.per_gpu("fast", 6, 2) == pytest.approx(0.7 * throughput(FAST, LINK, 6, 2))
    assert law.per_gpu("fast", 9, 3) == pytest.approx(0.7 * throughput(FAST, LINK, 9, 3)), "the last one goes on"
    assert law.per_gpu("slow", 2, 1) == LAW.per_gpu("slow", 2, 1)


def test_a_model_without_bandwidths_says_so():
    with pytest.raises(ValueError, match="2 GPUs on 1 nodes of fast"):
        Training({"fast": FAST}, {"fast": Link(None, None)}).per_gpu("fast", 2, 1)
