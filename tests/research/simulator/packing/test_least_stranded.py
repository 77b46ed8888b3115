"""Berth's place on shared GPUs: what a node can still be filled with, and the rule made of both."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.simulator.packing.fill import Fill
from research.simulator.packing.least_stranded import LeastStranded, workload_mix
from research.simulator.packing.node_scores import NodeScores
from research.simulator.packing.pool import Host, Pool
from research.simulator.packing.protocol import fewest_gpus
from scheduler.simulator.traces.openb import Demand

HALF, PART, SMALL = Demand(1000, 10, 1, 500), Demand(1000, 10, 1, 800), Demand(1000, 10, 1, 200)
ONE, PAIR, CPU = Demand(4000, 100, 1, 1000), Demand(8000, 100, 2, 1000), Demand(4000, 100, 0, 0)


def host(name="n", *, cores=16, memory_mib=1000, gpus=2, model="a"):
    return Host(name, cores * 1000, memory_mib, gpus, model)


def node_scores(hosts, workload, seed=1):
    pool = Pool(hosts)
    return NodeScores(LeastStranded.expecting(workload, pool.models), pool, np.random.default_rng(seed))


def test_the_fewest_gpus():
    assert fewest_gpus({500: 3, 800: 2, 200: 1}) == pytest.approx(3.5)
    assert fewest_gpus({}) == 0


class TestFill:
    def filled(self, demand, gpu, cores=16, memory_mib=1000):
        fill = Fill({demand: 1.0}, ("a",))
        return float(fill.fillable(np.array([gpu]), np.array([cores * 1000]), np.array([memory_mib]), np.array([0]))[0])

    def test_counts_all_that_the_class_could_use(self):
        assert self.filled(ONE, [1000, 1000]) == 2000
        assert self.filled(HALF, [1000, 400]) == 1000
        assert self.filled(PAIR, [1000, 1000, 1000]) == 2000

    def test_counts_only_what_cores_and_memory_reach_for(self):
        """A quarter that the class alone could fill, of two fifths that count as nearly all."""
        assert self.filled(ONE, [1000, 1000], memory_mib=99) == 0
        assert self.filled(HALF, [1000, 1000], cores=1) == pytest.approx(0.98 * 2000 * 0.25 / 0.4 + 0.02 * 500)

    def test_counts_as_nearly_all_what_others_can_fill_the_rest_of(self):
        """Half of it the class fills alone: lighter jobs come, too."""
        assert self.filled(ONE, [1000, 1000], cores=7) == pytest.approx(0.98 * 2000 + 0.02 * 1000)
        assert self.filled(ONE, [1000, 1000], cores=7) < self.filled(ONE, [1000, 1000], cores=8)

    def test_weighs_classes_by_frequency_and_counts_none_on_models_not_allowed(self):
        elsewhere = Demand(1000, 10, 1, 1000, frozenset({"b"}))
        fill = Fill({ONE: 0.75, elsewhere: 0.25}, ("a", "b"))
        two = np.array([[1000], [1000]])
        cores, memory = np.array([4000, 4000]), np.array([100, 100])
        assert list(fill.fillable(two, cores, memory, np.array([0, 1]))) == [750, 1000]


class TestRule:
    def test_fills_the_gap_that_nothing_else_would(self):
        """A fifth goes beside four fifths, not beside the half that waits for another half."""
        own = node_scores([host("halves", gpus=1), host("fifths", gpus=1)], [HALF] * 10 + [PART] * 10 + [SMALL])
        own.pool.take(0, (0,), HALF)
        own.pool.take(1, (0,), PART)
        assert own.place(SMALL) == (1, (0,))

    def test_takes_the_gpu_whose_gap_it_wastes_least(self):
        own = node_scores([host(gpus=3)], [HALF] * 10 + [PART])
        own.pool.take(0, (1,), HALF)
        assert own.place(HALF) == (0, (1,))
        assert own.place(HALF) == (0, (0,))

    def test_spoils_no_half_for_a_third(self):
        """0.3 beside 0.5 would waste the half (0.5 -> 0); beside 0.4 it leaves room for another (2/3 -> 1/3)."""
        part = {milli: Demand(1000, 10, 1, milli) for milli in (300, 400, 500, 600)}
        own = node_scores([host(gpus=1), host(gpus=1)], [part[300]] * 8 + [part[500]] * 7 + [part[600]] * 5)
        own.pool.take(0, (0,), part[500])
        own.pool.take(1, (0,), part[400])
        assert own.place(part[300]) == (1, (0,))

    def test_opens_a_gpu_where_those_in_use_suit_others_better(self):
        """0.5 into a gap of 0.6 would waste three fifths; half of an idle GPU stays for another half."""
        part = {milli: Demand(1000, 10, 1, milli) for milli in (200, 400, 500, 800)}
        own = node_scores([host(gpus=1), host(gpus=1)], [part[200]] * 6 + [part[500]] * 4 + [part[800]])
        own.pool.take(1, (0,), part[400])
        assert own.place(part[500]) == (0, (0,))

    def test_spends_cores_where_gpus_will_not_need_them(self):
        """A CPU job goes where cores abound; the other node needs all of its cores for its GPUs."""
        own = node_scores([host("tight", cores=8), host("ample", cores=32)], [ONE] * 10)
        assert own.place(CPU) == (1, ())

    def test_leaves_nodes_with_few_cores_to_light_jobs(self):
        """Heavy jobs take the node with cores to spare, where they strand nothing; the other's GPUs are left to light ones."""
        light, heavy = Demand(2000, 10, 1, 1000), Demand(12000, 10, 1, 1000)
        own = node_scores([host("tight", cores=16, gpus=2), host("ample", cores=64, gpus=2)], [light] * 5 + [heavy] * 5)
        assert [own.place(heavy)[0] for _ in range(2)] == [1, 1]

    def test_minds_memory_as_well(self):
        own = node_scores([host("tight", memory_mib=200), host("ample", memory_mib=2000)], [ONE] * 10)
        assert own.place(CPU) == (1, ())

    def test_keeps_to_the_models_allowed(self):
        only_b = Demand(1000, 10, 1, 500, frozenset({"b", "c"}))
        own = node_scores([host("a"), host("b", model="b", gpus=1)], [only_b])
        assert [own.place(only_b) for _ in range(3)] == [(1, (0,)), (1, (0,)), None]

    def test_prefers_the_fuller_of_equal_nodes(self):
        own = node_scores([host("idle", gpus=2, cores=64), host("used", gpus=2, cores=64)], [ONE] * 10)
        own.pool.take(1, (0,), ONE)
        assert own.place(ONE) == (1, (1,))

    def test_without_a_workload_to_expect_fills_what_is_in_use(self):
        own = node_scores([host("idle", gpus=2), host("used", gpus=2)], [])
        own.pool.take(1, (1,), HALF)
        assert [own.place(demand) for demand in (SMALL, CPU, ONE, ONE)] == [(1, (1,)), (1, ()), (1, (0,)), (0, (0,))]

    def test_gives_several_gpus_of_one_node(self):
        own = node_scores([host(gpus=1), host(gpus=1), host(gpus=2)], [ONE, PAIR])
        assert own.place(PAIR) == (2, (0, 1))
        assert own.place(PAIR) is None


