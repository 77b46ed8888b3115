"""Core tuning in the simulated service (CODA V-B; algorithms.md section 8)."""

import pytest

from scheduler.parameters import Parameters
from scheduler.simulator.engine import Engine
from scheduler.simulator.world.truth import Hints, Spot, World
from scheduler.simulator.world.tuning import CoreBound
from tests.scheduler.builders import node
from tests.scheduler.simulator.cases import by_job, clock, run, traced


def training(number, *gpus, optimum=3, category="cv", work=3600.0, hints=None, **more):
    """A job whose tenant asks one hard core a GPU."""
    law = CoreBound(optimum)
    return traced(number, *gpus, law=law, work=work, category=category, hints=hints or Hints(), **more)


def test_speed_is_linear_up_to_the_optimum_and_drops_slightly_beyond():
    """CODA V-B, Fig. 3; spread over nodes two cores serve it and the network costs 25 to 30 % (IV-B.2)."""
    law = CoreBound(4, sensitivity=0.5)
    one = [law.rate([Spot(1, "a", 2, cores)]) for cores in (2, 4, 8, 12)]
    assert one == pytest.approx([0.25, 0.5, 1.0, 0.992])
    assert law.rate([Spot(1, "a", 1, 2), Spot(2, "a", 1, 2)]) == pytest.approx(0.725)
    assert [law.rate([Spot(1, "a", 1, 4, pressure=p)]) for p in (0.75, 1.5, 9.0)] == pytest.approx([1.0, 0.5, 0.5])


def test_without_tuning_a_job_has_the_cores_its_tenant_asked():
    made = by_job(run([training(1, 1)], [node(1, 4)]))
    assert made[1].ran_s == pytest.approx(3 * 3600)


def test_a_job_is_searched_for_its_optimum_a_step_each_90_s():
    """Category cv starts at 3: 2 is worse, 4 no better, 3 it stays: 90 s at 2/3 and 90 s at 0.996 of the speed."""
    made = run([training(1, 1)], [node(1, 4)], tunes_cores=True)
    lost_s = 90 * (1 / 3) + 90 * 0.004
    assert by_job(made)[1].ran_s == pytest.approx(3600 + lost_s)


def test_the_owners_largest_result_is_where_its_next_job_of_the_category_starts():
    jobs = [
        training(1, 1, optimum=5),
        training(2, 1, optimum=5, at_s=9000),
        training(3, 1, optimum=5, at_s=9000, tenant=2),
    ]
    made = run(jobs, [node(1, 4)], tunes_cores=True)
    first, second, other = (by_job(made)[number].ran_s for number in (1, 2, 3))
    assert second == pytest.approx(3600 + 90 * (1 / 5) + 90 * 0.004)
    assert other == pytest.approx(first)
    assert 5 + 3 in [each.cores_allocated for each in made.plannings]


def test_no_core_is_hard_and_a_job_gets_those_it_lacks_when_they_are_idle():
    """The CPU job leaves 1 of 4 cores; the training job starts with it, and has its 3 at the step after the CPU job ends."""
    jobs = [traced(1, cores=3, work=100), training(2, 1, at_s=1)]
    made = by_job(run(jobs, [node(1, 4, cores=4)], tunes_cores=True))
    assert made[2].started_s == 1.0
    lost_s = 180 * (2 / 3) + 90 * (1 / 3) + 90 * 0.004
    assert made[2].ran_s == pytest.approx(3600 + lost_s)


def test_what_a_job_asks_is_no_matter_unless_no_node_could_tune_it():
    """Eight cores a GPU asked; only the job of five GPUs, which no node has, keeps them as its wish."""
    jobs = [training(1, 1, cores=8, least_cores=8), training(2, 5, cores=1, least_cores=1)]
    engine = Engine(jobs, World([node(1, 4), node(2, 4)], tunes_cores=True), Parameters(), seed=1, clock=clock())
    engine.run(60.0)
    assert {number: load.cores for number, load in engine.simulated.loads.items()} == {1: 3, 2: 1}


SEARCH_S = 90 * (1 / 3) + 90 * 0.004
"""The loss of a search from 3 to 3: a step with 2 cores, and one with 4."""


@pytest.mark.parametrize(("move", "searches"), [(False, 1), (True, 2)], ids=["same node", "another node"])
def test_a_job_is_searched_again_after_a_move(move, searches):
    """It fails at half of its work and starts again: on its node, or on the other, whose only GPU was taken before."""
    first = [traced(1, 1, at_s=0, work=900)] if move else []
    jobs = [*first, training(2, 1, at_s=1, fails=(0.5,), retries=1, movable=True)]
    made = by_job(run(jobs, [node(1, 1), node(2, 1)], tunes_cores=True, failures=True, restart_s=0.0))
    assert made[2].ran_s == pytest.approx(3600 + searches * SEARCH_S)


def test_cores_that_cannot_be_had_end_the_search():
    """Start 3, 2 is worse, and of the 7 cores the CPU job holds 4: no fourth."""
    jobs = [traced(1, cores=4, work=9000), training(2, 1, optimum=6, at_s=1, work=900.0)]
    made = by_job(run(jobs, [node(1, 4, cores=7)], tunes_cores=True))
    assert made[2].ran_s == pytest.approx(2 * 900 + 90 * (1 / 3))


def test_cores_given_back_start_who_waits_for_them_at_once():
    jobs = [training(1, 1, optimum=1), traced(2, cores=3, at_s=1)]
    made = by_job(run(jobs, [node(1, 4, cores=4)], tunes_cores=True))
    assert made[2].started_s == pytest.approx(180.0)


def test_idle_gpus_that_lack_cores_alone_are_counted_apart():
    """Section 10, kind 1: the second job would have its GPU but for one of its two hard cores."""
    jobs = [traced(1, 1, cores=3, least_cores=3), traced(2, 1, cores=2, least_cores=2)]
    made = run(jobs, [node(1, 4, cores=4)])
    assert [(each.fragments, each.fragments_cores) for each in made.plannings[:2]] == [(3, 3), (0, 0)]
