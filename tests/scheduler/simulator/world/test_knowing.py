"""What the scheduler is told of jobs before they have run, and of what they ran on."""

from scheduler.model.speeds import CellKey
from scheduler.simulator.engine import Engine
from scheduler.simulator.rivals import parameters_for
from scheduler.simulator.world.truth import World
from tests.scheduler.builders import node
from tests.scheduler.simulator.cases import PerGpu, clock, traced


def driven(jobs, until_s, policy="fifo"):
    seen = []
    knobs = parameters_for(policy, {"tick_s": 30})
    world = World([node(1, 4)])
    engine = Engine(jobs, world, knobs, seed=1, clock=clock(), watch=lambda state, plan, decided: seen.append(state))
    engine.run(until_s)
    return engine, seen


KNOWN = {("a100", 2, 1): 5.0, ("a100", 8, 2): 3.0}


def test_what_a_trace_knows_is_one_measurement_in_the_cells_of_the_type():
    engine, _ = driven([traced(1, 2, known=KNOWN, model_label="m")], 0.0)
    cells = engine.simulated.knowing.knowledge.cells
    assert {key: (cell.count, cell.mean) for key, cell in cells.items()} == {
        CellKey("tenant:1:m", "a100", gpus=2): (1, 5.0),
        CellKey("tenant:1:m", "a100", gpus=8, nodes=2): (1, 3.0),
    }


def test_what_was_measured_is_not_overruled_by_what_the_next_job_brings():
    more = {"law": PerGpu(), "model_label": "m", "known": KNOWN, "reports": True}
    engine, _ = driven([traced(1, 2, work=400.0, **more), traced(2, 2, at_s=500.0, **more)], 500.0)
    cell = engine.simulated.knowing.knowledge.cells[CellKey("tenant:1:m", "a100", gpus=2)]
    assert (cell.count, cell.mean < 5.0) == (2, True)


def test_what_is_known_of_a_job_that_is_comparable_to_itself_alone_goes_with_it():
    engine, _ = driven([traced(1, 2, work=100.0, known=KNOWN)], 200.0)
    assert engine.simulated.knowing.knowledge.cells == {}


def test_the_most_gpus_that_a_job_has_run_on_stand_in_its_description():
    _, seen = driven([traced(1, 2, 4, movable=True), traced(2, 1, at_s=50.0)], 60.0)
    assert seen[0].jobs[0].most_gpus == 0
    assert seen[-1].running[0].description.most_gpus == 4
