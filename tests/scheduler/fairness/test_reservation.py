"""Which nodes suit a starving job soonest: against a search that looks at all nodes after each end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.fairness import reservation
from scheduler.fairness.reservation import soonest
from scheduler.model import Piece, Running
from scheduler.placement.free_capacity import Offer
from tests.scheduler.builders import NOW_S, job, node

SIZES = st.sampled_from([1, 2, 4, 8])


@st.composite
def clusters(draw):
    """Nodes of two types with what is idle, and what runs on the rest, an end each."""
    nodes = [node(n, draw(SIZES), gpu_type=draw(st.sampled_from("ab"))) for n in range(1, draw(st.integers(2, 7)))]
    live, idle = [], {}
    for each in nodes:
        free = each.gpus_total
        while free and draw(st.booleans()):
            held = draw(st.integers(1, free))
            ends_s = NOW_S + 60.0 * draw(st.integers(1, 5))
            piece = Piece(each.id, tuple(range(free - held, free)), tuple(range(held)), 0)
            live.append(Running(len(live) + 1, 1, (piece,), NOW_S - 10.0, (held,), expected_end_s=ends_s))
            free -= held
        idle[each.id] = Offer(each, free, free * 4, each.memory_total_mib)
    return nodes, list(idle.values()), live


@settings(max_examples=150, deadline=None)
@given(cluster=clusters(), size=st.integers(1, 14))
def test_no_nodes_suit_the_job_sooner_and_no_fewer(cluster, size):
    nodes, idle, live = cluster
    largest = {kind: max(n.gpus_total for n in nodes if n.gpu_type == kind) for kind in {n.gpu_type for n in nodes}}
    found = soonest(job(1, size), idle, live, largest, NOW_S)
    for at_s in sorted({NOW_S, *(each.expected_end_s for each in live)}):
        free = {
            offer.node.id: offer.gpus
            + sum(
                len(each.pieces[0].gpus)
                for each in live
                if each.pieces[0].node == offer.node.id and each.expected_end_s <= at_s
            )
            for offer in idle
        }
        single = [number for number in free if free[number] >= size]
        of_type = {kind: [free[n.id] for n in nodes if n.gpu_type == kind] for kind in largest if size > largest[kind]}
        together = [kind for kind, parts in of_type.items() if sum(parts) >= size]
        if single or together:
            break
    else:
        assert found is None
        return
    assert found.until_s == at_s
    if single:
        assert [*found.nodes] == [min(single, key=lambda number: (free[number], number))]
    else:
        kinds = {each.gpu_type for each in nodes if each.id in found.nodes}
        held = sorted((free[number] for number in found.nodes), reverse=True)
        assert kinds <= set(together)
        assert len(kinds) == 1
        assert sum(held) >= size
        assert sum(held[:-1]) < size


def test_a_thousand_nodes_are_not_all_looked_at_after_each_end(monkeypatch):
    """A job that nothing will ever hold: each node is looked at once, and again when something there ends."""
    count, looked = 200, 0
    whole = reservation.aggregated_gpus

    def counted(*args):
        nonlocal looked
        looked += 1
        return whole(*args)

    monkeypatch.setattr(reservation, "aggregated_gpus", counted)
    idle = [Offer(replace(node(n, 8), gpu_type="a"), 0, 32, 256_000) for n in range(1, count + 1)]
    live = [
        Running(n, 1, (Piece(n, (0, 1, 2, 3), (), 0),), NOW_S - 9.0, (4,), expected_end_s=NOW_S + n)
        for n in range(1, count + 1)
    ]
    assert soonest(job(1, 8), idle, live, {"a": 8}, NOW_S) is None
    assert looked <= 2 * count


@pytest.mark.parametrize("size", [9, 16])
def test_a_job_larger_than_a_node_gets_the_fewest_nodes(size):
    idle = [Offer(node(n, 8), gpus, 32, 256_000) for n, gpus in enumerate((8, 2, 8, 8), start=1)]
    assert soonest(job(1, size), idle, (), {"a100": 8}, NOW_S).nodes == {1, 3}
