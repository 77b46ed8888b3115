"""`./berth bench never-late`: its keys, its instances, and that its judge of plans can say no. Times are not asserted."""

import json
from dataclasses import replace

from research.bench.never_late import (
    KINDS,
    instance_of,
    long_measure,
    never_late_measure,
    never_late_report,
    violations,
)
from scheduler.model import Decision, Piece, Placement, Plan, Result
from tests.scheduler.builders import make_plan


def test_the_sweep_gives_its_figures():
    figures = never_late_measure(instances=1, seed=5)
    assert json.loads(never_late_report(figures, as_json=True)) == figures
    assert set(figures) >= {"instances", "late", "worst_ratio", "infeasible", "without_gap"}
    assert (figures["instances"], figures["infeasible"]) == (1, 0)
    assert "1 plannings" in never_late_report(figures, as_json=False)


def test_an_instance_is_the_same_each_time_and_every_kind_has_its_turn():
    assert instance_of(1, 2) == instance_of(1, 2)
    assert instance_of(1, 2) != instance_of(2, 2)
    assert {instance_of(1, number).kind for number in range(4)} == set(KINDS)
    assert len(instance_of(1, 3).state.jobs) == 700


def test_what_is_handed_out_twice_or_is_not_there_is_seen():
    state = instance_of(1, 0).state
    first = state.jobs[0]
    made = make_plan(state.nodes, state.jobs[:1])

    def planned(*pieces: Piece) -> Plan:
        placed = Decision(first.id, Result.PLACED, None, {}, placement=Placement(first.id, pieces))
        return replace(made, decisions=(placed,))

    node = state.nodes[0]
    there = Piece(node.id, node.idle_gpus[:1], node.idle_cores[:1], 0)
    assert "placed twice" not in " ".join(violations(planned(there), state))
    assert any("times" in wrong for wrong in violations(planned(there, there), state))
    assert any("memory" in wrong for wrong in violations(planned(replace(there, memory_mib=10**9)), state))
    assert any("GPUs" in wrong for wrong in violations(planned(replace(there, gpus=(97, 98, 99, 96, 95, 94))), state))
    assert violations(made, state) == []


def test_a_long_queue_is_planned_on_a_core_of_its_own_and_on_starved_ones():
    measured = long_measure(0, 1, jobs=80, nodes=6)
    assert [each["slowness"] for each in measured] == [1.0, 4.0, 6.0]
    for figures in measured:
        assert figures["placed"] > 0
        assert not figures["infeasible"]
        assert figures["ratio"] > 0
