"""Rounds under Sia and under Berth, on a small cluster."""

import pytest

from research.simulator.sia_rounds.berth import BerthRounds
from research.simulator.sia_rounds.learned import Learned
from research.simulator.sia_rounds.report import figures
from research.simulator.sia_rounds.rounds import simulate
from research.simulator.sia_rounds.sia import Rounded, SiaRounds
from research.simulator.sia_rounds.speeds import Known
from scheduler.parameters import Parameters
from scheduler.policies.rivals.typelevel.program import Bucket, Kind
from scheduler.simulator.world.truth import SimulationError
from tests.research.simulator.sia_rounds.cases import NODES, PLACES, job


def decider(policy, speeds):
    return SiaRounds(PLACES, speeds) if policy == "sia" else BerthRounds(NODES, PLACES, speeds, Parameters())


@pytest.mark.parametrize("kind", [Known, Learned])
@pytest.mark.parametrize("policy", ["sia", "berth"])
def test_everybody_ends_and_the_same_again(policy, kind):
    told = []
    for _ in range(2):
        speeds = kind(PLACES)
        jobs = [job(1), job(2, 30.0, name="yolov3"), job(3, 90.0), *(job(each, 600.0) for each in range(4, 9))]
        moments = simulate(jobs, PLACES, speeds, decider(policy, speeds))
        assert all(each.ended_s > each.submitted_s for each in jobs)
        assert max(sum(each.gpus.values()) for each in moments) <= 16
        assert jobs[0].waited_s == 60.0
        found = figures(jobs, PLACES)
        assert found["max_lr"] > 0
        told.append([found, *(each.ended_s for each in jobs)])
    assert told[0] == told[1]


def test_sia_leaves_a_job_alone_that_restarts():
    known = Known(PLACES)
    sia, own = SiaRounds(PLACES, known), job()
    own.give("t4", (1,), 0.0, known)
    assert sia.decide([own], 0.0) == {1: ("t4", (1,))}
    own.restart_left_s, own.epoch = 0.0, 1
    assert sia.decide([own], 6000.0) == {1: ("a100", (8,))}


def test_sias_values_are_rounded():
    kinds = [Kind(Bucket("t4", 4), size) for size in (1, 2)]
    exact = Rounded(1, 1, {kinds[0]: 1.0, kinds[1]: 1.5}).values()
    assert exact == {kinds[0]: pytest.approx(0.1), kinds[1]: pytest.approx(1.1 - 0.82)}


def test_who_gives_out_more_than_there_is_is_refused():
    class Generous:
        name = "generous"

        def decide(self, jobs, now_s):
            return {each.id: ("a100", (8,)) for each in jobs}

    with pytest.raises(SimulationError, match="generous gives out 16 GPUs of a100; there are 8"):
        simulate([job(1), job(2)], PLACES, Known(PLACES), Generous())


def test_berth_plans_when_something_is_new():
    """Of three plannings in a row the second has nothing new; in the third somebody came."""
    known = Known(PLACES)
    berth, first, second = decider("berth", known), job(1, ends=(1e9, 2e9)), job(2, 60.0)
    held = berth.decide([first], 60.0)
    first.give(*held[1], 60.0, known)
    assert berth.decide([first], 61.0) == held
    assert berth.decide([first, second], 62.0).keys() >= {1}