class TestMix:
    def test_keeps_the_most_frequent_classes(self):
        assert workload_mix([ONE] * 6 + [HALF] * 3 + [PAIR]) == {ONE: 0.6, HALF: 0.3, PAIR: 0.1}
        assert workload_mix([ONE] * 96 + [HALF] * 3 + [PAIR]) == {ONE: 0.96}


class TestPool:
    def test_refuses_what_does_not_fit_and_takes_back_what_ends(self):
        pool = Pool([host(cores=4, memory_mib=100)])
        pool.take(0, (1,), ONE)
        with pytest.raises(ValueError, match="does not fit on GPUs"):
            pool.take(0, (1,), SMALL)
        with pytest.raises(ValueError, match="more cores or memory than idle on n"):
            pool.take(0, (0,), ONE)
        pool.give_back(0, (1,), ONE)
        assert (pool.allocated, int(pool.cpu[0]), int(pool.memory[0])) == (0, 4000, 100)

    @pytest.mark.parametrize(
        ("gpus", "milli", "complaint"),
        [(1, 0, "neither"), (0, 500, "neither"), (1, 1001, "neither"), (2, 500, "taken whole"), (-1, 0, "negative")],
    )
    def test_demands_make_sense(self, gpus, milli, complaint):
        with pytest.raises(ValueError, match=complaint):
            Demand(1, 1, gpus, milli)


DEMANDS = st.sampled_from([HALF, PART, SMALL, ONE, PAIR, CPU, Demand(0, 0, 1, 70, frozenset({"a"}))])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(DEMANDS, st.booleans()), max_size=25), st.integers(0, 3))
def test_nothing_is_handed_out_twice_and_scores_kept_are_scores_anew(steps, seed):
    """No GPU beyond 1000, no node beyond its cores and memory; the board's kept scores place as fresh ones would."""
    hosts = [host("x", cores=9), host("y", gpus=3, model="b"), host("z", gpus=1, memory_mib=210)]
    workload = [HALF, PART, SMALL, ONE, PAIR]
    kept, fresh = node_scores(hosts, workload, seed), node_scores(hosts, workload, seed)
    held = []
    for demand, ends in steps:
        fresh.rows.clear()
        place = kept.place(demand)
        assert place == fresh.place(demand)
        held += [] if place is None else [(*place, demand)]
        if ends and held:
            ended = held.pop(0)
            kept.pool.give_back(*ended)
            fresh.pool.give_back(*ended)
        for n, each in enumerate(hosts):
            here = [(gpus, demand) for node, gpus, demand in held if node == n]
            assert sum(demand.cpu_milli for _, demand in here) <= each.cpu_milli
            assert sum(demand.memory_mib for _, demand in here) <= each.memory_mib
            for gpu in range(each.gpus):
                assert sum(demand.gpu_milli for gpus, demand in here if gpu in gpus) <= 1000
