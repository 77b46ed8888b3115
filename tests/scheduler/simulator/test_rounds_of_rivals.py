"""Rivals play by the rounds that they published, unless the knobs say otherwise."""

from scheduler.parameters import Parameters
from scheduler.simulator.rivals import parameters_for


def test_sia_has_rounds_of_a_minute_and_others_the_default():
    rounds = {name: parameters_for(name).replan_s for name in ("sia", "sia-hops", "gavel", "berth")}
    assert rounds == {"sia": 60.0, "sia-hops": 60.0, "gavel": Parameters().replan_s, "berth": Parameters().replan_s}
    assert parameters_for("sia", {"replan_s": 360.0}).replan_s == 360.0
