"""The published packers by scores computed by hand, and their protocol (Weng et al., USENIX ATC '23, sections 4-6)."""

import math

import numpy as np
import pytest

from research.simulator.packing.bestfit import BestFit
from research.simulator.packing.clustering import Clustering
from research.simulator.packing.dotproduct import DotProduct
from research.simulator.packing.fgd import Fgd
from research.simulator.packing.fragments import Mix
from research.simulator.packing.gpupacking import GpuPacking
from research.simulator.packing.node_scores import NodeScores
from research.simulator.packing.pool import Host, Pool
from research.simulator.packing.protocol import PACKERS, arrivals, pack
from research.simulator.packing.random_fit import RandomFit
from scheduler.simulator.traces.openb import Demand

PART, ONE, PAIR, CPU = (
    Demand(8000, 0, 1, 400),
    Demand(8000, 0, 1, 1000),
    Demand(8000, 0, 2, 1000),
    Demand(8000, 0, 0, 0),
)
RNG = np.random.default_rng(0)


def pool(*gpus_and_cores):
    return Pool([Host(f"n{n}", cores * 1000, 1000, gpus, "a") for n, (gpus, cores) in enumerate(gpus_and_cores)])


def scores(packer, nodes, demand):
    return list(packer.score(nodes, np.arange(len(nodes.hosts)), demand))


def test_best_fit_leaves_least():
    """Node 0: 8 of 128 cores and 0.6 of 8 GPUs left: 100 * (1 - 0.03125 - 0.0375) = 93.1; node 1: 24 and 1.6: 80.6."""
    assert scores(BestFit(), pool((1, 16), (2, 32)), PART) == [93, 80]
    assert scores(BestFit(), pool((1, 16), (2, 32)), CPU) == [90, 78]


def test_dot_product_goes_against_the_direction():
    """16/128 * 8/128 + 1/8 * 0.4/8 = 0.0141, halved: 99.3; 128/128 * 8/128 + 8/8 * 0.4/8 = 0.1125, halved: 94.4."""
    assert scores(DotProduct(), pool((1, 16), (8, 128)), PART) == [99, 94]


def test_packing_takes_gpus_in_use_then_nodes_in_use_then_idle_nodes():
    nodes = pool((2, 64), (2, 64), (8, 64))
    nodes.take(0, (0,), PART)
    nodes.take(1, (0,), ONE)
    assert scores(GpuPacking(), nodes, PART) == [94, 49, 25]  # 100 - 60 % / 10; 50 - 1; 33 - 8
    assert scores(GpuPacking(), nodes, ONE) == [49, 49, 25]
    assert scores(GpuPacking(), nodes, CPU) == [0, 0, 0]


def test_clustering_keeps_kinds_together():
    nodes, packer = pool((2, 64), (2, 64), (2, 64), (2, 64)), Clustering()
    for node, demand in ((0, PART), (1, PART), (1, ONE), (2, ONE)):
        gpus = packer.gpus(nodes, node, demand, RNG)
        nodes.take(node, gpus, demand)
    # 25 * (8 - idle) / 8, whole: 1.6 idle 20; 0.6 idle 23; 1 idle 21; 2 idle 18.
    assert scores(packer, nodes, PART) == [95, 73, 21, 43]
    assert scores(packer, nodes, CPU) == [0, 0, 0, 0]


