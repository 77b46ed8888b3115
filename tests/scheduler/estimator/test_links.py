"""Links before and beside their measurement: what nodes tell, what jobs recorded, and what a liar can do with it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimator.links import FARTHEST, Told, assumed_between, assumed_within, communicated, refined

RATES = st.floats(1e3, 1e15)


def test_the_slowest_node_of_a_type_speaks_for_it():
    fast, slow = Told(nvlink_gbps=300.0, network_mbps=100_000), Told(pcie_generation=4, pcie_lanes=16)
    assert assumed_within([fast]).value == pytest.approx(0.75 * 300e9 / 8)
    assert assumed_within([fast, slow]).words == "PCIe 4 x16"
    assert assumed_between([fast]).value == pytest.approx(0.8 * 12.5e9 / 8)
    assert assumed_between([fast]).words == "100 Gbit/s"


def test_what_no_node_tells_is_said_to_be_assumed_all_the_same():
    for nodes in ((), (Told(),), (Told(pcie_generation=99, pcie_lanes=16),)):
        assert assumed_within(nodes).words == "PCIe 3 x16, as no node tells its links"
        assert assumed_within(nodes).value > 0
    assert "no node tells" in assumed_between([Told()]).words


def test_a_ring_on_one_node_moves_a_part_of_the_parameters():
    assert communicated(1e6, 0.5, gpus=4, nodes=1) == pytest.approx(1.5e6)
    assert communicated(1e6, 0.5, gpus=4, nodes=2) == pytest.approx(2e6)
    no_time = ((1e6, 0.0, 4, 1), (1e15, 5e-324, 4, 1), (1e15, 1e-3, 4, 1))
    for nothing in ((1e6, 0.5, 1, 1), (0.0, 0.5, 4, 1), (float("inf"), 1.0, 4, 1), *no_time):
        assert communicated(*nothing) is None


@given(base=RATES, honest=st.lists(RATES, max_size=4), lie=RATES)
@settings(max_examples=60)
def test_one_liar_among_others_moves_a_link_no_farther_than_the_others_stand(base, honest, lie):
    """Between the smallest and the largest of what the base and the honest tenants say, whatever the liar says."""
    settled = refined(base, [*honest, lie])
    assert base / FARTHEST <= settled <= base * FARTHEST
    assert min([base, *honest]) <= settled <= max([base, *honest]) or settled in (base / FARTHEST, base * FARTHEST)
    assert refined(base, [lie]) == base, "alone among other tenants it moves nothing"


def test_a_cluster_of_one_tenant_learns_from_it():
    assert refined(100.0, [250.0], alone=True) == 250.0
    assert refined(100.0, [1e9], alone=True) == 400.0
    assert refined(100.0, [], alone=True) == 100.0