class TestFragments:
    MIX = Mix({PART: 0.5, ONE: 0.25, CPU: 0.25}, ("a",))

    def usable(self, gpu, cores):
        return float(self.MIX.usable(np.array(gpu), np.array(cores * 1000), np.array(0)))

    def test_are_what_an_arriving_job_could_not_use(self):
        """Section 4.2: of 1.3 idle GPUs a 0.4 could use 1.0 (0.3 is too little), a whole one 1.0, a CPU job none."""
        assert self.usable([1000, 300], 8) == 0.5 * 1000 + 0.25 * 1000
        assert self.usable([1000, 400], 8) == 0.5 * 1400 + 0.25 * 1000

    def test_are_everything_where_cores_lack(self):
        assert self.usable([1000, 400], 7) == 0

    def test_descent_places_where_they_grow_least(self):
        """Equation 3. On node 0 the 0.4 leaves 0.6: usable 750 -> 0.5 * 600; on node 1 it fills a gap: 200 -> 0."""
        nodes = pool((1, 64), (1, 64))
        nodes.take(1, (0,), Demand(0, 0, 1, 600))
        grown = [750 - 300 - 400, 200 - 0 - 400]
        by_hand = [math.trunc(100 / (1 + math.exp(growth / 1000))) for growth in grown]
        assert scores(Fgd(self.MIX), nodes, PART) == by_hand == [48, 54]

    def test_descent_scores_fifty_where_nothing_is_lost(self):
        thirds = Mix({PART: 1 / 3, ONE: 1 / 3, PAIR: 1 / 3}, ("a",))
        assert scores(Fgd(thirds), pool((1, 640), (2, 640), (3, 640)), CPU) == [50, 50, 50]

    def test_descent_takes_the_first_gpu_of_the_best_score(self):
        nodes = pool((3, 64))
        nodes.take(0, (1,), Demand(0, 0, 1, 600))
        assert Fgd(self.MIX).gpus(nodes, 0, PART, RNG) == (1,)
        assert Fgd(self.MIX).gpus(nodes, 0, PAIR, RNG) == (0, 2)

    def test_classes_are_the_most_frequent_without_their_memory(self):
        packer = Fgd.expecting([PART] * 50 + [Demand(8000, 7, 1, 400)] * 46 + [ONE] * 4, ("a",))
        assert list(packer.mix.shares.items()) == [(PART, 1.0)]


def test_random_draws_nodes_and_gpus():
    node_scores = NodeScores(RandomFit(), pool((2, 640), (2, 640)), np.random.default_rng(3))
    drawn = {node_scores.place(Demand(0, 0, 1, 1)) for _ in range(60)}
    assert drawn == {(0, (0,)), (0, (1,)), (1, (0,)), (1, (1,))}


class TestProtocol:
    def test_draws_until_thirteen_tenths_of_capacity(self):
        order = arrivals([PART, ONE, CPU], 10_000, np.random.default_rng(1))
        assert {PART, ONE, CPU} == set(order[:3])
        assert 12_000 < sum(each.milli for each in order) <= 13_000

    def test_thins_a_list_that_is_longer(self):
        assert len(arrivals([ONE] * 20, 10_000, np.random.default_rng(1))) == 13

    def test_needs_gpus_to_fill(self):
        with pytest.raises(ValueError, match="no pod of the list asks for a GPU"):
            arrivals([CPU], 1000, RNG)

    @pytest.mark.parametrize("packer", PACKERS)
    def test_runs_every_packer_and_the_same_seed_gives_the_same(self, packer):
        hosts = [Host(f"n{n}", 64_000, 1000, 2, "ab"[n % 2]) for n in range(6)]
        demands = [PART, ONE, PAIR, CPU, Demand(1000, 1, 1, 600)] * 3
        first = pack(hosts, demands, packer, 5)
        assert first == pack(hosts, demands, packer, 5)
        assert 0 < first.share_pct[max(first.share_pct)] <= 100
        assert max(first.share_pct) >= 120

    def test_says_what_the_accepted_parts_allow_at_most(self):
        """Parts of 0.6 stand alone: 2 GPUs' 0.4 are lost however they are put."""
        packed = pack([Host("n", 1_000_000, 10, 2, "a")], [Demand(0, 0, 1, 600)], "bestfit", 1)
        assert packed.share_at(130) == pytest.approx(60)
        assert packed.bound_pct == pytest.approx(60)

    def test_a_perfect_fit_is_all_allocated_and_the_rest_refused(self):
        packed = pack([Host("n", 1_000_000, 10, 4, "a")], [ONE], "bestfit", 1)
        assert packed.share_pct == {25: 25.0, 50: 50.0, 75: 75.0, 100: 100.0, 125: 100.0}
        assert (packed.arrived, packed.refused, packed.bound_pct) == (5, 1, 100.0)
        assert [packed.share_at(pct) for pct in (99, 100, 130)] == [75.0, 100.0, 100.0]
